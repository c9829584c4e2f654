"""The topics that the broker keeps its own state in."""

from collections.abc import Mapping
from typing import Final

from kompat.cluster import names
from kompat.cluster.requests import NewTopic
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode, KafkaError

# What their owners rely on: with other values records vanish that they need, or pile up for ever. An operator may set all else.
REQUIRED: Final[Mapping[str, Mapping[str, str]]] = {
    names.CONSUMER_OFFSETS: {"cleanup.policy": "compact"},
    names.TRANSACTION_STATE: {"cleanup.policy": "compact"},
    names.SHARE_GROUP_STATE: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
    names.KOMPAT_TRACE: {"cleanup.policy": "delete"},
}
_DEFAULTS: Final = {"cleanup.policy": "delete", "retention.bytes": "-1"}  # of those that need not be set


def mended(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The settings of an internal topic, with those put right that its owner relies on."""
    wrong = {setting: value for setting, value in REQUIRED.get(name, {}).items() if _value(setting, configs) != value}
    return {**configs, **wrong}


def check_configs(name: str, configs: Mapping[str, str]) -> None:
    """INVALID_CONFIG where somebody would change what the topic's owner relies on."""
    for setting, value in REQUIRED.get(name, {}).items():
        if _value(setting, configs) != value:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{setting} of internal topic {name} must be {value}")


def _value(setting: str, configs: Mapping[str, str]) -> str | None:
    return configs.get(setting, _DEFAULTS.get(setting))


def internal_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    """How an internal topic is made. Where Kafka would refuse for want of brokers, kompat makes do with those there are."""
    make = {
        names.CONSUMER_OFFSETS: _consumer_offsets,
        names.TRANSACTION_STATE: _transaction_state,
        names.SHARE_GROUP_STATE: _share_group_state,
        names.KOMPAT_TRACE: _kompat_trace,
    }[name]
    return make(config, brokers)


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
            # Traces are there to be looked at, not to fill the disk: the oldest go first.
            "retention.bytes": str(512 << 20),
            "segment.bytes": str(32 << 20),
        },
    )


def _segment_bytes(config: BrokerConfig, setting: str) -> str:
    # These settings have no lower limit, a topic's own has one.
    return str(max(1 << 20, config.integer(setting)))
