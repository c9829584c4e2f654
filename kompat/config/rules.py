"""Rules for settings beyond the check of each one."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from kompat.config import values
from kompat.config.definitions import Definition, Standing
from kompat.config.listeners import Listener, parse_listener, parse_protocols
from kompat.errors import ConfigError

if TYPE_CHECKING:
    from kompat.config.broker import BrokerConfig

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

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

# Settings and their minimums; None passes.
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
        raise ConfigError("log.dirs: kompat supports exactly one data directory")
    _check_listeners(config)
    _check_proxies(config)


def _check_proxies(config: BrokerConfig) -> None:
    for each in config["kompat.http.trusted.proxies"]:
        try:
            ip_network(each, strict=False)
        except ValueError:
            raise ConfigError(f"kompat.http.trusted.proxies: {each!r} is neither an address nor a network") from None


def check_standing(definition: Definition, name: str, value: Any) -> None:
    if definition.standing is Standing.UNSUPPORTED and value != definition.default_value:
        raise ConfigError(f"{name}={values.to_text(value)}: kompat does not support this setting")


def client_listeners(config: BrokerConfig, setting: str) -> list[Listener]:
    """The listeners of a setting that are not for controllers."""
    controllers = {name.upper() for name in config["controller.listener.names"]}
    protocols = parse_protocols(config["listener.security.protocol.map"])
    found = [parse_listener(setting, text) for text in config[setting] or ()]
    return [listener.speaking(protocols, setting) for listener in found if listener.name not in controllers]


def _check_listeners(config: BrokerConfig) -> None:
    found = client_listeners(config, "listeners")
    if not found:
        raise ConfigError("listeners: there is no listener for clients")
    names = [listener.name for listener in found]
    places = [(listener.host, listener.port) for listener in found if listener.port]
    if len(set(names)) < len(names) or len(set(places)) < len(places):
        raise ConfigError("listeners: the names and ports of listeners must be different")
    for advertised in client_listeners(config, "advertised.listeners"):
        if advertised.name not in names:
            raise ConfigError(f"advertised.listeners: listener {advertised.name} does not exist")
    for listener in found:
        if listener.protocol.has_sasl:
            _check_mechanisms(listener.name, config.of_listener(listener.name, "sasl.enabled.mechanisms"))


def _check_mechanisms(listener: str, enabled: tuple[str, ...]) -> None:
    unknown = [name for name in enabled if name not in MECHANISMS]
    if unknown or not enabled:
        what = f"kompat does not support {', '.join(unknown)}" if unknown else "no mechanism is set"
        raise ConfigError(
            f"sasl.enabled.mechanisms: {what}; the supported mechanisms of {listener} are {', '.join(MECHANISMS)}"
        )
