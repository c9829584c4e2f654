"""A machine spread over the partitions of an internal topic: each key has its home by its hash, as in Kafka.

Whoever leads a partition coordinates for its keys. In a cluster that changes: a broker takes up what another one has left, and
leaves what another one takes up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from kompat.coordination.machine import Machine
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition

logger = logging.getLogger(__name__)

# What clients are told where a coordinator's log fails: as with Kafka, to look for their coordinator, and to come again.
FAILURES = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

M = TypeVar("M", bound=Machine[Any])
R = TypeVar("R")

Partitions = Sequence[Partition | None]  # of a topic; None: this broker has no replica of it


def home_of(key: str, partitions: int) -> int:
    """Java's String.hashCode over UTF-16, its absolute value, modulo: where Apache Kafka puts the key too."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(encoded), 2):
        value = (31 * value + (encoded[i] << 8 | encoded[i + 1])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


class Shards(Generic[M, R]):
    def __init__(
        self,
        make: Callable[[Partition], Runtime[M, R]],
        existing: Callable[[], Partitions],
        ensure: Callable[[], Awaitable[Partitions]],
    ) -> None:
        """`existing` gives the topic's partitions, none if there is no topic yet; `ensure` makes the topic first."""
        self._make = make
        self._existing = existing
        self._ensure = ensure
        self._runtimes: dict[int, Runtime[M, R]] = {}

    async def start(self) -> None:
        """Take up all that was under way: deadlines run on, prepared ends are completed."""
        await asyncio.gather(*(runtime.load() for runtime in self.all()))

    async def close(self) -> None:
        await asyncio.gather(*(runtime.close() for runtime in self._runtimes.values()))

    # -- who coordinates -------------------------------------------------------------------------------------------
    def lead(self, partition: Partition) -> None:
        """This broker leads one of the topic's partitions from now on."""
        self._open(partition).lead().add_done_callback(_log_failure)

    def resign(self, partition: Partition) -> None:
        """This broker does not lead it any more."""
        runtime = self._runtimes.get(partition.index)
        if runtime is not None and runtime.partition is partition:
            runtime.resign()

    # -- finding ---------------------------------------------------------------------------------------------------
    async def home(self, key: str) -> Runtime[M, R]:
        """Raises NOT_COORDINATOR where another broker leads it."""
        partitions = self._existing() or await self._ensure()
        return self._led(partitions[home_of(key, len(partitions))])

    def known_home(self, key: str) -> Runtime[M, R] | None:
        """The key's home if there can be anything in it."""
        partitions = self._existing()
        return self._led(partitions[home_of(key, len(partitions))]) if partitions else None

    async def place(self, key: str) -> int:
        """The number of the key's partition, whoever leads it; the topic is made if need be."""
        partitions = self._existing() or await self._ensure()
        return home_of(key, len(partitions))

    def known_place(self, key: str) -> int | None:
        """The same, if there can be anything in it."""
        return home_of(key, self.count) if self.count else None

    @property
    def count(self) -> int:
        return len(self._existing())

    def at(self, index: int) -> Runtime[M, R] | None:
        partitions = self._existing()
        return self._led(partitions[index]) if index < len(partitions) else None

    def all(self) -> Iterable[Runtime[M, R]]:
        """Those that this broker leads."""
        opened = [self._open(partition) for partition in self._existing() if partition is not None]
        return [runtime for runtime in opened if runtime.is_leading]

    def opened(self) -> list[Runtime[M, R]]:
        """Those among them that somebody has asked for since the start, of a topic that is still there."""
        found = self._runtimes.values()
        return [runtime for runtime in found if runtime.is_leading and not runtime.partition.is_dropped]

    def _led(self, partition: Partition | None) -> Runtime[M, R]:
        runtime = self._open(partition) if partition is not None else None
        if runtime is None or not runtime.is_leading:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runtime

    def _open(self, partition: Partition) -> Runtime[M, R]:
        runtime = self._runtimes.get(partition.index)
        if runtime is None or runtime.partition.is_dropped:  # an operator may delete the topic: it is made anew
            runtime = self._runtimes[partition.index] = self._make(partition)
        return runtime


def _log_failure(done: asyncio.Future[None]) -> None:
    """Whoever needs it loads it again."""
    if not done.cancelled() and done.exception() is not None:
        logger.warning("a coordinator could not take up its work yet: %s", done.exception())
