"""The broker's settings: the static ones of the start, the dynamic ones, and the source of each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kompat.config import rules, values
from kompat.config.broker_definitions import BROKER, OWN
from kompat.config.definitions import BrokerDefinitions, ConfigSource, Definition, without_listener
from kompat.config.foreign_definitions import IGNORED, UNSUPPORTED
from kompat.config.group_definitions import GROUP_BROKER
from kompat.config.listeners import Listener
from kompat.config.security_definitions import SECURITY
from kompat.errors import ConfigError

DEFINITIONS = BrokerDefinitions((*BROKER, *OWN, *SECURITY, *GROUP_BROKER), IGNORED, UNSUPPORTED)

# Settings that stand for each other, by precedence.
_ALIASES = {
    name: names
    for names in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in names
}

ROLES = "process.roles"
# Kafka has no default for these: a broker's settings have to have them.
_WITHOUT_DEFAULT = frozenset({"node.id", ROLES, "controller.listener.names"})


class Synonym(NamedTuple):
    """One of the sources of a value; the first of a list is the one in force."""

    name: str
    value: str | None  # as text; None: it is sensitive
    source: ConfigSource


def definition(name: str) -> Definition | None:
    """The definition of a setting, also of one for a single listener (`listener.name.NAME.…`)."""
    return DEFINITIONS.get(without_listener(name))


class BrokerConfig:
    """Settings are looked up when used, not copied, so that a change takes effect at once. All layers have texts, which are checked on entry."""

    def __init__(
        self,
        static: Mapping[str, str] | None = None,
        *,
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        self._static = dict(static or {})
        self._cluster = dict(cluster or {})  # dynamic, for all brokers
        self._broker = dict(broker or {})  # dynamic, for this one
        self._parsed: dict[str, Any] = {}
        self._watchers: list[Callable[[frozenset[str]], None]] = []
        self.version = 0  # grows with every change, for caches of derived values
        self._name_the_node()
        for name in self._static | self._cluster | self._broker:
            self._check(name)
        rules.check(self)

    def _name_the_node(self) -> None:
        """`broker.id` and `node.id` are one number under two names. No broker of Kafka's starts without them and its roles, so
        tools expect to find them among the start-up settings."""
        given = self._static.get("node.id", self._static.get("broker.id", DEFINITIONS["node.id"].default))
        for name, text in (("node.id", given), ("broker.id", given), (ROLES, DEFINITIONS[ROLES].default)):
            if text is not None:
                self._static.setdefault(name, text)

    def _check(self, name: str) -> None:
        found = definition(name)
        if found is None:
            raise ConfigError(f"unknown setting {name}")
        rules.check_standing(found, name, self[name])

    # -- values ----------------------------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Any:
        try:
            return self._parsed[name]
        except KeyError:
            value = self._parsed[name] = self._parse(name)
            return value

    def _parse(self, name: str) -> Any:
        found = definition(name)
        if found is None:
            raise KeyError(name)
        text = self.text_of(name)
        return found.default_value if text is None else found.parse(text)

    def text_of(self, name: str) -> str | None:
        """The text of the setting; None if it is not set."""
        for layer in (self._broker, self._cluster, self._static):
            if name in layer:
                return layer[name]
        return None

    def integer(self, name: str) -> int:
        value: int = self[name]
        return value

    def flag(self, name: str) -> bool:
        value: bool = self[name]
        return value

    def text(self, name: str) -> str:
        value: str = self[name]
        return value

    def real(self, name: str) -> float:
        value: float = self[name]
        return value

    def items(self, name: str) -> tuple[str, ...]:
        value: tuple[str, ...] = self[name]
        return value

    # -- values of several settings --------------------------------------------------------------------------------
    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @property
    def data(self) -> str:
        """The data directory, or `:memory:`."""
        directories: tuple[str, ...] = self["log.dirs"] or self["log.dir"]
        return directories[0]

    @property
    def listeners(self) -> list[Listener]:
        """The listeners for clients."""
        return rules.client_listeners(self, "listeners")

    @property
    def listener(self) -> Listener:
        """The first of them."""
        return self.listeners[0]

    @property
    def advertised(self) -> dict[str, Listener]:
        """The advertised addresses by listener name; a listener without one advertises the address that the client connected to."""
        return {found.name: found for found in rules.client_listeners(self, "advertised.listeners")}

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """The value of a setting for one listener, and for one SASL mechanism of it."""
        prefix = f"listener.name.{listener.lower()}."
        for own in (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}"):
            if self.text_of(own) is not None:
                return self[own]
        return self[name]

    # -- sources ---------------------------------------------------------------------------------------------------
    def source(self, name: str) -> ConfigSource:
        found = self.synonyms(name)
        return found[0].source if found else ConfigSource.DEFAULT_CONFIG

    def synonyms(self, name: str) -> list[Synonym]:
        """All sources that give the setting a value, the one in force first, as Kafka lists them.

        Kafka drops the synonyms before the setting's own name: `log.retention.ms` is not explained by hours.
        """
        names = _ALIASES.get(name, (name,))
        base = without_listener(name)
        if base != name:
            names = (name, base)
        found = [
            Synonym(each, self._shown(each, layer[each]), source)
            for layer, source in self._layers()
            for each in names
            if each in layer
        ]
        for each in names:
            known = definition(each)
            if known is not None and known.default is not None and each not in _WITHOUT_DEFAULT:
                found.append(Synonym(each, self._shown(each, known.default), ConfigSource.DEFAULT_CONFIG))
        while found and found[0].name != name:
            found.pop(0)
        return found

    def _layers(self) -> tuple[tuple[dict[str, str], ConfigSource], ...]:
        return (
            (self._broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
        )

    def _shown(self, name: str, text: str) -> str | None:
        known = definition(name)
        return None if known is None or known.is_sensitive else text

    def shown(self, name: str) -> str | None:
        """The value as DescribeConfigs shows it."""
        known = definition(name)
        return None if known is None or known.is_sensitive else values.to_text(self[name])

    def listed(self) -> list[str]:
        """The names that DescribeConfigs lists: all but hidden ones that are not set."""
        given = self._static.keys() | self._cluster.keys() | self._broker.keys()
        return sorted({name for name in DEFINITIONS if not DEFINITIONS[name].is_hidden} | given)

    # -- changes ---------------------------------------------------------------------------------------------------
    def with_changes(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """The same static settings with other dynamic ones. Raises ConfigError or KafkaError if they are invalid."""
        return BrokerConfig(self._static, cluster=cluster, broker=broker)

    def change(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Apply dynamic settings that have been checked, and notify watchers of the names whose values have changed."""
        before = dict(self._parsed)
        touched = self._cluster.keys() | self._broker.keys() | cluster.keys() | broker.keys()
        old = {name: before[name] if name in before else self[name] for name in touched}
        self._cluster, self._broker = dict(cluster), dict(broker)
        self._parsed.clear()
        changed = frozenset(name for name in touched if self[name] != old[name])
        self.version += 1
        for notify in list(self._watchers):
            notify(changed)

    def watch(self, notify: Callable[[frozenset[str]], None]) -> None:
        """Call `notify` with the changed names after every change, for code that cannot look a setting up when it uses it."""
        self._watchers.append(notify)
