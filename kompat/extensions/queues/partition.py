"""One partition of a queue topic: it gets deliveries when a consumer fetches more, and accepts acknowledgements.

A delivery is a record of the source that the queue's group has acquired, appended to this log for its consumers. An
acknowledgement is a record that a client produces: it is applied in the same turn of the event loop in which its offset in
the log is written, so both are written or neither is; the offset stays empty.

Records of the source that another broker leads are acquired and acknowledged there: then the response waits for that broker.

Acknowledged deliveries are not needed any more: the log start moves past them, so the log has what is in flight.
Deliveries of an earlier process are invalid: what was not acknowledged then is delivered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.queues import acknowledgements as queue_acks
from kompat.extensions.queues.ack_validator import AckValidator, Sources
from kompat.extensions.queues.acknowledgements import Acknowledgement
from kompat.extensions.queues.feed import Feed
from kompat.extensions.queues.records import Given, Part, Wanted, new_lock, take
from kompat.extensions.queues.requests import AcknowledgeRecords, Acquired, ReceiptAcknowledgement
from kompat.log.interceptor import Intercepted, StateWrite
from kompat.log.packing import batch_limit, packed
from kompat.log.partition import Origin, Partition
from kompat.log.validation import Writable, codec_of
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
from kompat.rpc.router import Router
from kompat.share.fetching import DelayedShareFetch
from kompat.share.machine import claims
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.partition import SharePartition, Spawn
from kompat.share.receipts import Receipt, member_of
from kompat.share.requests import FetchedPartition, FetchRequest
from kompat.share.service import ShareService
from kompat.types import LeaderEpoch, LogId, Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 100  # deliveries of one batch
BYTES_AT_ONCE = 1 << 20  # and bytes, if it is more than one record
WAIT_MS = 60_000  # then the source is looked up again: it may have been deleted and created again
TIDY_SECONDS = 0.2  # after an acknowledgement
RETRY_SECONDS = 0.2  # after nothing could be delivered, while consumers wait


class Queue(Sources, Protocol):
    """The topic that the partition is of."""

    def sources(self, index: int) -> Sequence[LogId]:
        """The partitions that this broker leads and whose records the queue's partition of this index delivers, each time
        in another order."""
        ...

    def remote_sources(self, index: int) -> Sequence[LogId]:
        """Those that another broker leads."""
        ...

    def delivery_ended(self) -> None:
        """Something in flight was acknowledged, or its lock has ended: soon, let partitions tidy up and deliver more."""
        ...


class QueuePartition:
    """The append interceptor and the fetch listener of a partition of a queue topic."""

    names = NO_NAMES  # every batch is looked at
    counts_shares = False

    def __init__(self, partition: Partition, queue: Queue, shares: ShareService, rpc: Router, spawn: Spawn) -> None:
        self.partition = partition
        self._rpc = rpc
        self._feed = Feed(rpc, queue.group_id, wanted=self._wanted, deliver=self._deliver_acquired, spawn=spawn)
        self._queue = queue
        self._shares = shares
        self._spawn = spawn
        self._readers: dict[object, int] = {}  # that wait for deliveries, and how many bytes each would take
        self._fetching: DelayedShareFetch | None = None
        self._lock = b""  # of what is being fetched
        self._ready: deque[Part] = deque()  # taken from the source, to be appended
        self._given: dict[Offset, Given] = {}  # in flight, by their offsets here, ascending
        self._end = partition.log_end_offset  # after the newest delivery
        self._epoch = LeaderEpoch(-1)  # in which this broker led the partition when it last delivered
        self._watched: set[SharePartition] = set()
        self._tidying: asyncio.TimerHandle | None = None
        self._retrying: asyncio.TimerHandle | None = None

    # -- consumers that ask for more -------------------------------------------------------------------------------
    def reader_waiting(self, reader: object, max_bytes: int) -> bool:
        self._readers[reader] = max_bytes
        return self.deliver()

    def reader_gone(self, reader: object) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._stop_fetching()
            self._feed.follow(())

    def release_all(self) -> Promise[None]:
        return Promise.resolved(None)  # nothing is delivered that nobody waits for

    def deliver(self) -> bool:
        """Look for something to deliver, if somebody waits for it: whether some is on its way into the log."""
        if not self._readers or not self._is_open():
            return False
        self._feed.follow(self._queue.remote_sources(self.partition.index))
        partitions = self._queue.sources(self.partition.index)
        wanted = self._wanted() if partitions and self._fetching is None else None
        if wanted is None:
            return False  # until something is acknowledged, or there is a source again
        self._lock = wanted.lock
        request = FetchRequest(
            group_id=self._queue.group_id,
            member_id=member_of(wanted.lock),
            partitions=partitions,
            max_records=wanted.max_records,
            max_bytes=wanted.max_bytes,
            max_wait_ms=WAIT_MS,
            mode=AcquireMode.RECORD_LIMIT,
        )
        self._fetching = fetching = self._shares.fetch(request)
        if fetching.is_done:
            return self._fetched(fetching) or self._deliver_later()
        fetching.add_done_callback(self._fetched_later)
        return False

    def _wanted(self) -> Wanted | None:
        """How much the waiting consumers can take."""
        room = min(AT_ONCE, self.partition.config.kompat_queue_max_in_flight - self._count_in_flight())
        if room <= 0 or self._ready or not self._readers or not self._is_open():
            return None
        return Wanted(new_lock(), room, max(1, min(BYTES_AT_ONCE, *self._readers.values())))

    def _is_open(self) -> bool:
        """Is it this broker that delivers? One that begins to knows of no deliveries, so those that are there are void."""
        if self.partition.is_dropped or not self.partition.is_led:
            return False
        if self._epoch != self.partition.leader_epoch:
            self._epoch = self.partition.leader_epoch
            self._given.clear()
            self._ready.clear()
            self._end = self.partition.log_end_offset
            self.tidy_soon()
        return True

    def look_again(self) -> None:
        """There may be more records to deliver."""
        self._stop_fetching()
        self._feed.follow(())
        self.deliver()

    def _fetched_later(self, fetching: Promise[list[FetchedPartition]]) -> None:
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

    def _fetched(self, fetching: Promise[list[FetchedPartition]]) -> bool:
        self._fetching = None
        given = [each for found in fetching.result() for each in self._taken(found)]
        return bool(given) and self._append(given)

    def _deliver_acquired(self, acquired: Acquired) -> None:
        self._append(acquired.records, asyncio.get_running_loop().time() + acquired.lock_ms / 1000)

    def _taken(self, found: FetchedPartition) -> Sequence[tuple[Receipt, Record]]:
        live = self._shares.find(self._queue.group_id, found.partition)
        return list(take(live, found, self._lock)) if isinstance(live, SharePartition) and found.acquired else ()

    def _append(self, given: Sequence[tuple[Receipt, Record]], until: float | None = None) -> bool:
        """`until`: when the locks end, where another broker has them."""
        is_under_way = bool(self._ready)
        dressed = [(receipt, queue_acks.delivered(record, receipt)) for receipt, record in given]
        parts = packed(dressed, lambda each: each[1], batch_limit(self.partition.config))
        self._ready += [Part(part, until) for part in parts]
        return is_under_way or self._append_part()

    def _append_part(self) -> bool:
        """Append one batch of acquired records; the next follows when other tasks have had their turn."""
        part = self._ready.popleft()
        for place, (_, record) in enumerate(part.given):
            record.offset = place
        codec = codec_of(self.partition.config, producers=Compression.NONE)
        try:
            batch = build_batch([record for _, record in part.given], compression=codec)
            appended = self.partition.append(memoryview(batch), origin=Origin.INTERNAL)
        except KafkaError as error:  # the locks expire, and the records are delivered again
            logger.warning("%s could not be given deliveries: %s", self.partition, error)
            self._ready.clear()
            return False
        for place, (receipt, _) in enumerate(part.given):
            offset = Offset(appended.base_offset + place)
            self._given[offset] = Given(receipt.partition, receipt.offset, receipt.member, self._end, part.until)
            self._end = Offset(offset + 1)
        if self._ready:
            asyncio.get_running_loop().call_soon(self._append_next)
        self._watch()
        self.tidy_soon()
        return True

    def _append_next(self) -> None:
        if not self._is_open():
            self._ready.clear()
        elif self._ready:
            self._append_part()
            self.deliver()

    def _stop_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None

    # -- what is in flight -----------------------------------------------------------------------------------------
    def _live(self, partition: LogId) -> SharePartition | None:
        found = self._shares.find(self._queue.group_id, partition)
        return found if isinstance(found, SharePartition) else None

    def _count_in_flight(self) -> int:
        lives = {each.partition: self._live(each.partition) for each in self._given.values() if each.until is None}
        now = asyncio.get_running_loop().time()
        for offset, each in list(self._given.items()):
            live = lives.get(each.partition)
            is_held = live is not None and claims.is_held(live.machine, each.offset, each.member)
            if not (is_held if each.until is None else each.until > now):
                del self._given[offset]
        return len(self._given)

    def _watch(self) -> None:
        """Get a callback when a record in flight is acknowledged, or its lock expires."""
        for partition in {each.partition for each in self._given.values() if each.until is None}:
            live = self._live(partition)
            if live is not None:
                live.watch(self._woken)
                self._watched.add(live)

    def _unwatch(self) -> None:
        for live in self._watched:
            live.unwatch(self._woken)
        self._watched.clear()

    def _woken(self, _: SharePartition) -> None:
        self._queue.delivery_ended()

    # -- the log's start -------------------------------------------------------------------------------------------
    def tidy_soon(self) -> None:
        if self._tidying is None and not self.partition.is_dropped:
            self._tidying = asyncio.get_running_loop().call_later(TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        """Move the log start past acknowledged deliveries, but not past those that a consumer has not read yet."""
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
        """Delete the deliveries of an earlier process."""
        if self.partition.high_watermark > self.partition.log_start_offset and self._is_open():
            await self._move_start(self.partition.high_watermark)

    def close(self) -> None:
        self._readers.clear()
        self._ready.clear()
        self._stop_fetching()
        self._feed.follow(())
        self._unwatch()
        for timer in (self._tidying, self._retrying):
            if timer is not None:
                timer.cancel()

    # -- acknowledgements ------------------------------------------------------------------------------------------
    def intercept(
        self, batch: Writable, header: BatchHeader, named: int, base_offset: Offset, now: Millis, **_: object
    ) -> Intercepted:
        if header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "what acknowledges a delivery of a queue topic cannot be part of a transaction",
            )
        validator = AckValidator(self._queue, self._live_now)
        for record in iterate(batch):
            validator.look_at(record)
        written = [live.acknowledge_records([each.acknowledgement for each in acks]) for live, acks in validator.end()]
        for each in written:
            if each.error is not None:
                raise each.error
        written += [self._acknowledge_at_leader(partition, acks) for partition, acks in validator.remote.items()]
        left = empty_batch(header)
        return Intercepted(left, read_header(left), (), [each for each in written if not each.is_done])

    def _acknowledge_at_leader(self, partition: LogId, acks: Sequence[Acknowledgement]) -> Promise[None]:
        """Acknowledge at the leader of the records; the promise that it is done."""
        promise: Promise[None] = Promise()
        given = [ReceiptAcknowledgement(receipt, record_ack.kind, record_ack.wait_ms) for receipt, record_ack in acks]

        async def acknowledge() -> None:
            error: KafkaError | None = None
            try:
                outcomes = await self._rpc.call(partition, AcknowledgeRecords(given, all_or_none=True))
                refused = [each for each in outcomes if each]
                error = _refused(refused[0]) if refused else None
            except KafkaError as failure:
                error = failure
            if error is None:
                self._acknowledged(given)
            promise.end(error)

        self._spawn(acknowledge())
        return promise

    def _acknowledged(self, given: Sequence[ReceiptAcknowledgement]) -> None:
        now = asyncio.get_running_loop().time()
        by_place = {(each.receipt.partition, each.receipt.offset): each for each in given}
        for offset, delivery in list(self._given.items()):
            found = by_place.get((delivery.partition, delivery.offset))
            if found is not None and delivery.until is not None:
                lock_ms = found.wait_ms or self.partition.config.kompat_queue_lock_ms
                until = now + lock_ms / 1000 if found.kind is AckType.RENEW else now
                self._given[offset] = delivery._replace(until=until)
        self._queue.delivery_ended()

    def _live_now(self, partition: LogId) -> SharePartition:
        """A share partition whose changes are made in this turn. Raises KafkaError."""
        found = self._shares.find(self._queue.group_id, partition)
        if isinstance(found, KafkaError):
            raise found
        if found is not None and found.is_ready:
            return found
        if found is not None:
            self._spawn(found.ready())
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the queue is being loaded: try again")

    # The other calls of an interceptor are of no use here: the queue's state is in its group.
    def end_transaction(self, producer_id: int, *, commits: bool) -> Sequence[StateWrite]:
        return ()

    def appended(self, base_offset: Offset, committed: Promise[None], client_id: str | None) -> None: ...

    def staged(self, writes: Sequence[StateWrite], turn: Promise[None]) -> None: ...

    def configured(self) -> None: ...

    def start_moved(self) -> None: ...

    def reload(self) -> None:
        """The staged deliveries are not in the log: no consumer gets them until their locks expire."""
        self._ready.clear()
        self._end = min(self._end, self.partition.log_end_offset)
        self._given = {offset: each for offset, each in self._given.items() if offset < self._end}

    def drop(self) -> None:
        self.close()


def _refused(error: KafkaError) -> KafkaError:
    """The same error as for records that this broker leads."""
    if error.code is ErrorCode.INVALID_RECORD_STATE:
        return KafkaError(ErrorCode.INVALID_RECORD, f"{queue_acks.ACK}: {error.message}")
    return error
