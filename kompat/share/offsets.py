"""The offsets where share groups stand: told, set, forgotten."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import Shards
from kompat.log.manager import Logs
from kompat.share.machine.state import ShareStateMachine, Summary
from kompat.share.records import NO_COUNT, UNINITIALIZED, ShareKey, ShareRecord
from kompat.share.requests import DescribedOffset, TopicIdPartition
from kompat.types import LeaderEpoch, Offset

UNKNOWN_LAG = -1


class ShareOffsets:
    def __init__(
        self,
        shards: Shards[ShareStateMachine, ShareRecord],
        logs: Logs,
        clock: Clock,
        fence: Callable[[Iterable[ShareKey]], None],
    ) -> None:
        """`fence`: whoever uses these share partitions has to load them anew."""
        self._shards = shards
        self._logs = logs
        self._clock = clock
        self._fence = fence

    async def partitions_of(self, group_id: str) -> list[TopicIdPartition]:
        """All that the group has a state for."""
        found: list[ShareKey] = []
        for runtime in self._shards.all():
            keys = await runtime.run(lambda machine: machine.keys_of(group_id))
            found += keys
        return sorted(TopicIdPartition(key.topic_id, key.partition) for key in found)

    async def describe(self, group_id: str, partition: TopicIdPartition) -> DescribedOffset:
        key = ShareKey(group_id, *partition)
        home = self._shards.known_home(key.coordinator_key)
        summary = Summary() if home is None else await home.run(lambda machine: machine.summary(key))
        log = self._logs.find_by_id(*partition)
        lag = UNKNOWN_LAG
        if log is not None and summary.start_offset != UNINITIALIZED and summary.complete_count != NO_COUNT:
            start = max(summary.start_offset, log.log_start_offset)
            lag = max(0, log.high_watermark - start - summary.complete_count)
        return DescribedOffset(
            partition=partition.partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            lag=lag,
        )

    async def ensure(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Let the group have a state for these partitions."""
        homes: dict[Runtime[ShareStateMachine, ShareRecord], list[ShareKey]] = defaultdict(list)
        for partition in partitions:
            key = ShareKey(group_id, *partition)
            homes[await self._shards.home(key.coordinator_key)].append(key)
        await asyncio.gather(*(self._ensure(home, keys) for home, keys in homes.items()))

    async def _ensure(self, home: Runtime[ShareStateMachine, ShareRecord], keys: Sequence[ShareKey]) -> None:
        await home.run(lambda machine: machine.ensure(keys, self._clock.now()))

    async def alter(self, group_id: str, start_offsets: Mapping[TopicIdPartition, Offset]) -> None:
        """Let the group begin anew at these offsets; whatever was in flight there is forgotten."""
        keys = {ShareKey(group_id, *partition): offset for partition, offset in start_offsets.items()}
        await asyncio.gather(*(self._alter(key, offset) for key, offset in keys.items()))
        self._fence(keys)

    async def _alter(self, key: ShareKey, offset: Offset) -> None:
        log = self._logs.find_by_id(key.topic_id, key.partition)
        epoch = log.leader_epoch if log is not None else LeaderEpoch(0)
        home = await self._shards.home(key.coordinator_key)
        await home.run(
            lambda machine: machine.initialize(key, offset, leader_epoch=epoch, state_epoch=None, now=self._clock.now())
        )

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Forget where the group stands: it begins there by its settings, when it comes again."""
        keys = [ShareKey(group_id, *partition) for partition in partitions]
        await asyncio.gather(*(self._delete(key) for key in keys))
        self._fence(keys)

    async def _delete(self, key: ShareKey) -> None:
        home = self._shards.known_home(key.coordinator_key)
        if home is not None:
            await home.run(lambda machine: machine.delete([key]))

    async def delete_group(self, group_id: str) -> None:
        await self.delete(group_id, await self.partitions_of(group_id))

    async def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        for runtime in self._shards.all():
            await runtime.run(lambda machine: machine.delete_topics(topic_ids))
