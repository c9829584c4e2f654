import pytest

from kompat.config.broker import BrokerConfig, Synonym
from kompat.config.definitions import ConfigSource
from kompat.config.topic import TopicConfig
from kompat.config.topics import topic_config, validate_topic_config
from kompat.errors import ConfigError, ErrorCode, KafkaError

DYNAMIC, CLUSTER = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


def test_a_brokers_own_change_wins_over_the_clusters_over_the_start() -> None:
    config = BrokerConfig(
        {"message.max.bytes": "1"}, cluster={"message.max.bytes": "2"}, broker={"message.max.bytes": "3"}
    )

    assert config["message.max.bytes"] == 3
    assert config.synonyms("message.max.bytes") == [
        Synonym("message.max.bytes", "3", DYNAMIC),
        Synonym("message.max.bytes", "2", CLUSTER),
        Synonym("message.max.bytes", "1", STATIC),
        Synonym("message.max.bytes", "1048588", DEFAULT),
    ]


def test_a_coarser_setting_does_not_explain_a_finer_one_but_follows_it() -> None:
    config = BrokerConfig({"log.retention.hours": "24"})
    assert config.synonyms("log.retention.ms") == []
    assert config.source("log.retention.ms") is DEFAULT

    changed = config.with_changes(cluster={"log.retention.ms": "5"}, broker={})
    assert changed.synonyms("log.retention.ms") == [
        Synonym("log.retention.ms", "5", CLUSTER),
        Synonym("log.retention.hours", "24", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    ]


def test_passwords_are_never_shown() -> None:
    config = BrokerConfig({"ssl.key.password": "secret"})

    assert config.shown("ssl.key.password") is None
    assert config.synonyms("ssl.key.password") == [Synonym("ssl.key.password", None, STATIC)]


def test_settings_of_a_listener_fall_back_on_the_general_one() -> None:
    config = BrokerConfig({"ssl.keystore.type": "PEM", "listener.name.a.ssl.keystore.type": "JKS"})

    assert [s.name for s in config.synonyms("listener.name.a.ssl.keystore.type")][:2] == [
        "listener.name.a.ssl.keystore.type",
        "ssl.keystore.type",
    ]
    assert "listener.name.a.ssl.keystore.type" in config.listed()


def test_a_change_takes_effect_at_once_and_is_told() -> None:
    config = BrokerConfig({"log.retention.bytes": "7"})
    before = topic_config({}, config)
    told: list[frozenset[str]] = []
    config.watch(told.append)

    config.change(cluster={"message.max.bytes": "99", "log.retention.bytes": "7"}, broker={})

    assert config["message.max.bytes"] == 99
    assert topic_config({}, config).max_message_bytes == 99
    assert before.max_message_bytes == 1_048_588
    assert told == [frozenset({"message.max.bytes"})]

    config.change(cluster={}, broker={})
    assert config["message.max.bytes"] == 1_048_588


def test_unknown_names_are_no_settings() -> None:
    with pytest.raises(ConfigError):
        BrokerConfig({"foo": "1"})
    with pytest.raises(KeyError):
        BrokerConfig()["foo"]


def test_broker_id_is_node_id() -> None:
    assert BrokerConfig({"broker.id": "3"}).node_id == 3


def test_topics_without_settings_share_the_brokers_defaults() -> None:
    config = BrokerConfig({"log.cleanup.policy": "compact", "log.roll.hours": "2"})

    assert topic_config({}, config) is topic_config({}, config)
    assert topic_config({}, config) == TopicConfig(compact=True, delete=False, segment_ms=7_200_000)
    assert topic_config({}, BrokerConfig()) == TopicConfig()


def test_a_topics_own_settings_win() -> None:
    found = topic_config(
        {"cleanup.policy": "compact,delete", "retention.ms": "5", "preallocate": "true"}, BrokerConfig()
    )

    assert found == TopicConfig(compact=True, delete=True, retention_ms=5)


def test_segments_may_be_small_in_tests_only() -> None:
    assert topic_config({"internal.segment.bytes": "100"}, BrokerConfig()).segment_bytes == 100


@pytest.mark.parametrize(
    "overrides",
    [
        {"foo": "1"},
        {"remote.storage.enable": "true"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        {"retention.ms": "x"},
    ],
)
def test_a_topic_with_settings_that_make_no_sense_is_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(KafkaError) as raised:
        validate_topic_config(overrides, BrokerConfig())

    assert raised.value.code is ErrorCode.INVALID_CONFIG
