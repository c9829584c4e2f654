"""What settings must satisfy beyond each one's own check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kompat.config import values
from kompat.config.definitions import Definition, Standing
from kompat.config.listeners import Listener, parse_listener, parse_protocols
from kompat.errors import ConfigError

if TYPE_CHECKING:
    from kompat.config.broker import BrokerConfig

# Pairs of which the first may not exceed the second.
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    *(
        (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
        for kind in ("consumer", "share", "streams")
        for what in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
    ),
    *(
        (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
        for kind in ("consumer", "share", "streams")
    ),
    ("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
)

# Settings of which no value below the second is taken; None passes.
_AT_LEAST = (
    ("log.roll.ms", 1),
    ("log.roll.jitter.ms", 0),
    ("log.flush.interval.ms", 0),
    ("connections.max.idle.ms", -1),
)

_UNLIMITED_OR_SOME = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


def check(config: BrokerConfig) -> None:
    for low, high in _ORDERED:
        if config[low] > config[high]:
            raise ConfigError(f"{low} ({config[low]}) is greater than {high} ({config[high]})")
    for name, least in _AT_LEAST:
        if config[name] is not None and config[name] < least:
            raise ConfigError(f"{name} must be at least {least}")
    for name in _UNLIMITED_OR_SOME:
        if config[name] is not None and config[name] < 1 and config[name] != -1:
            raise ConfigError(f"{name} must be at least 1, or -1 for no limit")
    if len(config["log.dirs"] or config["log.dir"]) != 1:
        raise ConfigError("log.dirs: kompat keeps its data in one directory")
    if not client_listeners(config, "listeners"):
        raise ConfigError("listeners: there is none for clients")
    client_listeners(config, "advertised.listeners")


def check_standing(definition: Definition, name: str, value: Any) -> None:
    if definition.standing is Standing.UNSUPPORTED and value != definition.default_value:
        raise ConfigError(f"{name}={values.to_text(value)}: kompat does not support this setting")


def client_listeners(config: BrokerConfig, setting: str) -> list[Listener]:
    """Those of a setting that are not for controllers. kompat speaks plaintext only, and says so rather than expose what was meant to be secret."""
    controllers = {name.upper() for name in config["controller.listener.names"]}
    protocols = parse_protocols(config["listener.security.protocol.map"])
    found = []
    for text in config[setting] or ():
        listener = parse_listener(setting, text)
        if listener.name in controllers:
            continue
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise ConfigError(f"{setting}: listener.security.protocol.map does not say what {listener.name} speaks")
        if protocol != "PLAINTEXT":
            raise ConfigError(f"{setting}: {listener.name} asks for {protocol}, which kompat does not support")
        found.append(listener)
    return found
