"""Settings of groups and of metrics subscriptions."""

from __future__ import annotations

from collections.abc import Mapping

from kompat.config.broker import DEFINITIONS as BROKER
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import Definition, ResourceDefinitions
from kompat.config.group_definitions import CLIENT_METRICS as METRICS_ROWS
from kompat.config.group_definitions import GROUP as GROUP_ROWS
from kompat.config.values import Value
from kompat.errors import ErrorCode, KafkaError

GROUP = ResourceDefinitions(GROUP_ROWS)
CLIENT_METRICS = ResourceDefinitions(METRICS_ROWS)

_KINDS = ("consumer", "share", "streams")
# Broker limits that are not named after the setting.
_LIMITS = {"streams.num.standby.replicas": ("", "group.streams.max.standby.replicas")}


def group_value(name: str, overrides: Mapping[str, str], broker: BrokerConfig) -> Value:
    """The effective value of a group's setting: its own, or the broker's default."""
    definition = _definition(name)
    if name in overrides:
        return definition.parse(overrides[name])
    for synonym in definition.synonyms:
        if synonym in BROKER:
            found: Value = broker[synonym]
            return found
    return definition.default_value


def check_group_limits(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises INVALID_CONFIG if a group's setting is beyond the broker's limits."""
    for name in overrides:
        value = group_value(name, overrides, broker)
        low, high = _limits(name)
        if isinstance(value, int) and low in BROKER and value < broker[low]:
            raise _invalid(f"{name} must be greater than or equal to {low}")
        if isinstance(value, int) and high in BROKER and value > broker[high]:
            raise _invalid(f"{name} must be less than or equal to {high}")
    for kind in _KINDS:
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if heartbeat in overrides or session in overrides:
            _check_order(heartbeat, session, overrides, broker)


def _check_order(heartbeat: str, session: str, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    often, wait = group_value(heartbeat, overrides, broker), group_value(session, overrides, broker)
    if isinstance(often, int) and isinstance(wait, int) and wait <= often:
        raise _invalid(f"{session} must be greater than {heartbeat}")


def _limits(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition(".")
    return _LIMITS.get(name, (f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"))


def _definition(name: str) -> Definition:
    if name not in GROUP:
        raise _invalid(f"Unknown group config name: {name}")
    return GROUP[name]


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
