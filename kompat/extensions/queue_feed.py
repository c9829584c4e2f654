"""Deliveries of a queue's partition from those partitions of the source that other brokers lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from kompat.errors import KafkaError
from kompat.extensions.queue_far import LONGEST_WAIT, FarShares, Taken, Taking
from kompat.share.home import Spawn
from kompat.share.requests import TopicIdPartition

PAUSE = 0.2  # seconds: where nothing can be taken now, or the other broker does not answer


class Feed:
    """One task for each of the partitions, while somebody waits for deliveries."""

    def __init__(
        self,
        far: FarShares,
        group_id: str,
        *,
        wanted: Callable[[], Taking | None],
        deliver: Callable[[TopicIdPartition, Taken], None],
        spawn: Spawn,
    ) -> None:
        """`wanted`: how much to take; None: nothing, for now."""
        self._far = far
        self._group_id = group_id
        self._wanted = wanted
        self._deliver = deliver
        self._spawn = spawn
        self._followed: frozenset[TopicIdPartition] = frozenset()
        self._tasks: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._taking: set[TopicIdPartition] = set()

    def follow(self, partitions: Collection[TopicIdPartition]) -> None:
        """Deliver from these, and from no others."""
        self._followed = frozenset(partitions)
        for partition, task in self._tasks.items():
            if partition not in self._followed and partition not in self._taking:  # else it ends when it has delivered
                task.cancel()
        for partition in self._followed:
            known = self._tasks.get(partition)
            if known is None or known.cancelling():
                self._tasks[partition] = self._spawn(self._feed(partition))

    async def _feed(self, partition: TopicIdPartition) -> None:
        while partition in self._followed:
            try:
                if await self._far.wait(self._group_id, partition, LONGEST_WAIT):
                    await self._take(partition)
            except KafkaError:  # perhaps another broker leads it now
                await asyncio.sleep(PAUSE)
        if self._tasks.get(partition) is asyncio.current_task():
            del self._tasks[partition]

    async def _take(self, partition: TopicIdPartition) -> None:
        wanted = self._wanted()
        if wanted is None or partition not in self._followed:
            await asyncio.sleep(PAUSE)
            return
        self._taking.add(partition)
        try:
            taken = await self._far.take(self._group_id, partition, wanted)
        finally:
            self._taking.discard(partition)
        if taken.given:
            self._deliver(partition, taken)
