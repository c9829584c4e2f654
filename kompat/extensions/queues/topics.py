"""Queue topics: those created with `kompat.queue.source`. Attaches the queue to their partitions.

A queue topic is a share group of its own name on its source. Its partitions divide the source's among them; if it has
more partitions than the source, several deliver from the same one.

In a cluster, each broker delivers, in the queue's partitions that it leads, the source's partitions that it leads. Partitions of
brokers that lead nothing of the queue are delivered by the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import UUID

from kompat.cluster.changes import Changes
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import KafkaError
from kompat.extensions.queues.partition import QueuePartition
from kompat.log.manager import Logs
from kompat.share.service import ShareService
from kompat.types import LogId, NodeId

LOOK_SECONDS = 0.5  # between two checks of the leaders

logger = logging.getLogger(__name__)


class QueueTopics:
    def __init__(self, cluster: ClusterService, logs: Logs, shares: ShareService) -> None:
        self._cluster = cluster
        self._logs = logs
        self._shares = shares
        self._queues: dict[UUID, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Before any consumer reads from them."""
        for topic in list(self._cluster.topics()):
            self._take_up(topic)
        await asyncio.gather(*(each.begin() for queue in self._queues.values() for each in queue.partitions.values()))
        for queue in self._queues.values():
            queue.load()
        self._cluster.watch(self._changed)
        self.spawn(self._look_at_leaders())

    async def _look_at_leaders(self) -> None:
        """After a change of leaders, brokers have other records to deliver."""
        stamp = self._cluster.network_stamp
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._cluster.network_stamp != stamp:
                stamp = self._cluster.network_stamp
                for queue in self._queues.values():
                    queue.look_again()

    async def close(self) -> None:
        for queue in self._queues.values():
            queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work on a queue topic failed", exc_info=task.exception())

    # -- what becomes of topics ------------------------------------------------------------------------------------
    def _changed(self, changes: Changes) -> None:
        for name, topic_id in changes.deleted:
            queue = self._queues.pop(topic_id, None)
            if queue is not None:
                queue.close()
                self.spawn(self._forget(name, queue))
        for name in changes.topics:
            topic = self._cluster.topic(name)
            if topic is not None:
                self._take_up(topic)
                self._grown(name)

    def _take_up(self, topic: Topic) -> None:
        source = topic.configs.get(SOURCE)
        if not source:
            return
        queue = self._queues.get(topic.id)
        if queue is None:
            queue = self._queues[topic.id] = _Queue(topic.name, source, self._cluster, self._logs, self._shares)
        for state in topic.partitions:
            log = self._logs.find_by_id(topic.id, state.index)
            known = queue.partitions.get(state.index)
            if log is not None and (known is None or known.partition is not log):
                partition = QueuePartition(log, queue, self._shares, self._cluster.rpc, self.spawn)
                queue.partitions[state.index] = partition
                log.interceptor = log.fetch_listener = partition

    def _grown(self, source: str) -> None:
        """Waiting consumers of the topic may have more to wait for: it is new, or has more partitions."""
        for queue in self._queues.values():
            if queue.source == source:
                queue.look_again()

    async def _forget(self, name: str, queue: _Queue) -> None:
        """The group has nothing more to do; another queue of the name begins as a new one."""
        source = self._cluster.topic(queue.source)
        if source is not None and self._cluster.topic(name) is None:
            try:
                await self._shares.offsets.delete(name, _partitions(source))
            except KafkaError as error:
                logger.warning("where the queue %s stood is not forgotten: %s", name, error)


class _Queue:
    """One queue topic."""

    def __init__(self, group_id: str, source: str, cluster: ClusterService, logs: Logs, shares: ShareService) -> None:
        self.group_id = group_id
        self.source = source
        self.partitions: dict[int, QueuePartition] = {}  # those on this broker, by their indexes
        self._cluster = cluster
        self._logs = logs
        self._shares = shares
        self._turn = 0
        self._waking: asyncio.Handle | None = None

    def sources(self, index: int) -> Sequence[LogId]:
        topic = self._cluster.topic(self.source)
        if topic is None:
            return ()
        # In a cluster, each broker delivers what it leads, because it has the group's state.
        ours = sorted(index for index, each in self.partitions.items() if each.partition.is_led)
        theirs = [each for each in _partitions(topic) if self.is_here(each)]
        if index not in ours or not theirs:
            return ()
        place = ours.index(index)
        found = theirs[place :: len(ours)] or [theirs[place % len(theirs)]]
        self._turn += 1
        start = self._turn % len(found)
        return [*found[start:], *found[:start]]

    def remote_sources(self, index: int) -> Sequence[LogId]:
        queue, source = self._cluster.topic(self.group_id), self._cluster.topic(self.source)
        if queue is None or source is None:
            return ()
        delivering = {self._leader(LogId(queue.id, each.index)) for each in queue.partitions}
        left = [each for each in _partitions(source) if self._leader(each) not in (None, *delivering)]
        return [each for each in left if each.partition % len(queue.partitions) == index]

    def _leader(self, partition: LogId) -> NodeId | None:
        return self._cluster.rpc.leader(partition)

    def is_source(self, partition: LogId) -> bool:
        topic = self._cluster.topic(self.source)
        return topic is not None and topic.id == partition.topic_id and partition.partition < len(topic.partitions)

    def is_here(self, partition: LogId) -> bool:
        log = self._logs.find_by_id(*partition)
        return log is not None and log.is_led

    def load(self) -> None:
        """Load the group's state before the first acknowledgement."""
        topic = self._cluster.topic(self.source)
        for partition in _partitions(topic) if topic is not None else ():
            if self.is_here(partition):
                self._shares.find(self.group_id, partition)

    def delivery_ended(self) -> None:
        """Not in this call: the caller is in the middle of a change."""
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = None
        for partition in self.partitions.values():
            partition.tidy_soon()
            partition.deliver()

    def close(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
        for partition in self.partitions.values():
            partition.close()

    def look_again(self) -> None:
        for partition in self.partitions.values():
            partition.look_again()


def _partitions(topic: Topic) -> list[LogId]:
    return [LogId(topic.id, each.index) for each in topic.partitions]
