"""Makes the TopicConfig of the log from a topic's settings and the broker's defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from kompat.config.broker import BrokerConfig
from kompat.config.definitions import Definition, ResourceDefinitions
from kompat.config.topic import TopicConfig
from kompat.config.topic_definitions import HIDDEN, OWN, TOPIC
from kompat.config.values import Value
from kompat.errors import ErrorCode, KafkaError

DEFINITIONS = ResourceDefinitions((*TOPIC, *OWN), HIDDEN)

_MINUTE, _HOUR = 60_000, 3_600_000
_UNITS = {
    "log.retention.minutes": _MINUTE,
    "log.retention.hours": _HOUR,
    "log.roll.hours": _HOUR,
    "log.roll.jitter.hours": _HOUR,
}
_FIELDS = frozenset(field.name for field in dataclasses.fields(TopicConfig))
_defaults: WeakKeyDictionary[BrokerConfig, tuple[int, TopicConfig]] = WeakKeyDictionary()


def topic_config(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """The effective settings. Topics without settings of their own share one object."""
    base = _base(broker)
    if not overrides:
        return base
    changes: dict[str, Any] = {}
    for name, text in overrides.items():
        changes |= _field(name, _definition(name).parse(text))
    if (internal := changes.pop("internal_segment_bytes", None)) is not None:
        changes["segment_bytes"] = internal
    return dataclasses.replace(base, **changes)


def validate_topic_config(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """As `topic_config`, but raises INVALID_CONFIG if the settings break one of Kafka's rules for new settings."""
    config = topic_config(overrides, broker)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms})"
            f" > max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    if DEFINITIONS["remote.storage.enable"].parse(overrides.get("remote.storage.enable", "false")):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "There is no remote storage: remote.storage.enable must be false.")
    return config


def topic_value(name: str, overrides: Mapping[str, str], broker: BrokerConfig) -> Value:
    """The effective value of a setting."""
    definition = _definition(name)
    if name in overrides:
        return definition.parse(overrides[name])
    return _broker_value(name, broker)


def _base(broker: BrokerConfig) -> TopicConfig:
    known = _defaults.get(broker)
    if known is None or known[0] != broker.version:
        fields: dict[str, Any] = {}
        for name in DEFINITIONS:
            if name not in HIDDEN:
                fields |= _field(name, _broker_value(name, broker))
        known = _defaults[broker] = (broker.version, TopicConfig(**fields))
    return known[1]


def _field(name: str, value: Value) -> dict[str, Any]:
    if name == "cleanup.policy":
        policies = value if isinstance(value, tuple) else ()
        return {"compact": "compact" in policies, "delete": "delete" in policies}
    field = name.replace(".", "_")
    return {field: value} if field in _FIELDS or name in HIDDEN else {}


def _broker_value(name: str, broker: BrokerConfig) -> Value:
    definition = _definition(name)
    for synonym in definition.synonyms:
        value: Value = broker[synonym]
        if value is not None:
            return value * _UNITS[synonym] if synonym in _UNITS and isinstance(value, int) and value != -1 else value
    return definition.default_value


def _definition(name: str) -> Definition:
    if name not in DEFINITIONS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    return DEFINITIONS[name]
