"""A machine distributed over the partitions of an internal topic: each key belongs to one by its hash, as in Kafka.

The leader of a partition coordinates its keys. In a cluster leaders change: the new leader resumes the work of the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kompat.coordination.machine import Machine
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.types import LogId

logger = logging.getLogger(__name__)

# The errors of clients when a coordinator's log fails: as with Kafka, they look up their coordinator and retry.
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


class InternalTopic(Protocol):
    """The topic that a machine's records are in."""

    @property
    def name(self) -> str: ...

    def existing(self) -> Partitions:
        """Empty if the topic does not exist."""
        ...

    async def ensure(self) -> Partitions:
        """Creates the topic if it does not exist. Raises KafkaError."""
        ...

    def log_ids(self) -> Sequence[LogId]:
        """All partitions, on whichever broker they are led."""
        ...


def partition_for(key: str, partitions: int) -> int:
    """Java's String.hashCode over UTF-16, its absolute value, modulo: where Apache Kafka puts the key too."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(encoded), 2):
        value = (31 * value + (encoded[i] << 8 | encoded[i + 1])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


class Shards(Generic[M, R]):
    def __init__(self, make: Callable[[Partition], Runtime[M, R]], topic: InternalTopic) -> None:
        self._make = make
        self._topic = topic
        self._runtimes: dict[int, Runtime[M, R]] = {}

    async def start(self) -> None:
        """Resume what is in progress: deadlines continue, prepared transactions are completed."""
        await asyncio.gather(*(runtime.load() for runtime in self.all()))

    async def close(self) -> None:
        await asyncio.gather(*(runtime.close() for runtime in self._runtimes.values()))

    # -- who coordinates -------------------------------------------------------------------------------------------
    def lead(self, partition: Partition) -> None:
        """This broker leads one of the topic's partitions from now on."""
        self._open(partition).lead().add_done_callback(_log_failure)

    def resign(self, partition: Partition) -> None:
        """This broker leads it no longer."""
        runtime = self._runtimes.get(partition.index)
        if runtime is not None and runtime.partition is partition:
            runtime.resign()

    # -- finding ---------------------------------------------------------------------------------------------------
    async def shard(self, key: str) -> Runtime[M, R]:
        """The shard of a key. Raises NOT_COORDINATOR if another broker leads it."""
        partitions = self._topic.existing() or await self._topic.ensure()
        return self._led(partitions[partition_for(key, len(partitions))])

    def known_shard(self, key: str) -> Runtime[M, R] | None:
        """The same, or None if the topic does not exist."""
        partitions = self._topic.existing()
        return self._led(partitions[partition_for(key, len(partitions))]) if partitions else None

    def at(self, partition: Partition) -> Runtime[M, R]:
        """The shard of a partition. Raises NOT_COORDINATOR if this broker does not coordinate it."""
        return self._led(partition)

    async def partition_of(self, key: str) -> int:
        """The index of the key's partition, on whichever broker it is led; the topic is created if it does not exist."""
        partitions = self._topic.existing() or await self._topic.ensure()
        return partition_for(key, len(partitions))

    def known_partition_of(self, key: str) -> int | None:
        """The same, or None if the topic does not exist."""
        count = len(self._topic.existing())
        return partition_for(key, count) if count else None

    def all(self) -> Iterable[Runtime[M, R]]:
        """The shards that this broker leads."""
        opened = [self._open(partition) for partition in self._topic.existing() if partition is not None]
        return [runtime for runtime in opened if runtime.is_leading]

    def opened(self) -> list[Runtime[M, R]]:
        """Those among them that were used since the start, of a topic that still exists."""
        found = self._runtimes.values()
        return [runtime for runtime in found if runtime.is_leading and not runtime.partition.is_dropped]

    def _led(self, partition: Partition | None) -> Runtime[M, R]:
        runtime = self._open(partition) if partition is not None else None
        if runtime is None or not runtime.is_leading:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runtime

    def _open(self, partition: Partition) -> Runtime[M, R]:
        runtime = self._runtimes.get(partition.index)
        if runtime is None or runtime.partition.is_dropped:  # an operator may delete the topic: it is created again
            runtime = self._runtimes[partition.index] = self._make(partition)
        return runtime


def _log_failure(done: asyncio.Future[None]) -> None:
    """The next command loads it again."""
    if not done.cancelled() and done.exception() is not None:
        logger.warning("a coordinator could not take up its work yet: %s", done.exception())
