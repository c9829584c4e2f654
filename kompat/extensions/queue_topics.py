"""Queue topics: those created with `kompat.queue.source`. Puts what makes them queues onto their partitions.

A queue topic is a share group of its own name on its source. Its partitions share the source's among them; where there
are more of them than of the source's, several deliver from the same one.

Of several brokers, each delivers in the queue's partitions that it leads what it leads of the source. What is led by brokers that
lead nothing of the queue, the others deliver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import UUID

from kompat.cluster.changes import Changes
from kompat.cluster.leaders import Leaders
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import KafkaError
from kompat.extensions.queue_far import FarShares
from kompat.extensions.queue_partition import QueuePartition, leads
from kompat.log.manager import Logs
from kompat.share.requests import TopicIdPartition
from kompat.share.service import ShareService
from kompat.types import LogId, NodeId

LOOK_SECONDS = 0.5  # between two looks at who leads what

logger = logging.getLogger(__name__)


class QueueTopics:
    def __init__(self, cluster: ClusterService, logs: Logs, shares: ShareService, far: FarShares) -> None:
        self._cluster = cluster
        self._logs = logs
        self._shares = shares
        self._far = far
        self._queues: dict[UUID, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Before anybody reads from them."""
        for topic in list(self._cluster.topics()):
            self._take_up(topic)
        await asyncio.gather(*(each.begin() for queue in self._queues.values() for each in queue.partitions.values()))
        for queue in self._queues.values():
            queue.load()
        self._cluster.watch(self._changed)
        if self._cluster.member is not None:
            self.spawn(self._look_at_leaders(self._cluster.member.leaders))

    async def _look_at_leaders(self, leaders: Leaders) -> None:
        """Whoever leads another partition than before has other records to deliver."""
        version = leaders.version
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if leaders.version != version:
                version = leaders.version
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
                partition = QueuePartition(log, queue, self._shares, self._far, self.spawn)
                queue.partitions[state.index] = partition
                log.intake = log.demand = partition

    def _grown(self, source: str) -> None:
        """Whoever waits for the topic's records may have more to wait for: it is new, or has more partitions."""
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
        self.partitions: dict[int, QueuePartition] = {}  # those that are here, by their numbers
        self._cluster = cluster
        self._logs = logs
        self._shares = shares
        self._turn = 0
        self._waking: asyncio.Handle | None = None

    def sources(self, index: int) -> Sequence[TopicIdPartition]:
        topic = self._cluster.topic(self.source)
        if topic is None:
            return ()
        # Of several brokers, each delivers what it leads: there the group's state is.
        ours = sorted(index for index, each in self.partitions.items() if leads(each.partition))
        theirs = [each for each in _partitions(topic) if self.is_here(each)]
        if index not in ours or not theirs:
            return ()
        place = ours.index(index)
        found = theirs[place :: len(ours)] or [theirs[place % len(theirs)]]
        self._turn += 1
        start = self._turn % len(found)
        return [*found[start:], *found[:start]]

    def far_sources(self, index: int) -> Sequence[TopicIdPartition]:
        queue, source = self._cluster.topic(self.group_id), self._cluster.topic(self.source)
        if self._cluster.member is None or queue is None or source is None:
            return ()
        delivering = {self._leader(TopicIdPartition(queue.id, each.index)) for each in queue.partitions}
        left = [each for each in _partitions(source) if self._leader(each) not in (None, *delivering)]
        return [each for each in left if each.partition % len(queue.partitions) == index]

    def _leader(self, partition: TopicIdPartition) -> NodeId | None:
        member = self._cluster.member
        led = member.leaders.of(LogId(*partition)) if member is not None else None
        return led.leader if led is not None else None

    def is_source(self, partition: TopicIdPartition) -> bool:
        topic = self._cluster.topic(self.source)
        return topic is not None and topic.id == partition.topic_id and partition.partition < len(topic.partitions)

    def is_here(self, partition: TopicIdPartition) -> bool:
        log = self._logs.find_by_id(*partition)
        return log is not None and leads(log)

    def load(self) -> None:
        """Have the group's state at hand when the first acknowledgement comes."""
        topic = self._cluster.topic(self.source)
        for partition in _partitions(topic) if topic is not None else ():
            if self.is_here(partition):
                self._shares.find(self.group_id, partition)

    def settled(self) -> None:
        """Not at once: whoever tells is in the middle of something."""
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


def _partitions(topic: Topic) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic.id, each.index) for each in topic.partitions]
