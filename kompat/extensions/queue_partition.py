"""One partition of a queue topic: it gets deliveries when a consumer asks for more, and takes acknowledgements.

A delivery is a record of the source that the queue's group holds, written to the end of this log for whoever reads there. An
acknowledgement is a record that a client sends: it settles the delivery in the same turn of the event loop in which
its place in the log is written, so both are there or neither is, and leaves that place empty.

What is settled is of no use to anybody any more: the log's start moves past it, so the log has what is in flight.
Deliveries of an earlier process are void: what was not acknowledged then is delivered anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import queue_acks
from kompat.extensions.headers import HeaderError
from kompat.extensions.queue_acks import Acknowledgement
from kompat.extensions.queues import check, new_lock, take
from kompat.log.commit import Pending
from kompat.log.intake import Diverted, StateWrite
from kompat.log.partition import Origin, Partition
from kompat.log.validation import InvalidRecordsError, RefusedRecord, Writable, codec_of
from kompat.protocol.records import (
    NO_NAMES,
    BatchHeader,
    Compression,
    Record,
    build_batch,
    empty_batch,
    iterate,
    read_header,
)
from kompat.share.fetching import Fetching
from kompat.share.live import LivePartition, Spawn
from kompat.share.machine import claims
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.receipts import Receipt, member_of
from kompat.share.requests import FetchedPartition, FetchRequest, TopicIdPartition
from kompat.share.service import ShareService
from kompat.types import LeaderEpoch, Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 100  # deliveries of one batch
BYTES_AT_ONCE = 1 << 20  # and bytes, if it is more than one record
WAIT_MS = 60_000  # then it is looked anew: where the source was deleted and made again, it is another one
TIDY_SECONDS = 0.2  # after something was settled
RETRY_SECONDS = 0.2  # after nothing could be delivered, while somebody waits
ERRORS_TOLD = 100  # of one batch


def leads(log: Partition) -> bool:
    """Does this broker lead it?"""
    return log.replica is None or log.replica.is_leading


class Queue(Protocol):
    """The topic that the partition is of."""

    @property
    def group_id(self) -> str: ...

    def sources(self, index: int) -> Sequence[TopicIdPartition]:
        """The partitions whose records the queue's partition of this index delivers, each time in another order."""
        ...

    def is_source(self, partition: TopicIdPartition) -> bool: ...

    def is_here(self, partition: TopicIdPartition) -> bool:
        """Does this broker lead it?"""
        ...

    def settled(self) -> None:
        """Something in flight was acknowledged, or its lock has ended: soon, let partitions tidy up and deliver more."""
        ...


class _Given(NamedTuple):
    """A delivery that may still be in flight."""

    partition: TopicIdPartition
    offset: int
    member: str
    floor: Offset  # in the queue's log: after the delivery before it


class QueuePartition:
    """Intake and Demand of a partition."""

    names = NO_NAMES  # every batch is looked at
    counts_shares = False

    def __init__(self, partition: Partition, queue: Queue, shares: ShareService, spawn: Spawn) -> None:
        self.partition = partition
        self._queue = queue
        self._shares = shares
        self._spawn = spawn
        self._readers: dict[object, int] = {}  # that wait for deliveries, and how many bytes each would take
        self._fetching: Fetching | None = None
        self._lock = b""  # of what is being fetched
        self._given: dict[Offset, _Given] = {}  # in flight, by their offsets here, ascending
        self._end = partition.log_end_offset  # after the newest delivery
        self._epoch = LeaderEpoch(-1)  # in which this broker led the partition when it last delivered
        self._watched: set[LivePartition] = set()
        self._tidying: asyncio.TimerHandle | None = None
        self._retrying: asyncio.TimerHandle | None = None

    # -- consumers that ask for more -------------------------------------------------------------------------------
    def asked(self, reader: object, max_bytes: int) -> bool:
        self._readers[reader] = max_bytes
        return self.deliver()

    def left(self, reader: object) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._stop_fetching()

    def settle(self) -> Pending:
        return Pending.done()  # nothing is delivered that nobody waits for

    def deliver(self) -> bool:
        """Look for something to deliver, if somebody waits for it: whether some is on its way into the log."""
        if self._fetching is not None or not self._readers or not self._is_open():
            return False
        room = min(AT_ONCE, self.partition.config.kompat_queue_max_in_flight - self._count_in_flight())
        if room <= 0:
            return False  # until something is settled
        self._lock = new_lock()
        request = FetchRequest(
            group_id=self._queue.group_id,
            member_id=member_of(self._lock),
            partitions=self._queue.sources(self.partition.index),
            max_records=room,
            max_bytes=max(1, min(BYTES_AT_ONCE, *self._readers.values())),
            max_wait_ms=WAIT_MS,
            mode=AcquireMode.RECORD_LIMIT,
        )
        if not request.partitions:
            return False  # the source is gone
        self._fetching = fetching = self._shares.fetch(request)
        if fetching.is_done:
            return self._fetched(fetching) or self._deliver_later()
        fetching.add_done_callback(self._fetched_later)
        return False

    def _is_open(self) -> bool:
        """Is it this broker that delivers? One that begins to knows of no deliveries, so those that are there are void."""
        if self.partition.is_dropped or not leads(self.partition):
            return False
        if self._epoch != self.partition.leader_epoch:
            self._epoch = self.partition.leader_epoch
            self._given.clear()
            self._end = self.partition.log_end_offset
            self.tidy_soon()
        return True

    def look_again(self) -> None:
        """There may be more to look at."""
        self._stop_fetching()
        self.deliver()

    def _fetched_later(self, fetching: Fetching) -> None:
        if fetching is self._fetching and not self._fetched(fetching):
            self._deliver_later()

    def _deliver_later(self) -> bool:
        """The time is up, or something failed: not at once again, lest it goes round and round."""
        if self._retrying is None:
            self._retrying = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry)
        return False

    def _retry(self) -> None:
        self._retrying = None
        self.deliver()

    def _fetched(self, fetching: Fetching) -> bool:
        self._fetching = None
        given = [each for found in fetching.result for each in self._taken(found)]
        if not given:
            return False
        try:
            self._append(given)
        except KafkaError as error:  # the locks end, and what they hold comes again
            logger.warning("%s could not be given deliveries: %s", self.partition, error)
            return False
        return True

    def _taken(self, found: FetchedPartition) -> Sequence[tuple[Receipt, Record]]:
        live = self._shares.find(self._queue.group_id, found.partition)
        return list(take(live, found, self._lock)) if isinstance(live, LivePartition) and found.acquired else ()

    def _append(self, given: Sequence[tuple[Receipt, Record]]) -> None:
        records = [queue_acks.delivered(record, place, receipt) for place, (receipt, record) in enumerate(given)]
        codec = codec_of(self.partition.config, producers=Compression.NONE)
        batch = build_batch(records, compression=codec)
        appended = self.partition.append(memoryview(batch), origin=Origin.INTERNAL)
        for place, (receipt, _) in enumerate(given):
            offset = Offset(appended.base_offset + place)
            self._given[offset] = _Given(receipt.partition, receipt.offset, receipt.member, self._end)
            self._end = Offset(offset + 1)
        self._watch()
        self.tidy_soon()

    def _stop_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    # -- what is in flight -----------------------------------------------------------------------------------------
    def _live(self, partition: TopicIdPartition) -> LivePartition | None:
        found = self._shares.find(self._queue.group_id, partition)
        return found if isinstance(found, LivePartition) else None

    def _count_in_flight(self) -> int:
        lives = {each.partition: self._live(each.partition) for each in self._given.values()}
        for offset, each in list(self._given.items()):
            live = lives[each.partition]
            if live is None or not claims.is_held(live.machine, each.offset, each.member):
                del self._given[offset]
        return len(self._given)

    def _watch(self) -> None:
        """Be told when one of those in flight is settled, or its lock ends."""
        for partition in {each.partition for each in self._given.values()}:
            live = self._live(partition)
            if live is not None:
                live.watch(self._woken)
                self._watched.add(live)

    def _unwatch(self) -> None:
        for live in self._watched:
            live.unwatch(self._woken)
        self._watched.clear()

    def _woken(self, _: LivePartition) -> None:
        self._queue.settled()

    # -- the log's start -------------------------------------------------------------------------------------------
    def tidy_soon(self) -> None:
        if self._tidying is None and not self.partition.is_dropped:
            self._tidying = asyncio.get_running_loop().call_later(TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        """Move the start past what is settled, but not past what a consumer that has read all of that may have read."""
        self._tidying = None
        if not self._count_in_flight():
            self._unwatch()
        floor = next(iter(self._given.values())).floor if self._given else self._end
        floor = min(floor, self.partition.high_watermark)
        if floor > self.partition.log_start_offset and self._is_open():
            self._spawn(self._move_start(floor))

    async def _move_start(self, floor: Offset) -> None:
        try:
            await self.partition.delete_records(floor)
        except KafkaError as error:  # next time
            logger.warning("%s keeps what is settled: %s", self.partition, error)

    async def begin(self) -> None:
        """Forget the deliveries of an earlier process."""
        if self.partition.high_watermark > self.partition.log_start_offset and self._is_open():
            await self._move_start(self.partition.high_watermark)

    def close(self) -> None:
        self._readers.clear()
        self._stop_fetching()
        self._unwatch()
        for timer in (self._tidying, self._retrying):
            if timer is not None:
                timer.cancel()

    # -- acknowledgements ------------------------------------------------------------------------------------------
    def divert(self, batch: Writable, header: BatchHeader, named: int, base_offset: Offset, now: Millis) -> Diverted:
        if header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "what acknowledges a delivery of a queue topic cannot be part of a transaction",
            )
        judging = _Judging(self._queue, self._live_now)
        for record in iterate(batch):
            judging.look_at(record)
        written = [live.settle([each.said for each in words]) for live, words in judging.end()]
        for each in written:
            if each.error is not None:
                raise each.error
        left = empty_batch(header)
        return Diverted(left, read_header(left), (), [each for each in written if not each.is_done])

    def _live_now(self, partition: TopicIdPartition) -> LivePartition:
        """A share partition whose changes are written in this turn. Raises KafkaError."""
        if not self._queue.is_here(partition):
            raise HeaderError(f"{queue_acks.ACK_ID}: acknowledge the delivery in the partition that it was read from")
        found = self._shares.find(self._queue.group_id, partition)
        if isinstance(found, KafkaError):
            raise found
        if found is not None and found.is_ready:
            return found
        if found is not None:
            self._spawn(found.ready())
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the queue is being loaded: try again")

    # What an intake is told otherwise is of no use here: all that a queue knows is known by its group.
    def end_transaction(self, producer_id: int, *, commits: bool) -> Sequence[StateWrite]:
        return ()

    def appended(self, base_offset: Offset, committed: Pending) -> None: ...

    def staged(self, writes: Sequence[StateWrite], turn: Pending) -> None: ...

    def configured(self) -> None: ...

    def start_moved(self) -> None: ...

    def reload(self) -> None:
        """What was staged is not in the log: those deliveries are in flight to nobody, until their locks end."""
        self._end = min(self._end, self.partition.log_end_offset)
        self._given = {offset: each for offset, each in self._given.items() if offset < self._end}

    def drop(self) -> None:
        self.close()


class _Judging:
    """One batch of acknowledgements: all of them count, or none."""

    def __init__(self, queue: Queue, live_now: Callable[[TopicIdPartition], LivePartition]) -> None:
        self._queue = queue
        self._live_now = live_now
        self._found: dict[TopicIdPartition, tuple[LivePartition, list[Acknowledgement]]] = {}
        self._kinds: dict[tuple[TopicIdPartition, int], AckType] = {}
        self._errors: list[RefusedRecord] = []
        self._wrong = 0

    def look_at(self, record: Record) -> None:
        """The record's offset is its place in the batch."""
        try:
            self._judge(queue_acks.parse(record, self._queue.group_id))
        except HeaderError as error:
            self._wrong += 1
            if self._wrong <= ERRORS_TOLD:
                self._errors.append(RefusedRecord(record.offset, str(error)))

    def _judge(self, word: Acknowledgement) -> None:
        receipt, said = word
        if not self._queue.is_source(receipt.partition):
            raise HeaderError(f"{queue_acks.ACK_ID}: the delivery was of a topic that is not this queue's source")
        if self._kinds.setdefault((receipt.partition, said.offset), said.kind) is not said.kind:
            raise HeaderError(f"{queue_acks.ACK_ID}: two things are said of one delivery")
        live = self._live_now(receipt.partition)
        try:
            changes = check(live, receipt, said)
        except KafkaError as error:
            raise HeaderError(f"{queue_acks.ACK}: {error.message}") from None
        if changes:
            self._found.setdefault(receipt.partition, (live, []))[1].append(word)

    def end(self) -> Sequence[tuple[LivePartition, list[Acknowledgement]]]:
        if self._errors:
            reason = f"{self._wrong} of the batch's records were refused: {self._errors[0].message}"
            raise InvalidRecordsError(ErrorCode.INVALID_RECORD, reason, self._errors)
        return list(self._found.values())
