"""Meters clients by the quotas of the cluster, and computes their throttle time.

`is_enabled` is an attribute because it is read with every request: without quotas nothing is metered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kompat.cluster import quotas
from kompat.cluster.quotas import Component, QuotaChange
from kompat.common.slices import sliced
from kompat.errors import KafkaError
from kompat.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Meters,
)

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.changes import Changes
    from kompat.cluster.service import ClusterService
    from kompat.config.broker import BrokerConfig


N = TypeVar("N", int, float)
KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
)


@dataclass(slots=True)
class Waits:
    """The throttling by one quota, of all clients together."""

    count: int = 0
    ms: float = 0.0


class ClientQuotas:
    def __init__(self, cluster: ClusterService, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._meters = Meters(
            config["quota.window.num"],
            config["quota.window.size.seconds"] * 1000,
            config["controller.quota.window.num"],
            config["controller.quota.window.size.seconds"] * 1000,
        )
        self.waits = {key: Waits() for key in KEYS}  # what clients were throttled
        self.is_enabled = False  # for requests
        self.counts_connections = False
        self._refresh()
        cluster.watch(self._changed)

    def _changed(self, changes: Changes) -> None:
        if changes.quotas:
            self._refresh()

    def _refresh(self) -> None:
        limits = self._cluster.image.quotas
        self._meters.limit(limits)
        kinds = {kind for entity in limits for kind, _ in entity}
        self.counts_connections = IP in kinds
        self.is_enabled = bool(kinds - {IP})

    # -- counting --------------------------------------------------------------------------------------------------
    def produced(self, principal: str, client_id: str | None, size: int) -> int:
        """The throttle time in milliseconds, as with the other methods."""
        return self._record(PRODUCER_BYTE_RATE, principal, client_id, size)

    def fetched(self, principal: str, client_id: str | None, size: int) -> int:
        return self._record(CONSUMER_BYTE_RATE, principal, client_id, size)

    def worked(self, principal: str, client_id: str | None, seconds: float) -> int:
        """The time that a request took."""
        return self._record(REQUEST_PERCENTAGE, principal, client_id, seconds * 100, round(self._meters.longest_ms))

    def most_fetched(self, principal: str, client_id: str | None) -> int | None:
        """The most bytes of one response: more would exceed the quota in any case."""
        most = self._meters.most(CONSUMER_BYTE_RATE, _user(principal), client_id or "")
        return None if most is None else max(1, int(most))

    def connected(self, address: str) -> float:
        """Seconds after which a new connection is closed; 0: it is accepted."""
        return self._count_throttle(CONNECTION_CREATION_RATE, self._meters.connected(address, self._now())) / 1000

    def mutated(self, principal: str, client_id: str | None, partitions: int, *, is_strict: bool) -> int:
        """Partitions are to be created or deleted. If it `is_strict` and the throttle time is not 0, they must not be."""
        waits = self._meters.mutate(_user(principal), client_id or "", partitions, self._now(), is_strict=is_strict)
        return self._count_throttle(CONTROLLER_MUTATION_RATE, _rounded(waits))

    def _record(self, key: str, principal: str, client_id: str | None, value: float, most: int | None = None) -> int:
        waits = _rounded(self._meters.record(key, _user(principal), client_id or "", value, self._now()))
        return self._count_throttle(key, waits if most is None else min(waits, most))

    def _count_throttle(self, key: str, ms: N) -> N:
        if ms > 0:
            self.waits[key].count += 1
            self.waits[key].ms += ms
        return ms

    def _now(self) -> float:
        return self._clock.monotonic() * 1000

    # -- changing quotas -------------------------------------------------------------------------------------------
    async def find(
        self, components: Sequence[Component], *, is_strict: bool
    ) -> list[tuple[Entity, Mapping[str, float]]]:
        matches = quotas.matching(components, is_strict=is_strict)
        known = list(self._cluster.image.quotas.items())
        return [(entity, limits) async for entity, limits in sliced(known) if matches(entity)]

    async def alter(self, wanted: Sequence[QuotaChange], *, validate_only: bool = False) -> list[KafkaError | None]:
        """Each entity is changed or refused on its own; outcomes are in the order of the request."""
        return await self._cluster.run(lambda machine: machine.alter_quotas(wanted, validate_only=validate_only))


def _user(principal: str) -> str:
    return principal.partition(":")[2]


def _rounded(ms: float) -> int:
    return max(1, round(ms)) if ms > 0 else 0
