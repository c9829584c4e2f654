"""The internal topics, with the broker's own state."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kompat.cluster import names
from kompat.cluster.requests import NewTopic
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode, KafkaError

# Configs that the coordinators depend on: with other values they would lose records, or never delete any. Others may be set.
REQUIRED: Final[Mapping[str, Mapping[str, str]]] = {
    names.CONSUMER_OFFSETS: {"cleanup.policy": "compact"},
    names.TRANSACTION_STATE: {"cleanup.policy": "compact"},
    names.SHARE_GROUP_STATE: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
    names.KOMPAT_TRACE: {"cleanup.policy": "delete"},
}
_DEFAULTS: Final = {"cleanup.policy": "delete", "retention.bytes": "-1"}  # of those that need not be set
LEAST_MESSAGE_BYTES: Final = 1_048_588  # Kafka's default: all that a coordinator decides at once is one batch


def mended(name: str, configs: Mapping[str, str], replicas: int, broker: BrokerConfig) -> dict[str, str]:
    """The configs of an internal topic with this number of replicas; values that its coordinator cannot work with are
    corrected, whether they are the topic's or the broker's."""
    if name not in REQUIRED:
        return dict(configs)
    wrong = {setting: right for setting, right, _ in _wrong(name, configs, replicas)}
    if "min.insync.replicas" not in configs and broker.integer("min.insync.replicas") > replicas:
        wrong["min.insync.replicas"] = str(replicas)
    return {**configs, **wrong}


def check_configs(name: str, configs: Mapping[str, str], replicas: int) -> None:
    """INVALID_CONFIG if the topic's coordinator cannot work with its configs."""
    for setting, _, rule in _wrong(name, configs, replicas):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{setting} of internal topic {name} must be {rule}")


def _wrong(name: str, configs: Mapping[str, str], replicas: int) -> Iterator[tuple[str, str, str]]:
    """The invalid configs of an internal topic: the config, a valid value, and the rule."""
    for setting, value in REQUIRED.get(name, {}).items():
        if configs.get(setting, _DEFAULTS.get(setting)) != value:
            yield setting, value, value
    if name in REQUIRED and int(configs.get("max.message.bytes", LEAST_MESSAGE_BYTES)) < LEAST_MESSAGE_BYTES:
        yield "max.message.bytes", str(LEAST_MESSAGE_BYTES), f"at least {LEAST_MESSAGE_BYTES}"
    if name in REQUIRED and int(configs.get("min.insync.replicas", 1)) > replicas:
        yield "min.insync.replicas", str(replicas), f"at most {replicas}, the number of its replicas"


def internal_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    """How an internal topic is created. Where Kafka would refuse it for too few brokers, kompat uses those that exist."""
    make = {
        names.CONSUMER_OFFSETS: _consumer_offsets,
        names.TRANSACTION_STATE: _transaction_state,
        names.SHARE_GROUP_STATE: _share_group_state,
        names.KOMPAT_TRACE: _kompat_trace,
    }[name]
    new = make(config, brokers)
    configs = {setting: value for setting, value in new.configs.items() if value is not None}
    return replace(new, configs=mended(name, configs, new.replication_factor, config))


def _consumer_offsets(config: BrokerConfig, brokers: int) -> NewTopic:
    return NewTopic(
        names.CONSUMER_OFFSETS,
        config.integer("offsets.topic.num.partitions"),
        min(brokers, config.integer("offsets.topic.replication.factor")),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": _segment_bytes(config, "offsets.topic.segment.bytes"),
        },
    )


def _transaction_state(config: BrokerConfig, brokers: int) -> NewTopic:
    replicas = min(brokers, config.integer("transaction.state.log.replication.factor"))
    return NewTopic(
        names.TRANSACTION_STATE,
        config.integer("transaction.state.log.num.partitions"),
        replicas,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(replicas, config.integer("transaction.state.log.min.isr"))),
            "segment.bytes": _segment_bytes(config, "transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
    )


def _share_group_state(config: BrokerConfig, brokers: int) -> NewTopic:
    replicas = min(brokers, config.integer("share.coordinator.state.topic.replication.factor"))
    return NewTopic(
        names.SHARE_GROUP_STATE,
        config.integer("share.coordinator.state.topic.num.partitions"),
        replicas,
        configs={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(min(replicas, config.integer("share.coordinator.state.topic.min.isr"))),
            "retention.ms": "-1",
            "segment.bytes": _segment_bytes(config, "share.coordinator.state.topic.segment.bytes"),
        },
    )


def _kompat_trace(config: BrokerConfig, brokers: int) -> NewTopic:
    return NewTopic(
        names.KOMPAT_TRACE,
        max(brokers, config.integer("kompat.trace.topic.num.partitions")),  # each broker writes what it sees itself
        min(brokers, config.integer("kompat.trace.topic.replication.factor")),
        configs={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": str(config.integer("kompat.trace.retention.ms")),
            # Traces must not fill the disk: the oldest are deleted first.
            "retention.bytes": str(512 << 20),
            "segment.bytes": str(32 << 20),
        },
    )


def _segment_bytes(config: BrokerConfig, setting: str) -> str:
    # These configs have no lower limit, unlike the topic's own.
    return str(max(1 << 20, config.integer(setting)))
