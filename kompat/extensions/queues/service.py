"""Queues for those who are not members of a share group: acquire records, and say by receipt what became of them.

Works on the same share partitions as share groups: a group may be used by both at once, and each record is with one of
them at a time. Whoever takes a record has it until its lock ends; then it comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.queues.records import new_lock
from kompat.extensions.queues.requests import (
    LONGEST_WAIT,
    AcknowledgeRecords,
    Acquired,
    AcquireRecords,
    DescribeQueue,
    ReceiptAcknowledgement,
    WaitForRecords,
)
from kompat.extensions.queues.statistics import QueueStatistics, total
from kompat.protocol.records import Record
from kompat.rpc.messages import PASSING
from kompat.share import receipts
from kompat.share.machine.messages import AckType
from kompat.share.receipts import Receipt
from kompat.types import LogId, NodeId

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
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster
        self._rpc = cluster.rpc
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
        lock = new_lock()

        def wanted(those: Sequence[int]) -> AcquireRecords:
            return AcquireRecords(
                group_id=group_id,
                partitions=those,
                lock=lock,
                max_records=min(max_records, MAX_RECORDS),
                max_bytes=max_bytes,
                lock_ms=lock_ms,
                begin=begin,
            )

        acquired = await self._acquire(found.id, partitions, wanted, max_wait_ms / 1000)
        return [_delivery(found.name, acquired.lock_ms, *each) for each in acquired.records]

    async def _acquire(
        self,
        topic_id: UUID,
        partitions: Sequence[int],
        wanted: Callable[[Sequence[int]], AcquireRecords],
        seconds: float,
    ) -> Acquired:
        """From leader to leader, until there is something or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            errors: list[KafkaError] = []
            requests = [wanted(those) for those in self._by_leader(topic_id, partitions)]
            for request in requests:
                try:
                    acquired = await self._rpc.call(LogId(topic_id, request.partitions[0]), request)
                except KafkaError as error:
                    errors.append(error)
                    continue
                if acquired.records:
                    return acquired
            left = deadline - loop.time()
            if len(errors) == len(requests) and (left <= 0 or not any(each.code in PASSING for each in errors)):
                raise errors[0]
            if left <= 0:
                return Acquired(0, [])
            if errors or not await self._is_any_available(topic_id, requests, left):
                await asyncio.sleep(min(PAUSE, max(0.0, deadline - loop.time())))  # soon others lead

    def _by_leader(self, topic_id: UUID, partitions: Iterable[int]) -> list[list[int]]:
        found: dict[NodeId | None, list[int]] = {}
        for partition in partitions:
            found.setdefault(self._rpc.leader(LogId(topic_id, partition)), []).append(partition)
        return list(found.values())

    async def _is_any_available(self, topic_id: UUID, requests: Sequence[AcquireRecords], seconds: float) -> bool:
        """False where a leader cannot be reached; else when there may be something, or it is time to look again."""
        waiting = [
            asyncio.ensure_future(
                self._rpc.call(
                    LogId(topic_id, each.partitions[0]),
                    WaitForRecords(each.group_id, each.partitions, min(seconds, LONGEST_WAIT), each.begin),
                )
            )
            for each in requests
        ]
        try:
            done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return all(each.exception() is None for each in done)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _topic(self, group_id: str, name: str) -> Topic:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a queue has a group")
        found = self._cluster.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        if found.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} is the broker's own")
        return found

    def _in_turn(self, group_id: str, topic: Topic, partition: int | None) -> list[int]:
        """The partitions to look at; every time another one comes first, so that none has to wait for the others."""
        count = len(topic.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {topic.name}"
                )
            return [partition]
        key = group_id, topic.name
        turn = self._turns.pop(key, 0)
        self._turns[key] = turn + 1
        if len(self._turns) > MOST_TURNS:
            del self._turns[next(iter(self._turns))]
        return [(turn + index) % count for index in range(count)]

    # -- by receipt ------------------------------------------------------------------------------------------------
    async def accept(self, given: Sequence[str]) -> list[KafkaError | None]:
        """The records are done with. For each receipt, in order, why its word does not count, if so."""
        return await self._acknowledge(given, AckType.ACCEPT)

    async def release(self, given: Sequence[str], *, delay_ms: int | None = None) -> list[KafkaError | None]:
        """Let others have them, after the group's back-off or after this delay; too many deliveries end in a dead letter."""
        return await self._acknowledge(given, AckType.RELEASE, delay_ms)

    async def reject(self, given: Sequence[str], *, reason: str | None = None) -> list[KafkaError | None]:
        """Nobody can do anything with them: they become dead letters, which tell the reason."""
        return await self._acknowledge(given, AckType.REJECT, reason=reason)

    async def extend(self, given: Sequence[str], *, lock_ms: int | None = None) -> list[KafkaError | None]:
        """Keep them, from now on for this time or for the group's."""
        return await self._acknowledge(given, AckType.RENEW, lock_ms)

    async def _acknowledge(
        self, given: Sequence[str], kind: AckType, wait_ms: int | None = None, reason: str | None = None
    ) -> list[KafkaError | None]:
        outcomes: list[KafkaError | None] = [None] * len(given)
        by_partition: dict[tuple[str, LogId], list[tuple[int, Receipt]]] = {}
        for index, text in enumerate(given):
            try:
                receipt = self._receipt(text)
            except KafkaError as error:
                outcomes[index] = error
            else:
                by_partition.setdefault((receipt.group_id, receipt.partition), []).append((index, receipt))
        for (_, partition), these in by_partition.items():
            acknowledgements = [ReceiptAcknowledgement(receipt, kind, wait_ms, reason) for _, receipt in these]
            refusals: Sequence[KafkaError | None]
            try:
                request = AcknowledgeRecords(acknowledgements, all_or_none=False)
                refusals = await self._rpc.call(partition, request)
            except KafkaError as error:  # the broker that has them cannot be reached
                refusals = [error] * len(these)
            for (index, _), refusal in zip(these, refusals, strict=True):
                outcomes[index] = refusal
        return outcomes

    def _receipt(self, text: str) -> Receipt:
        receipt = receipts.decode(text)
        if self._cluster.topic_by_id(receipt.partition.topic_id) is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the receipt is of a topic that is not here")
        return receipt

    # -- looking ---------------------------------------------------------------------------------------------------
    async def statistics(self, group_id: str, topic: str) -> QueueStatistics:
        """How deep the queue is; all zero for a group that has not begun."""
        return total((await self.by_partition(group_id, topic)).values())

    async def by_partition(self, group_id: str, topic: str, *, begin: str | None = None) -> dict[int, QueueStatistics]:
        """How deep the queue is in each partition. `begin`: a group that has not begun does so there."""
        found = self._topic(group_id, topic)
        numbers = [each.index for each in found.partitions]
        if begin is not None:
            for those in self._by_leader(found.id, numbers):
                await self._rpc.call(LogId(found.id, those[0]), WaitForRecords(group_id, those, 0, begin))
        request = DescribeQueue(group_id)
        return {each: await self._rpc.call(LogId(found.id, each), request) async for each in sliced(numbers)}


def _delivery(topic: str, lock_ms: int, receipt: Receipt, record: Record) -> Delivery:
    return Delivery(
        receipt=receipt.encode(),
        topic=topic,
        partition=receipt.partition.partition,
        deliveries=receipt.deliveries,
        lock_ms=lock_ms,
        record=record,
    )
