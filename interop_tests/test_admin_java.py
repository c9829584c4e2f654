"""Kafka's own Admin client: topics and configs, as its users see them."""

from typing import Any

import pytest

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.codes import Code
from interop_tests.support.java_admin import Admin, code
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker

UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAB7w"


@pytest.fixture
def admin(java: Worker, bootstrap: str) -> Admin:
    return Admin(java, bootstrap)


def test_a_topic_is_created_with_the_brokers_defaults(admin: Admin) -> None:
    name = fresh_name()

    created = admin.create(name)

    until(lambda: admin.partitions(name) == 1, "the topic is there")
    described = admin.describe(name)
    node = admin.node()
    assert (created["partitions"], created["replication"]) == (1, 1)
    assert created["id"] == described["id"]
    assert created["configs"] > 20
    assert described["partitions"] == [{"partition": 0, "leader": node, "replicas": [node], "isr": [node]}]
    assert described["internal"] is False


def test_validate_only_checks_and_creates_nothing(admin: Admin) -> None:
    name = fresh_name()

    assert admin.create(name, validate_only=True, partitions=3)["partitions"] == 3
    assert code(admin.create(name, validate_only=True, partitions=-5)) == Code.INVALID_PARTITIONS

    assert name not in admin.call("list_topics")


def test_replicas_may_be_assigned_by_hand(admin: Admin) -> None:
    name, node = fresh_name(), admin.node()

    created = admin.create(name, assignment={"0": [node], "1": [node], "2": [node]})

    assert (created["partitions"], created["replication"]) == (3, 1)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"partitions": 0}, Code.INVALID_PARTITIONS),
        ({"replication": 3}, Code.INVALID_REPLICATION_FACTOR),
        ({"assignment": {"0": [99]}}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {"1": [1]}}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"configs": {"no.such.config": "1"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, Code.INVALID_CONFIG),
        ({"configs": {"segment.bytes": "1"}}, Code.INVALID_CONFIG),
        ({"configs": {"cleanup.policy": "burn"}}, Code.INVALID_CONFIG),
    ],
    ids=str,
)
def test_a_topic_that_cannot_be_is_refused(admin: Admin, wanted: dict[str, Any], expected: Code) -> None:
    name = fresh_name()

    assert code(admin.create(name, **wanted)) == expected

    assert name not in admin.call("list_topics")


@pytest.mark.parametrize("name", ["white space", ".", "..", "x" * 250, "sl/ash", "ключ"])
def test_a_name_outside_kafkas_letters_is_refused(admin: Admin, name: str) -> None:
    assert code(admin.create(name)) == Code.INVALID_TOPIC_EXCEPTION


def test_a_name_that_is_taken_is_refused(admin: Admin, topics: Topics) -> None:
    name = topics.create()

    answer = admin.create(name)

    assert code(answer) == Code.TOPIC_ALREADY_EXISTS
    assert name in answer["error"]["message"]


def test_names_that_differ_in_dots_and_underscores_only_collide(admin: Admin, topics: Topics) -> None:
    name = fresh_name("a.b")
    admin.create(name)

    assert code(admin.create(name.replace(".", "_"))) == Code.INVALID_TOPIC_EXCEPTION


def test_topics_are_described_by_name_and_by_id(admin: Admin, topics: Topics) -> None:
    name = topics.create(partitions=3)

    by_name = admin.describe(name)
    by_id = admin.call("describe_topics", ids=[by_name["id"]])[by_name["id"]]

    assert by_id == by_name
    assert [partition["partition"] for partition in by_id["partitions"]] == [0, 1, 2]
    assert code(admin.describe("no-such-topic")) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code(admin.call("describe_topics", ids=[UNKNOWN_ID])[UNKNOWN_ID]) == Code.UNKNOWN_TOPIC_ID


def test_partitions_only_ever_grow(admin: Admin, topics: Topics) -> None:
    name, node = topics.create(partitions=2), admin.node()

    def grow(count: int, **more: Any) -> int:
        return code(admin.call("create_partitions", topic=name, count=count, **more)[name])

    assert grow(3, validate_only=True) == 0
    assert admin.partitions(name) == 2
    assert grow(3) == 0
    assert grow(5, assignments=[[node], [node]]) == 0
    assert grow(6, assignments=[[99]]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert grow(7, assignments=[[node]]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert grow(5) == Code.INVALID_PARTITIONS
    assert grow(4) == Code.INVALID_PARTITIONS
    until(lambda: admin.partitions(name) == 5, "the topic has grown")
    assert (
        code(admin.call("create_partitions", topic="no-such-topic", count=2)["no-such-topic"])
        == Code.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_topic_configs_tell_value_source_type_and_where_it_comes_from(admin: Admin, topics: Topics) -> None:
    configs = admin.configs(topics.create(retention_ms=12345))

    retention = configs["retention.ms"]
    assert (retention["value"], retention["source"], retention["type"]) == ("12345", "DYNAMIC_TOPIC_CONFIG", "LONG")
    assert retention["synonyms"] == ["DYNAMIC_TOPIC_CONFIG:retention.ms=12345"]
    policy = configs["cleanup.policy"]
    assert (policy["value"], policy["source"], policy["type"]) == ("delete", "DEFAULT_CONFIG", "LIST")
    assert policy["synonyms"] == ["DEFAULT_CONFIG:log.cleanup.policy=delete"]
    assert all(
        config["documented"] and not config["read_only"] and not config["sensitive"] for config in configs.values()
    )


TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def kafkas_values(admin: Admin, name: str) -> dict[str, str]:
    """The topic's configs that Kafka has, too."""
    return {config: entry["value"] for config, entry in admin.configs(name).items() if not config.startswith("kompat.")}


def test_a_new_topic_has_kafkas_configs_with_kafkas_defaults(admin: Admin, topics: Topics) -> None:
    assert kafkas_values(admin, topics.create()) == TOPIC_DEFAULTS


def test_configs_are_set_deleted_appended_and_subtracted(admin: Admin, topics: Topics) -> None:
    name = topics.create(retention_ms=1000)

    assert admin.alter(name, ("SET", "retention.ms", "2000"), ("SET", "segment.ms", "3000")) is True
    until(lambda: admin.value(name, "segment.ms") == "3000", "segment.ms is set")
    assert admin.value(name, "retention.ms") == "2000"
    assert admin.alter(name, ("DELETE", "retention.ms", None), ("APPEND", "cleanup.policy", "compact")) is True
    until(lambda: admin.value(name, "cleanup.policy") == "delete,compact", "compact is appended to the default")
    assert admin.configs(name)["retention.ms"]["source"] == "DEFAULT_CONFIG"
    assert admin.alter(name, ("SUBTRACT", "cleanup.policy", "delete")) is True
    until(lambda: admin.value(name, "cleanup.policy") == "compact", "delete is subtracted")
    assert admin.value(name, "segment.ms") == "3000"


def test_configs_that_cannot_be_are_refused_and_nothing_changes(admin: Admin, topics: Topics) -> None:
    name = topics.create()

    assert code(admin.alter(name, ("SET", "no.such.config", "1"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("SET", "retention.ms", "soon"), ("SET", "segment.ms", "5"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("APPEND", "retention.ms", "5"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("SET", "retention.ms", "1"), ("SET", "retention.ms", "2"))) == Code.INVALID_REQUEST
    assert code(admin.alter("no-such-topic", ("SET", "retention.ms", "5"))) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.alter(name, ("SET", "retention.ms", "5"), validate_only=True) is True

    assert kafkas_values(admin, name) == TOPIC_DEFAULTS


def test_broker_configs_are_described_and_altered(admin: Admin) -> None:
    node = str(admin.node())
    configs = admin.configs(node, "BROKER")

    for known in (
        "log.retention.hours",
        "num.partitions",
        "message.max.bytes",
        "auto.create.topics.enable",
        "log.segment.bytes",
    ):
        assert configs[known]["documented"], known
    assert configs["node.id"]["read_only"] is True
    assert configs["log.retention.ms"]["read_only"] is False

    assert admin.alter(node, ("SET", "log.cleaner.backoff.ms", "15001"), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["value"] == "15001", "the broker's own value")
    assert admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DYNAMIC_BROKER_CONFIG"
    assert admin.alter("", ("SET", "log.cleaner.backoff.ms", "15002"), kind="BROKER") is True
    assert admin.alter(node, ("DELETE", "log.cleaner.backoff.ms", None), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["value"] == "15002", "the cluster's value")
    assert admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert admin.alter("", ("DELETE", "log.cleaner.backoff.ms", None), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DEFAULT_CONFIG", "the default")
    assert code(admin.alter(node, ("SET", "node.id", "7"), kind="BROKER")) in (
        Code.INVALID_CONFIG,
        Code.INVALID_REQUEST,
    )
    assert code(admin.alter(node, ("SET", "log.cleaner.backoff.ms", "soon"), kind="BROKER")) in (
        Code.INVALID_CONFIG,
        Code.INVALID_REQUEST,
    )


def test_topics_are_deleted_by_name_and_by_id_and_a_new_one_starts_empty(
    admin: Admin, topics: Topics, bootstrap: str
) -> None:
    first, second = topics.create(), topics.create()
    Confluent().produce(bootstrap, first, [Message(value=b"old")])
    old_id, second_id = admin.describe(first)["id"], admin.describe(second)["id"]

    assert admin.call("delete_topics", names=[first])[first] is True
    assert admin.call("delete_topics", ids=[second_id])[second_id] is True

    until(lambda: not {first, second} & set(admin.call("list_topics")), "both topics are gone")
    assert code(admin.call("delete_topics", names=[first])[first]) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code(admin.call("delete_topics", ids=[second_id])[second_id]) == Code.UNKNOWN_TOPIC_ID
    assert code(admin.create(first)) == 0
    topics.wait(first, 1)
    assert admin.describe(first)["id"] != old_id
    assert Confluent().watermarks(bootstrap, first, 0) == (0, 0)
