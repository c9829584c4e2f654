"""The offsets where share groups stand: told, set, forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from kompat.errors import KafkaError
from kompat.log.manager import Logs
from kompat.share.homes import Homes
from kompat.share.records import NO_COUNT, UNINITIALIZED, ShareKey
from kompat.share.requests import DescribedOffset, TopicIdPartition
from kompat.types import LeaderEpoch, Offset

UNKNOWN_LAG = -1


class ShareOffsets:
    def __init__(self, homes: Homes, logs: Logs, fence: Callable[[Iterable[ShareKey]], None]) -> None:
        """`fence`: whoever uses these share partitions on this broker has to load them anew."""
        self._homes = homes
        self._logs = logs
        self._fence_here = fence

    async def partitions_of(self, group_id: str) -> list[TopicIdPartition]:
        """All that the group has a state for."""
        return sorted(TopicIdPartition(key.topic_id, key.partition) for key in await self._homes.keys_of(group_id))

    async def describe(self, group_id: str, partition: TopicIdPartition) -> DescribedOffset:
        summary = await self._homes.summary(ShareKey(group_id, *partition))
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

    async def _bounds(self, partition: TopicIdPartition) -> tuple[int, int] | None:
        """Where the log begins and ends; None where nobody can tell."""
        log, elsewhere = self._logs.find_by_id(*partition), self._homes.elsewhere
        if log is not None and (log.is_led or elsewhere is None):
            return log.log_start_offset, log.high_watermark
        if elsewhere is not None:
            with suppress(KafkaError):
                start, end = await elsewhere.ask_leader(partition, "bounds", [])
                return start, end
        return None

    async def ensure(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Let the group have a state for these partitions."""
        await self._homes.ensure(ShareKey(group_id, *partition) for partition in partitions)

    async def alter(self, group_id: str, start_offsets: Mapping[TopicIdPartition, Offset]) -> None:
        """Let the group begin anew at these offsets; whatever was in flight there is forgotten."""
        keys = {ShareKey(group_id, *partition): offset for partition, offset in start_offsets.items()}
        await asyncio.gather(*(self._alter(key, offset) for key, offset in keys.items()))
        await self._fence(keys)

    async def _alter(self, key: ShareKey, offset: Offset) -> None:
        log = self._logs.find_by_id(key.topic_id, key.partition)
        epoch = log.leader_epoch if log is not None and log.is_led else LeaderEpoch(0)
        await self._homes.restart(key, offset, epoch)

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Forget where the group stands: it begins there by its settings, when it comes again."""
        keys = [ShareKey(group_id, *partition) for partition in partitions]
        await self._homes.delete(keys)
        await self._fence(keys)

    async def _fence(self, keys: Collection[ShareKey]) -> None:
        self._fence_here(keys)
        if self._homes.elsewhere is not None:
            await asyncio.gather(*map(self._fence_afar, keys))

    async def _fence_afar(self, key: ShareKey) -> None:
        """Who cannot be told finds out with the next change."""
        log, elsewhere = self._logs.find_by_id(key.topic_id, key.partition), self._homes.elsewhere
        if elsewhere is not None and (log is None or not log.is_led):
            with suppress(KafkaError):
                await elsewhere.ask_leader(TopicIdPartition(key.topic_id, key.partition), "fence", [key.group_id])
