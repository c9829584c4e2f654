"""Which metrics operators want of which clients: the settings of CLIENT_METRICS resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID
from zlib import crc32

from kompat.patterns import Pattern

ALL = "*"
DEFAULT_INTERVAL_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """What a subscription may ask of a client."""

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
    match: tuple[tuple[str, Pattern | None], ...]  # None matches nobody

    def concerns(self, client: ClientFacts) -> bool:
        return all(pattern is not None and pattern.select([client.of(key)]) for key, pattern in self.match)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one client is to push."""

    metrics: tuple[str, ...]  # prefixes of their names; one `*` for all
    interval_ms: int

    def id_for(self, instance_id: UUID) -> int:
        """Another whenever something changes: by it a client is told that it has to ask again."""
        text = f"{self.metrics}{self.interval_ms}{instance_id}"
        return crc32(text.encode()) & 0x7FFFFFFF


def parse(settings: Mapping[str, str]) -> Subscription:
    """From a resource's own settings, which were checked when they were made."""
    match = []
    for pair in _list(settings.get("match", "")):
        key, _, expression = pair.partition("=")
        match.append((key.strip(), _pattern(expression.strip())))
    return Subscription(
        tuple(_list(settings.get("metrics", ""))),
        int(settings.get("interval.ms", DEFAULT_INTERVAL_MS)),
        tuple(match),
    )


def _pattern(expression: str) -> Pattern | None:
    """An expression that was let in when others were may be none any more."""
    try:
        return Pattern(expression)
    except ValueError:
        return None


def wanted(subscriptions: Iterable[Subscription], client: ClientFacts) -> Wanted:
    """All that is wanted of a client, as often as the most eager asks."""
    metrics: set[str] = set()
    interval = DEFAULT_INTERVAL_MS
    for each in subscriptions:
        if each.concerns(client):
            metrics |= set(each.metrics)
            interval = min(interval, each.interval_ms)
    return Wanted((ALL,) if ALL in metrics else tuple(sorted(metrics)), interval)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
