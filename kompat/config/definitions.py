"""The definition of a setting: its type, its default, its valid values, and how it may be changed.

The tables (`*_definitions.py`) are plain tuples, so that importing them costs next to nothing; a Definition is made at
its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from kompat.config import values
from kompat.config.values import ConfigType, Value
from kompat.errors import ErrorCode, KafkaError


class Update(IntEnum):
    """How a setting may be changed while the broker runs."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2  # for one broker or for all


class Standing(IntEnum):
    """What kompat does with a setting."""

    USED = 0
    IGNORED = 1  # accepted and checked, without effect
    UNSUPPORTED = 2  # accepted at its default only


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True)
class Definition:
    name: str
    type: ConfigType
    default: str | None
    check: str
    update: Update = Update.READ_ONLY
    standing: Standing = Standing.USED
    is_hidden: bool = False  # not listed by DescribeConfigs
    synonyms: tuple[str, ...] = ()  # broker settings that are its default, the most specific first
    documentation: str = ""

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @cached_property
    def default_value(self) -> Value:
        return None if self.default is None else self.parse(self.default)

    def parse(self, text: str) -> Value:
        """The typed value. Raises INVALID_CONFIG with Kafka's message if the text is invalid."""
        try:
            value = values.parse(self.type, text)
        except ValueError as wrong:
            raise self._invalid(text, str(wrong)) from None
        if self.check:
            found = values.objection(self.name, self.check, value)
            if found is not None:
                raise self._invalid(found.shown, found.reason)
        return value

    def _invalid(self, shown: str, reason: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {shown} for configuration {self.name}: {reason}")


BrokerRow = tuple[str, str, "str | None", str, str, str]
ForeignRow = tuple[str, str, "str | None", str, str]
ResourceRow = tuple[str, str, "str | None", str, str, str]  # the fifth: synonyms

_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
_NOT_USED = "kompat accepts this setting so that a Kafka configuration works, but does not use it."


class Definitions(Mapping[str, Definition]):
    """Definitions by name, made on first use."""

    def __init__(self, rows: Mapping[str, tuple[object, ...]]) -> None:
        self._rows = rows
        self._made: dict[str, Definition] = {}

    def __getitem__(self, name: str) -> Definition:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(self._rows[name])
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def _make(self, row: tuple[object, ...]) -> Definition:
        raise NotImplementedError


class BrokerDefinitions(Definitions):
    def __init__(
        self, used: Iterable[BrokerRow], ignored: Iterable[ForeignRow], unsupported: Iterable[ForeignRow]
    ) -> None:
        rows: dict[str, tuple[object, ...]] = {row[0]: (*row, Standing.USED) for row in used}
        rows |= {row[0]: (*row, _NOT_USED, Standing.IGNORED) for row in ignored}
        rows |= {row[0]: (*row, _NOT_USED, Standing.UNSUPPORTED) for row in unsupported}
        super().__init__(rows)

    def _make(self, row: tuple[object, ...]) -> Definition:
        name, kind, default, check, update, documentation, standing = row
        marks = str(update).split()
        return Definition(
            name=str(name),
            type=ConfigType[str(kind).upper()],
            default=None if default is None else str(default),
            check=str(check),
            update=_update(marks),
            standing=Standing(standing),  # type: ignore[arg-type]
            is_hidden="hidden" in marks,
            documentation=str(documentation),
        )


class ResourceDefinitions(Definitions):
    """The definitions of topics, groups and metrics subscriptions."""

    def __init__(self, rows: Iterable[ResourceRow], hidden: frozenset[str] = frozenset()) -> None:
        super().__init__({row[0]: row for row in rows})
        self._hidden = hidden

    def _make(self, row: tuple[object, ...]) -> Definition:
        name, kind, default, check, synonyms, documentation = row
        return Definition(
            name=str(name),
            type=ConfigType[str(kind).upper()],
            default=None if default is None else str(default),
            check=str(check),
            is_hidden=name in self._hidden,
            synonyms=tuple(str(synonyms).split()),
            documentation=str(documentation),
        )


def _update(marks: list[str]) -> Update:
    if "broker" in marks:
        return Update.PER_BROKER
    return Update.CLUSTER_WIDE if "cluster" in marks else Update.READ_ONLY


def without_listener(name: str) -> str:
    """The setting's own name: `listener.name.internal.ssl.key.password` sets `ssl.key.password` for one listener, and
    `….plain.sasl.jaas.config` sets it for one SASL mechanism."""
    if not name.startswith("listener.name."):
        return name
    general = name.removeprefix("listener.name.").partition(".")[2] or name
    mechanism, _, of_mechanism = general.partition(".")
    return of_mechanism if mechanism in _MECHANISMS else general
