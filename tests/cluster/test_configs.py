"""Rules for changing settings, with the codes and words of Kafka 4.3."""

import pytest

from kompat.cluster.requests import ConfigChange, ConfigOp, ConfigReplacement
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode
from tests.cluster.support import Cluster, broker, changing, group, metrics, refused, replacing, setting, topic

SET, DELETE, APPEND, SUBTRACT = ConfigOp


@pytest.fixture
def cluster() -> Cluster:
    return Cluster("t")


def test_a_change_leaves_the_other_settings_alone(cluster: Cluster) -> None:
    cluster.alter(setting(topic("t"), retention_ms="5", flush_ms="6"))
    assert cluster.alter(changing(topic("t"), ("retention.ms", DELETE, None), ("segment.ms", SET, "7"))) is None

    assert cluster.machine.state.topics["t"].configs == {"flush.ms": "6", "segment.ms": "7"}


def test_a_replacement_does_not(cluster: Cluster) -> None:
    cluster.alter(setting(topic("t"), retention_ms="5"))
    assert cluster.alter(replacing(topic("t"), ("segment.ms", "7"))) is None

    assert cluster.machine.state.topics["t"].configs == {"segment.ms": "7"}


def test_lists_are_edited_from_what_is_in_force(cluster: Cluster) -> None:
    def policy() -> str:
        return cluster.machine.state.topics["t"].configs["cleanup.policy"]

    for _ in range(2):
        cluster.alter(changing(topic("t"), ("cleanup.policy", APPEND, "compact")))
        assert policy() == "delete,compact"
    for _ in range(2):
        cluster.alter(changing(topic("t"), ("cleanup.policy", SUBTRACT, "delete,nonsense")))
        assert policy() == "compact"


def test_nothing_is_written_where_nothing_changes(cluster: Cluster) -> None:
    cluster.alter(setting(topic("t"), retention_ms="5"))
    before = len(cluster.records)

    cluster.alter(setting(topic("t"), retention_ms="5"))
    cluster.alter(changing(topic("t"), ("foo", DELETE, None)))

    assert len(cluster.records) == before


def test_validating_changes_nothing(cluster: Cluster) -> None:
    assert cluster.alter(setting(topic("t"), retention_ms="5"), validate_only=True) is None
    refused(cluster.alter(setting(topic("t"), retention_ms="x"), validate_only=True), ErrorCode.INVALID_CONFIG)
    assert not cluster.machine.state.topics["t"].configs


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (changing(topic("t"), ("retention.ms", APPEND, "5")), ErrorCode.INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
        (changing(topic("t"), ("retention.ms", 9, "5")), ErrorCode.INVALID_REQUEST, None),
        (changing(topic("t"), ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (changing(topic("t"), ("foo", SET, "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (changing(topic("t"), ("foo", APPEND, "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (changing(topic("t"), ("flush.ms", SET, "1"), ("flush.ms", SET, "2")), ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        (setting(topic("nope"), flush_ms="1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (setting(topic(""), flush_ms="1"), ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (setting(topic("a b"), flush_ms="1"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (setting(topic("t"), remote_storage_enable="true"), ErrorCode.INVALID_CONFIG, None),
        (replacing(topic("t"), ("flush.ms", None)), ErrorCode.INVALID_REQUEST, "Null value not supported for : flush.ms"),
        (replacing(topic("nope")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (setting(broker(), num_partitions="2"), ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [num.partitions]"),
        (setting(broker("2"), log_retention_ms="1"), ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
        (setting(broker("x"), log_retention_ms="1"), ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (setting(broker(), advertised_listeners="PLAINTEXT://a:1"), ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [advertised.listeners]"),
        (setting(broker(), listeners="PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [listeners]"),
        (setting(broker(), foo_bar="1"), ErrorCode.INVALID_REQUEST, "Unknown broker configs: [foo.bar]"),
        (setting(broker(), log_segment_bytes="5"), ErrorCode.INVALID_REQUEST, "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576"),
        (setting(broker(), message_max_bytes="x"), ErrorCode.INVALID_REQUEST, "Invalid value x for configuration message.max.bytes: Not a number of type INT"),
        (setting(broker(), log_retention_ms="0"), ErrorCode.INVALID_REQUEST, "log.retention.ms must be at least 1, or -1 for no limit"),
        (setting(group(""), consumer_session_timeout_ms="50000"), ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        (setting(group(), foo="1"), ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
        (setting(group(), consumer_session_timeout_ms="5"), ErrorCode.INVALID_CONFIG, None),
        (setting(metrics(""), interval_ms="5000"), ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
        (setting(metrics(), foo="1"), ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: foo"),
        (setting(metrics(), interval_ms="x"), ErrorCode.INVALID_CONFIG, "Invalid value x for configuration interval.ms: Not a number of type INT"),
        (setting(metrics(), interval_ms="5"), ErrorCode.INVALID_REQUEST, None),
        (setting(metrics(), match="foo=a.*"), ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: foo=a.*"),
        (
            setting(metrics(), match="client_id=(a)\\1"),
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id=(a)\\1",
        ),
        (setting(metrics(), match="client_id=["), ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=["),
        (setting(metrics(), match="client_id"), ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
    ],
)  # fmt: skip
def test_what_kafka_refuses_is_refused(
    cluster: Cluster, wanted: ConfigChange | ConfigReplacement, code: ErrorCode, message: str | None
) -> None:
    before = len(cluster.records)

    refused(cluster.alter(wanted), code, message)
    assert len(cluster.records) == before


def test_a_resource_is_changed_once_a_request(cluster: Cluster) -> None:
    wanted = [
        setting(topic("t"), flush_ms="1"),
        setting(topic("t"), retention_ms="1"),
        setting(group(), share_delivery_count_limit="3"),
    ]

    first, second, third = cluster.do(cluster.machine.alter_configs(wanted, config=cluster.config))

    refused(first, ErrorCode.INVALID_REQUEST)
    refused(second, ErrorCode.INVALID_REQUEST)
    assert third is None


def test_settings_of_groups_and_subscriptions_are_kept_until_the_last_is_deleted(cluster: Cluster) -> None:
    assert cluster.alter(setting(group(), consumer_session_timeout_ms="50000")) is None
    assert (
        cluster.alter(setting(metrics(), interval_ms="5000", match="client_id=a.*,client_source_port=1", metrics="*"))
        is None
    )
    assert set(cluster.machine.state.configs) == {group(), metrics()}

    cluster.alter(replacing(group()))
    cluster.alter(changing(metrics(), *((name, DELETE, None) for name in ("interval.ms", "match", "metrics"))))
    assert not cluster.machine.state.configs


def test_lists_of_subscriptions_and_groups_are_edited_too(cluster: Cluster) -> None:
    cluster.alter(changing(metrics(), ("metrics", APPEND, "org.apache")))
    cluster.alter(changing(metrics(), ("metrics", APPEND, "other")))

    assert cluster.machine.state.configs[metrics()] == {"metrics": "org.apache,other"}


def test_a_setting_that_was_given_while_it_was_allowed_does_not_block_others() -> None:
    cluster = Cluster(config=BrokerConfig())
    cluster.alter(setting(broker(), log_retention_ms="5"))

    assert cluster.alter(replacing(broker(), ("log.retention.ms", "5"), ("message.max.bytes", "9"))) is None


def test_a_deleted_topics_settings_go_with_it(cluster: Cluster) -> None:
    cluster.alter(setting(topic("t"), flush_ms="1"))
    cluster.do(cluster.machine.delete_topics(["t"], config=cluster.config))

    again = Cluster("t")
    assert not again.machine.state.topics["t"].configs
    assert not cluster.machine.state.topics
