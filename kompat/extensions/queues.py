"""Queues for those who are not members of a share group: acquire records, and say by receipt what became of them.

Works on the same share partitions as share groups: a group may be used by both at once, and each record is with one of
them at a time. Whoever takes a record has it until its lock ends; then it comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.queue_far import FarShares, Taking, Word
from kompat.extensions.queue_records import new_lock, take
from kompat.extensions.queue_statistics import QueueStatistics, total
from kompat.protocol.records import Record
from kompat.share import receipts
from kompat.share.live import LivePartition
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.receipts import Receipt
from kompat.share.requests import FetchedPartition, FetchRequest, TopicIdPartition
from kompat.share.service import ShareService

PAUSE = 0.2  # seconds, where a partition's leader cannot be reached
MOST_TURNS = 10_000  # queues whose turn is remembered
MAX_RECORDS = 10_000  # of one acquisition


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A record that its receiver holds now."""

    receipt: str
    topic: str
    partition: int
    deliveries: int  # this one included
    lock_ms: int
    record: Record


class QueueService:
    def __init__(self, cluster: ClusterService, shares: ShareService, far: FarShares) -> None:
        self._cluster = cluster
        self._shares = shares
        self._far = far
        self._turns: dict[tuple[str, str], int] = {}

    # -- acquiring -------------------------------------------------------------------------------------------------
    async def acquire(
        self,
        group_id: str,
        topic: str,
        *,
        partition: int | None = None,
        max_records: int = 1,
        max_bytes: int = 50 << 20,
        max_wait_ms: int = 0,
        lock_ms: int | None = None,
        begin: str | None = None,
    ) -> list[Delivery]:
        """At most so many records, at once or as soon as there are some; none where the time is up.

        `lock_ms`: how long they are the receiver's, if not as long as the group has it. `begin`: `earliest` or `latest`, where a
        group begins that has not yet and has no setting that says so.
        """
        found = self._topic(group_id, topic)
        partitions = self._in_turn(group_id, found, partition)
        if begin is not None and self._cluster.has_group_setting(group_id, "share.auto.offset.reset"):
            begin = None
        taking = Taking(new_lock(), min(max_records, MAX_RECORDS), max_bytes, lock_ms, begin)
        if all(map(self._far.is_here, partitions)):
            return await self._acquire_here(group_id, partitions, taking, max_wait_ms)
        return await self._acquire_anywhere(found, group_id, partitions, taking, max_wait_ms / 1000)

    async def _acquire_here(
        self, group_id: str, partitions: Sequence[TopicIdPartition], taking: Taking, max_wait_ms: int
    ) -> list[Delivery]:
        request = FetchRequest(
            group_id=group_id,
            member_id=receipts.member_of(taking.lock),
            partitions=partitions,
            max_records=taking.max_records,
            max_bytes=taking.max_bytes,
            max_wait_ms=max_wait_ms,
            mode=AcquireMode.RECORD_LIMIT,
        )
        for each in partitions:
            await self._far.use(group_id, each, taking.begin)  # else one that does not wait gets nothing the first time
        fetched = await self._shares.fetch(request).wait()
        _raise_if_failed(fetched)
        if not fetched:
            self._shares.retire(group_id, partitions)
        return [
            delivery
            for each in fetched
            if each.acquired
            for delivery in await self._deliver(await self._shares.use(group_id, each.partition), each, taking)
        ]

    async def _acquire_anywhere(
        self, topic: Topic, group_id: str, partitions: Sequence[TopicIdPartition], taking: Taking, seconds: float
    ) -> list[Delivery]:
        """From partition to partition, whoever leads them, until there is something or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            errors: list[KafkaError] = []
            for partition in partitions:
                try:
                    taken = await self._far.take(group_id, partition, taking)
                except KafkaError as error:
                    errors.append(error)
                    continue
                if taken.given:
                    return [_delivery(topic.name, taken.lock_ms, *each) for each in taken.given]
            left = deadline - loop.time()
            if left <= 0 and len(errors) == len(partitions):
                raise errors[0]
            if left <= 0:
                return []
            if errors:
                await asyncio.sleep(min(PAUSE, left))  # soon others lead what cannot be reached
            else:
                await self._until_any(group_id, partitions, left, taking.begin)

    async def _until_any(
        self, group_id: str, partitions: Sequence[TopicIdPartition], seconds: float, begin: str | None
    ) -> None:
        waiting = [asyncio.ensure_future(self._far.wait(group_id, each, seconds, begin)) for each in partitions]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _deliver(self, live: LivePartition, fetched: FetchedPartition, taking: Taking) -> list[Delivery]:
        given, lock_ms = list(take(live, fetched, taking.lock)), taking.lock_ms
        if lock_ms is not None and given:
            await live.settle([receipt.says(AckType.RENEW, lock_ms) for receipt, _ in given]).wait()
        told = live.settings.lock_ms if lock_ms is None else lock_ms
        return [_delivery(live.log.topic, told, receipt, record) for receipt, record in given]

    def _topic(self, group_id: str, name: str) -> Topic:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a queue has a group")
        found = self._cluster.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        if found.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} is the broker's own")
        return found

    def _in_turn(self, group_id: str, topic: Topic, partition: int | None) -> list[TopicIdPartition]:
        """The partitions to look at; every time another one comes first, so that none has to wait for the others."""
        count = len(topic.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {topic.name}"
                )
            return [TopicIdPartition(topic.id, partition)]
        key = group_id, topic.name
        turn = self._turns.pop(key, 0)
        self._turns[key] = turn + 1
        if len(self._turns) > MOST_TURNS:
            del self._turns[next(iter(self._turns))]
        return [TopicIdPartition(topic.id, (turn + index) % count) for index in range(count)]

    # -- by receipt ------------------------------------------------------------------------------------------------
    async def accept(self, given: Sequence[str]) -> list[KafkaError | None]:
        """The records are done with. For each receipt, in order, why its word does not count, if so."""
        return await self._settle(given, AckType.ACCEPT)

    async def release(self, given: Sequence[str], *, delay_ms: int | None = None) -> list[KafkaError | None]:
        """Let others have them, after the group's back-off or after this delay; too many deliveries end in a dead letter."""
        return await self._settle(given, AckType.RELEASE, delay_ms)

    async def reject(self, given: Sequence[str], *, reason: str | None = None) -> list[KafkaError | None]:
        """Nobody can do anything with them: they become dead letters, which tell the reason."""
        return await self._settle(given, AckType.REJECT, reason=reason)

    async def extend(self, given: Sequence[str], *, lock_ms: int | None = None) -> list[KafkaError | None]:
        """Keep them, from now on for this time or for the group's."""
        return await self._settle(given, AckType.RENEW, lock_ms)

    async def _settle(
        self, given: Sequence[str], kind: AckType, wait_ms: int | None = None, reason: str | None = None
    ) -> list[KafkaError | None]:
        outcomes: list[KafkaError | None] = [None] * len(given)
        by_partition: dict[tuple[str, TopicIdPartition], list[tuple[int, Receipt]]] = {}
        for index, text in enumerate(given):
            try:
                receipt = receipts.decode(text)
            except KafkaError as error:
                outcomes[index] = error
            else:
                by_partition.setdefault((receipt.group_id, receipt.partition), []).append((index, receipt))
        for (_, partition), these in by_partition.items():
            words = [Word(receipt, kind, wait_ms, reason) for _, receipt in these]
            for (index, _), refusal in zip(these, await self._settle_in(partition, words), strict=True):
                outcomes[index] = _as_told(refusal)
        return outcomes

    async def _settle_in(self, partition: TopicIdPartition, words: Sequence[Word]) -> list[KafkaError | None]:
        try:
            return await self._far.settle(partition, words, all_or_none=False)
        except KafkaError as error:  # the broker that has them cannot be reached
            return [error] * len(words)

    # -- looking ---------------------------------------------------------------------------------------------------
    async def statistics(self, group_id: str, topic: str) -> QueueStatistics:
        """How deep the queue is; all zero for a group that has not begun."""
        return total((await self.by_partition(group_id, topic)).values())

    async def by_partition(self, group_id: str, topic: str, *, begin: str | None = None) -> dict[int, QueueStatistics]:
        """How deep the queue is in each partition. `begin`: a group that has not begun does so there."""
        found = self._topic(group_id, topic)
        partitions = [TopicIdPartition(found.id, each.index) for each in found.partitions]
        if begin is not None:
            for partition in partitions:
                await self._far.wait(group_id, partition, 0, begin)
        return {each.partition: await self._far.statistics(group_id, each) for each in partitions}


def _delivery(topic: str, lock_ms: int, receipt: Receipt, record: Record) -> Delivery:
    return Delivery(
        receipt=receipt.encode(),
        topic=topic,
        partition=receipt.partition.partition,
        deliveries=receipt.deliveries,
        lock_ms=lock_ms,
        record=record,
    )


def _raise_if_failed(fetched: Iterable[FetchedPartition]) -> None:
    """An error counts only where nothing was acquired: what was, has to be told."""
    errors = [each.error for each in fetched if each.error is not None]
    if errors and not any(each.acquired for each in fetched):
        raise errors[0]


def _as_told(error: KafkaError | None) -> KafkaError | None:
    if error is not None and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, "the receipt is of a topic that is not here")
    return error
