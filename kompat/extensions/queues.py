"""Queues for those who are not members of a share group: acquire records, and say by receipt what became of them.

Works on the same share partitions as share groups: a group may be used by both at once, and each record is with one of
them at a time. Whoever takes a record has it until its lock ends; then it comes again.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.records import Record, iterate, split_batches
from kompat.share import receipts
from kompat.share.live import LivePartition
from kompat.share.machine import claims
from kompat.share.machine.claims import Said
from kompat.share.machine.messages import AckBatch, AckType, AcquireMode, RecordState
from kompat.share.receipts import Receipt
from kompat.share.records import UNINITIALIZED
from kompat.share.requests import FetchedPartition, FetchRequest, TopicIdPartition
from kompat.share.service import ShareService

MOST_TURNS = 10_000  # queues whose turn is remembered
MAX_RECORDS = 10_000  # of one acquisition
LOCK_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A record that its receiver holds now."""

    receipt: str
    topic: str
    partition: int
    deliveries: int  # this one included
    lock_ms: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Of a group on a topic. Offsets are counted: what the log has no record for counts as available until it is come to."""

    available: int = 0  # can be acquired now, or has never been looked at
    in_flight: int = 0
    backing_off: int = 0  # released, and not to be had yet
    being_buried: int = 0  # given up; the dead letters are being written
    deliveries: dict[int, int] = field(default_factory=dict)  # how many that are not done with were delivered how often


class QueueService:
    def __init__(self, cluster: ClusterService, shares: ShareService) -> None:
        self._cluster = cluster
        self._shares = shares
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
    ) -> list[Delivery]:
        """At most so many records, at once or as soon as there are some; none where the time is up.

        `lock_ms`: how long they are the receiver's, if not as long as the group has it.
        """
        found = self._topic(group_id, topic)
        lock = new_lock()
        request = FetchRequest(
            group_id=group_id,
            member_id=receipts.member_of(lock),
            partitions=self._in_turn(group_id, found, partition),
            max_records=min(max_records, MAX_RECORDS),
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            mode=AcquireMode.RECORD_LIMIT,
        )
        for each in request.partitions:
            await self._shares.use(group_id, each)  # else one that does not wait gets nothing the first time
        fetched = await self._shares.fetch(request).wait()
        _raise_if_failed(fetched)
        if not fetched:
            self._shares.retire(group_id, request.partitions)
        return [
            delivery
            for each in fetched
            if each.acquired
            for delivery in await self._deliver(await self._shares.use(group_id, each.partition), each, lock, lock_ms)
        ]

    async def _deliver(
        self, live: LivePartition, fetched: FetchedPartition, lock: bytes, lock_ms: int | None
    ) -> list[Delivery]:
        given = list(take(live, fetched, lock))
        if lock_ms is not None and given:
            await live.settle([receipt.says(AckType.RENEW, lock_ms) for receipt, _ in given]).wait()
        return [
            Delivery(
                receipt=receipt.encode(),
                topic=live.log.topic,
                partition=live.log.index,
                deliveries=receipt.deliveries,
                lock_ms=live.settings.lock_ms if lock_ms is None else lock_ms,
                record=record,
            )
            for receipt, record in given
        ]

    def _topic(self, group_id: str, name: str) -> Topic:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a queue has a group")
        found = self._cluster.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        if found.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the broker's own")
        return found

    def _in_turn(self, group_id: str, topic: Topic, partition: int | None) -> list[TopicIdPartition]:
        """The partitions to look at; every time another one comes first, so that none has to wait for the others."""
        count = len(topic.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {partition}")
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

    async def reject(self, given: Sequence[str]) -> list[KafkaError | None]:
        """Nobody can do anything with them: they become dead letters."""
        return await self._settle(given, AckType.REJECT)

    async def extend(self, given: Sequence[str], *, lock_ms: int | None = None) -> list[KafkaError | None]:
        """Keep them, from now on for this time or for the group's."""
        return await self._settle(given, AckType.RENEW, lock_ms)

    async def _settle(self, given: Sequence[str], kind: AckType, wait_ms: int | None = None) -> list[KafkaError | None]:
        outcomes: list[KafkaError | None] = [None] * len(given)
        by_partition: dict[tuple[str, TopicIdPartition], list[tuple[int, Receipt]]] = {}
        for index, text in enumerate(given):
            try:
                receipt = receipts.decode(text)
            except KafkaError as error:
                outcomes[index] = error
            else:
                by_partition.setdefault((receipt.group_id, receipt.partition), []).append((index, receipt))
        for (group_id, partition), these in by_partition.items():
            said = [(index, receipt, receipt.says(kind, wait_ms)) for index, receipt in these]
            for index, refusal in await self._settle_in(group_id, partition, said):
                outcomes[index] = refusal
        return outcomes

    async def _settle_in(
        self, group_id: str, partition: TopicIdPartition, words: Sequence[tuple[int, Receipt, Said]]
    ) -> list[tuple[int, KafkaError]]:
        """What was refused."""
        refused: list[tuple[int, KafkaError]] = []
        good: list[tuple[int, Said]] = []
        try:
            live = await self._shares.use(group_id, partition)
            for index, receipt, said in words:
                try:
                    check(live, receipt, said)
                except KafkaError as error:
                    refused.append((index, error))
                else:
                    good.append((index, said))
            if good:
                await live.settle([said for _, said in good]).wait()
        except KafkaError as error:
            told = {index for index, _ in refused}
            refused += [(index, _as_told(error)) for index, _, _ in words if index not in told]
        return refused

    # -- looking ---------------------------------------------------------------------------------------------------
    async def statistics(self, group_id: str, topic: str) -> QueueStatistics:
        """How deep the queue is; all zero for a group that has not begun."""
        found = self._topic(group_id, topic)
        states: Counter[RecordState | None] = Counter()
        deliveries: Counter[int] = Counter()
        backing_off = 0
        for each in found.partitions:
            partition = TopicIdPartition(found.id, each.index)
            if (await self._shares.offsets.describe(group_id, partition)).start_offset == UNINITIALIZED:
                continue
            live = await self._shares.use(group_id, partition)
            tracked = 0
            for run in live.machine.runs():
                tracked += run.size
                states[run.state] += run.size
                if run.state in (RecordState.ACQUIRED, RecordState.AVAILABLE):
                    deliveries[run.deliveries] += run.size
                if run.state is RecordState.AVAILABLE and run.until > live.now():
                    backing_off += run.size
            states[None] += max(0, live.log.high_watermark - live.machine.start_offset - tracked)
            self._shares.retire(group_id, [partition])
        return QueueStatistics(
            available=states[None] + states[RecordState.AVAILABLE] - backing_off,
            in_flight=states[RecordState.ACQUIRED],
            backing_off=backing_off,
            being_buried=states[RecordState.ARCHIVING],
            deliveries=dict(sorted(deliveries.items())),
        )


def new_lock() -> bytes:
    return secrets.token_bytes(LOCK_BYTES)


def take(live: LivePartition, fetched: FetchedPartition, lock: bytes) -> Iterator[tuple[Receipt, Record]]:
    """The records that were acquired, each with its receipt. Offsets without one are done with."""
    records = {
        record.offset: record
        for buffer in fetched.buffers
        for batch in split_batches(memoryview(buffer))
        for record in iterate(batch)
    }
    holes: list[int] = []
    for span in fetched.acquired:
        for offset in range(span.first, span.last + 1):
            record = records.get(offset)
            if record is None:
                holes.append(offset)
            else:
                yield (
                    Receipt(live.key.group_id, fetched.partition, offset, span.deliveries, live.state_epoch, lock),
                    record,
                )
    if holes:  # nobody waits: should it not be written, the lock ends
        live.acknowledge(receipts.member_of(lock), [AckBatch(offset, offset, [AckType.GAP]) for offset in holes])


def check(live: LivePartition, receipt: Receipt, said: Said) -> bool:
    """Whether what is said changes anything. Raises KafkaError where it does not count."""
    if receipt.state_epoch != live.state_epoch:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"group {receipt.group_id} has begun anew since")
    if receipt.offset >= live.log.high_watermark:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{live.log.topic} has no offset {receipt.offset}")
    return claims.judge(live.machine, said, live.settings)


def _raise_if_failed(fetched: Iterable[FetchedPartition]) -> None:
    """An error counts only where nothing was acquired: what was, has to be told."""
    errors = [each.error for each in fetched if each.error is not None]
    if errors and not any(each.acquired for each in fetched):
        raise errors[0]


def _as_told(error: KafkaError) -> KafkaError:
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, "the receipt is of a topic that is not here")
    return error
