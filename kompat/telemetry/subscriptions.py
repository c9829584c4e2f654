"""Metrics subscriptions: the settings of CLIENT_METRICS resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID
from zlib import crc32

from kompat._native import NamePattern

ALL = "*"
DEFAULT_INTERVAL_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """The properties of a client that a subscription can match."""

    instance_id: UUID
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str

    def of(self, key: str) -> str:
        return {
            "client_instance_id": str(self.instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": self.port,
        }[key]


@dataclass(frozen=True, slots=True)
class Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, NamePattern | None], ...]  # None matches no client

    def concerns(self, client: ClientFacts) -> bool:
        return all(pattern is not None and pattern.select([client.of(key)]) for key, pattern in self.match)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The metrics that a client has to push."""

    metrics: tuple[str, ...]  # prefixes of their names; a single `*` for all
    interval_ms: int

    def id_for(self, instance_id: UUID) -> int:
        """The subscription id. It changes with the subscription: a client with an old id has to request it again."""
        text = f"{self.metrics}{self.interval_ms}{instance_id}"
        return crc32(text.encode()) & 0x7FFFFFFF


def parse(settings: Mapping[str, str]) -> Subscription:
    """The subscription of a resource's settings, which were validated when they were set."""
    match = []
    for pair in _list(settings.get("match", "")):
        key, _, expression = pair.partition("=")
        match.append((key.strip(), _pattern(expression.strip())))
    return Subscription(
        tuple(_list(settings.get("metrics", ""))),
        int(settings.get("interval.ms", DEFAULT_INTERVAL_MS)),
        tuple(match),
    )


def _pattern(expression: str) -> NamePattern | None:
    """None if an expression that was accepted by another version is not valid any more."""
    try:
        return NamePattern(expression)
    except ValueError:
        return None


def wanted(subscriptions: Iterable[Subscription], client: ClientFacts) -> Wanted:
    """The metrics of all matching subscriptions, at the shortest of their intervals."""
    metrics: set[str] = set()
    interval = DEFAULT_INTERVAL_MS
    for each in subscriptions:
        if each.concerns(client):
            metrics |= set(each.metrics)
            interval = min(interval, each.interval_ms)
    return Wanted((ALL,) if ALL in metrics else tuple(sorted(metrics)), interval)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
