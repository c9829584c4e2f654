"""Deliveries of a queue's partition from those partitions of the source that other brokers lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from kompat.errors import KafkaError
from kompat.extensions.queues.records import Wanted
from kompat.extensions.queues.requests import LONGEST_WAIT, Acquired, AcquireRecords, WaitForRecords
from kompat.rpc.router import Router
from kompat.share.state_writer import Spawn
from kompat.types import LogId

PAUSE = 0.2  # seconds: if no record is available, or the other broker does not respond


class Feed:
    """One task for each of the partitions, while consumers wait for deliveries."""

    def __init__(
        self,
        rpc: Router,
        group_id: str,
        *,
        wanted: Callable[[], Wanted | None],
        deliver: Callable[[Acquired], None],
        spawn: Spawn,
    ) -> None:
        """`wanted`: how much to acquire; None: nothing, for now."""
        self._rpc = rpc
        self._group_id = group_id
        self._wanted = wanted
        self._deliver = deliver
        self._spawn = spawn
        self._followed: frozenset[LogId] = frozenset()
        self._tasks: dict[LogId, asyncio.Task[None]] = {}
        self._acquiring: set[LogId] = set()

    def follow(self, partitions: Collection[LogId]) -> None:
        """Deliver from these, and from no others."""
        self._followed = frozenset(partitions)
        for partition, task in self._tasks.items():
            if (
                partition not in self._followed and partition not in self._acquiring
            ):  # else it ends when it has delivered
                task.cancel()
        for partition in self._followed:
            known = self._tasks.get(partition)
            if known is None or known.cancelling():
                self._tasks[partition] = self._spawn(self._feed(partition))

    async def _feed(self, partition: LogId) -> None:
        while partition in self._followed:
            try:
                waiting = WaitForRecords(self._group_id, [partition.partition], LONGEST_WAIT)
                if await self._rpc.call(partition, waiting):
                    await self._acquire(partition)
            except KafkaError:  # perhaps another broker leads it now
                await asyncio.sleep(PAUSE)
        if self._tasks.get(partition) is asyncio.current_task():
            del self._tasks[partition]

    async def _acquire(self, partition: LogId) -> None:
        wanted = self._wanted()
        if wanted is None or partition not in self._followed:
            await asyncio.sleep(PAUSE)
            return
        self._acquiring.add(partition)
        try:
            acquired = await self._rpc.call(
                partition,
                AcquireRecords(group_id=self._group_id, partitions=[partition.partition], **wanted._asdict()),
            )
        finally:
            self._acquiring.discard(partition)
        if acquired.records:
            self._deliver(acquired)
