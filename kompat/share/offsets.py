"""The start offsets of share groups: describe, alter, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar, NamedTuple

from kompat.errors import KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.messages import LeaderRequest
from kompat.rpc.router import Router
from kompat.share.persister import Persister
from kompat.share.records import NO_COUNT, UNINITIALIZED, ShareKey
from kompat.share.requests import DescribedOffset
from kompat.types import LeaderEpoch, LogId, Offset

UNKNOWN_LAG = -1


class Bounds(NamedTuple):
    log_start_offset: Offset
    high_watermark: Offset


class ReadBounds(LeaderRequest[Bounds], frozen=True):
    """The start and end offset of a partition. It is not retried: an unreachable leader means that the lag is unknown."""

    patience: ClassVar[float] = 0.0


class FenceSharePartition(LeaderRequest[None], frozen=True):
    """Make the leader of a partition load the group's share partition again. If it is unreachable, its next write is fenced."""

    patience: ClassVar[float] = 0.0

    group_id: str


class ShareOffsets:
    def __init__(self, persister: Persister, logs: Logs, rpc: Router) -> None:
        self._persister = persister
        self._logs = logs
        self._rpc = rpc
        rpc.serve(ReadBounds, _bounds)

    async def partitions_of(self, group_id: str) -> list[LogId]:
        """All partitions that the group has a state for."""
        return sorted(LogId(key.topic_id, key.partition) for key in await self._persister.keys_of(group_id))

    async def describe(self, group_id: str, partition: LogId) -> DescribedOffset:
        summary = await self._persister.summary(ShareKey(group_id, *partition))
        lag = UNKNOWN_LAG
        if summary.start_offset != UNINITIALIZED and summary.complete_count != NO_COUNT:
            bounds = await self._bounds(partition)
            if bounds is not None:
                start, end = bounds
                lag = max(0, end - max(summary.start_offset, start) - summary.complete_count)
        return DescribedOffset(
            partition=partition.partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            lag=lag,
        )

    async def _bounds(self, partition: LogId) -> Bounds | None:
        """None if it is not known."""
        with suppress(KafkaError):
            return await self._rpc.call(partition, ReadBounds())
        return None

    async def ensure(self, group_id: str, partitions: Iterable[LogId]) -> None:
        """Initialize the group's state for these partitions."""
        await self._persister.ensure(ShareKey(group_id, *partition) for partition in partitions)

    async def alter(self, group_id: str, start_offsets: Mapping[LogId, Offset]) -> None:
        """Reset the group to these offsets; records that were in flight there are forgotten."""
        keys = {ShareKey(group_id, *partition): offset for partition, offset in start_offsets.items()}
        await asyncio.gather(*(self._alter(key, offset) for key, offset in keys.items()))
        await asyncio.gather(*map(self._fence, keys))

    async def _alter(self, key: ShareKey, offset: Offset) -> None:
        log = self._logs.find_by_id(key.topic_id, key.partition)
        epoch = log.leader_epoch if log is not None and log.is_led else LeaderEpoch(0)
        await self._persister.initialize(key, offset, epoch)

    async def delete(self, group_id: str, partitions: Iterable[LogId]) -> None:
        """Delete the group's state: when the group reads the partitions again, it starts as its settings say."""
        keys = [ShareKey(group_id, *partition) for partition in partitions]
        await self._persister.delete(keys)
        await asyncio.gather(*map(self._fence, keys))

    async def _fence(self, key: ShareKey) -> None:
        with suppress(KafkaError):
            await self._rpc.call(LogId(key.topic_id, key.partition), FenceSharePartition(key.group_id))


async def _bounds(partition: Partition, _: ReadBounds) -> Bounds:
    return Bounds(partition.log_start_offset, partition.high_watermark)
