"""Configs as DescribeConfigs returns them: value, source, and synonyms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kompat.config import values
from kompat.config.broker import DEFINITIONS as BROKER
from kompat.config.broker import BrokerConfig, Synonym, definition
from kompat.config.definitions import ConfigSource, Definition, Update
from kompat.config.groups import CLIENT_METRICS, GROUP, group_value
from kompat.config.topics import DEFINITIONS as TOPIC
from kompat.config.topics import topic_value
from kompat.config.values import ConfigType, Value


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]  # sources that have a value, the one in force first
    documentation: str


def topic_entries(overrides: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    shown = [name for name in TOPIC if name in overrides or not TOPIC[name].is_hidden]
    return [
        _entry(
            TOPIC[name],
            topic_value(name, overrides, broker),
            _own(name, overrides, TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG) + _of_broker(TOPIC[name], broker),
        )
        for name in shown
    ]


def group_entries(overrides: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    return [
        _entry(
            GROUP[name],
            group_value(name, overrides, broker),
            _own(name, overrides, GROUP, ConfigSource.GROUP_CONFIG) + _of_broker(GROUP[name], broker),
        )
        for name in GROUP
    ]


def metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    found = []
    for name in CLIENT_METRICS:
        known = CLIENT_METRICS[name]
        value = known.parse(overrides[name]) if name in overrides else known.default_value
        found.append(_entry(known, value, _own(name, overrides, CLIENT_METRICS, ConfigSource.CLIENT_METRICS_CONFIG)))
    return found


def broker_entries(broker: BrokerConfig) -> list[ConfigEntry]:
    """Of this broker."""
    return [_broker_entry(name, broker.shown(name), broker.synonyms(name)) for name in broker.listed()]


def cluster_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """The dynamic defaults of all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [_broker_entry(name, text, [Synonym(name, text, source)]) for name, text in sorted(overrides.items())]


def _broker_entry(name: str, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    known = definition(name)
    if known is None:
        raise KeyError(name)
    return ConfigEntry(
        name,
        None if known.is_sensitive else value,
        known.type,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        known.update is Update.READ_ONLY,
        known.is_sensitive,
        tuple(synonyms),
        known.documentation,
    )


def _entry(known: Definition, value: Value, synonyms: list[Synonym]) -> ConfigEntry:
    return ConfigEntry(
        known.name,
        values.to_text(value),
        known.type,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        False,
        known.is_sensitive,
        tuple(synonyms),
        known.documentation,
    )


def _own(
    name: str, overrides: Mapping[str, str], definitions: Mapping[str, Definition], source: ConfigSource
) -> list[Synonym]:
    if name not in overrides:
        return []
    return [Synonym(name, values.to_text(definitions[name].parse(overrides[name])), source)]


def _of_broker(known: Definition, broker: BrokerConfig) -> list[Synonym]:
    if not known.synonyms:
        return []
    first = known.synonyms[0]
    if first in BROKER:
        return broker.synonyms(first)
    return [Synonym(first, known.default, ConfigSource.DEFAULT_CONFIG)]
