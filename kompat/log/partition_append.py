"""Append: judge, stamp, stage. The broker's hottest path: nothing here opens a batch in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log import checkpoint, recovery, validation
from kompat.log.commit import Pending, all_of
from kompat.log.intake import Costly, Prepared, StateWrite
from kompat.log.partition_core import CHECKPOINT_EVERY, TIME_INDEX_EVERY, LogCore
from kompat.log.producers import PastBatch
from kompat.log.results import Appended, Origin
from kompat.log.store import Entry, EntryKind
from kompat.log.validation import Writable
from kompat.protocol.records import HEADER_SIZE, NO_NAMES, BatchHeader, ControlType, TooLargeError, is_same, stamp
from kompat.slices import aside
from kompat.types import NO_TIMESTAMP, Buffer, LeaderEpoch, Millis, Offset, RaftIndex

_DATA: Final = EntryKind.DATA
NEVER: Final = 2**63 - 1  # flush.messages and flush.ms: leave it to the operating system


class Appending(LogCore):
    __slots__ = ()

    def append(
        self,
        records: Writable,
        *,
        origin: Origin = Origin.CLIENT,
        writes: Sequence[StateWrite] = (),
        prepared: Prepared | None = None,
        is_patient: bool = False,
    ) -> Appended:
        """Judge, stamp in place and stage one batch, and states along. Its bytes are the log's from here on. Raises KafkaError.

        `is_patient`: raises Costly where its records or their headers take long, and is asked again with what was `prepared`.
        """
        if self.is_dropped or self.replica is not None or self.is_internal:
            self._check_open(origin)
        now, config, state, intake = self._clock.now(), self.config, self.state, self.intake
        marker = heeded = None
        also: Sequence[Pending] = ()
        if origin is Origin.CLIENT:
            batch, header, named = (
                self._judged(records, now, is_patient=is_patient) if prepared is None else prepared[:3]
            )
            if header.producer_id >= 0:
                past = self._admit(header)
                if past is not None and not self._is_another(past, batch, header):
                    return self._duplicate(past)
            if intake is not None and (named or config.wants_all):
                heeded = intake
                end = state.log_end_offset
                diverted = intake.divert(batch, header, named, end, now, prepared=prepared, is_patient=is_patient)
                batch, header, writes, also = diverted or (batch, header, writes, also)
        else:
            batch, header = validation.finish(records, config, now)
            marker = self._admit_internal(batch, header)
            if marker is not None and intake is not None:
                writes = intake.end_transaction(header.producer_id, commits=marker[0] is ControlType.COMMIT)
        turn = self._join_turn()  # before anything is staged: should the turn fail, this partition has to hear of it
        self._make_room(len(batch), header, now, origin)
        base = state.log_end_offset
        stamp(batch, base, self.leader_epoch)
        payload = self.replica.propose(batch, writes) if self.replica is not None else b""
        entry = self._stage(batch, header, base, self.leader_epoch, payload)
        if entry.producer_id >= 0:
            self._note_producer(entry, marker)
        self._turns[turn] = state.log_end_offset
        append_time = NO_TIMESTAMP if config.message_timestamp_type == "CreateTime" else header.max_timestamp
        committed = turn if self.replica is None else self.replica.staged(entry, payload, writes, turn)
        if writes and self.replica is None:
            self._stage_states(writes, turn)
        if heeded is not None:
            heeded.appended(base, committed)
            committed = all_of([committed, *also])
        return Appended(base, entry.last_offset, Millis(append_time), state.log_start_offset, committed, turn)

    def _judged(self, records: Writable, now: Millis, *, is_patient: bool) -> tuple[Writable, BatchHeader, int]:
        intake, config = self.intake, self.config
        names = intake.names if intake is not None and config.kompat_extensions_enable else NO_NAMES
        batch, header = validation.single_batch(records)
        prepare = partial(validation.prepare, batch, header, config, now, names)
        if not is_patient:
            return prepare()
        limit = validation.most_at_once(header, config)
        if len(batch) <= limit:
            with suppress(TooLargeError):
                return prepare(limit)
        raise Costly(lambda: _aside(prepare))

    def _note_producer(self, entry: Entry, marker: tuple[ControlType, int] | None) -> None:
        if marker is None:
            recovery.add_batch(self.state.producers, entry)
        else:
            self._end_transaction(entry, *marker)

    def _check_open(self, origin: Origin) -> None:
        if self.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.require_writable(origin)
        if self.replica is not None:
            self.replica.admit(internal=origin is not Origin.CLIENT)

    def _admit(self, header: BatchHeader) -> PastBatch | None:
        """Judge what a numbering producer sends; the batch that it repeats, where it does."""
        return self.state.producers.admit(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            transactional=header.is_transactional,
        )

    def _is_another(self, past: PastBatch, batch: Buffer, header: BatchHeader) -> bool:
        """Whether a batch only has the numbers of a past one, of a transaction that was aborted.

        librdkafka gives the numbers of batches that it has sent without an answer, and given up with their transaction, to those of
        the next one. To take these for sent again would lose them, for the past ones are aborted.
        """
        if not header.is_transactional:
            return False
        state = self.state
        producer = state.producers.get(header.producer_id)
        if producer is None or 0 <= producer.transaction_start <= past.base_offset:
            return False  # it is sent again in its transaction
        aborted = state.aborted.find(past.base_offset, Offset(past.base_offset + 1))
        if all(each.producer_id != header.producer_id for each in aborted):
            return False
        end = Offset(past.last_offset + 1)
        found = self._tail.read(past.base_offset, 1, end)
        buffers = found[0] if found is not None else self.store.read(past.base_offset, 1, end).buffers
        return bool(buffers) and not is_same(buffers[0], batch)

    def _stage(self, batch: Buffer, header: BatchHeader, base: Offset, epoch: LeaderEpoch, payload: bytes) -> Entry:
        state = self.state
        size, timestamp = len(batch), Millis(header.max_timestamp)
        last = Offset(base + header.last_offset_delta)
        entry = Entry(
            state.next_index,
            epoch,
            _DATA,
            base,
            last,
            size,
            timestamp,
            header.attributes,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        active = state.segments.active
        try:
            self.store.append(entry, batch, active.base_offset, payload)
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        active.add(base, size, timestamp)
        self._since_checkpoint += 1
        self._since_index += size
        if timestamp > self._newest and size > HEADER_SIZE:
            self._newest = timestamp
            if self._since_index >= TIME_INDEX_EVERY and self._since_index >= self.config.index_interval_bytes:
                self.store.add_time_index(timestamp, base)
                self._since_index = 0
        config = self.config
        if config.flush_messages != NEVER or config.flush_ms != NEVER:
            self._force(last - base + 1)
        state.next_index = RaftIndex(entry.index + 1)
        state.log_end_offset = end = Offset(last + 1)
        self._cache.add(self._tail, base, end, batch)
        return entry

    def _force(self, count: int) -> None:
        """The topic asks for more than the broker does to have it on the disk."""
        config = self.config
        self._unforced += count
        if self._unforced >= config.flush_messages:
            self._unforced = 0
            self._commit.require_sync()
        elif config.flush_ms != NEVER:
            self._commit.sync_within(config.flush_ms / 1000)

    def _make_room(self, size: int, header: BatchHeader, now: Millis, origin: Origin) -> None:
        """Open a new segment where the batch needs one."""
        config = self.config
        # What the broker itself writes, such as a record whose time has come, was taken once: it must get in.
        if size > config.segment_bytes and origin is Origin.CLIENT:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes does not fit in a segment")
        if self.state.segments.active.is_full(size, Millis(header.max_timestamp), now, config, self._jitter):
            self._roll(now)
        elif self._since_checkpoint >= CHECKPOINT_EVERY and self._since_checkpoint >= 4 * len(self.state.producers):
            self.write_checkpoint()  # all of it at once: the more producers, the less often

    def _admit_internal(self, batch: Buffer, header: BatchHeader) -> tuple[ControlType, int] | None:
        """Judge what the broker writes in a producer's name; the end marker, where it is one."""
        if header.producer_id < 0:
            return None
        producers = self.state.producers
        marker = recovery.end_marker(batch) if header.is_control else None
        if marker is not None:
            producers.admit_marker(header.producer_id, header.producer_epoch, marker[1])
        else:
            producers.admit_unnumbered(header.producer_id, header.producer_epoch, transactional=header.is_transactional)
        return marker

    def _end_transaction(self, entry: Entry, kind: ControlType, coordinator_epoch: int) -> None:
        aborted = recovery.end_transaction(self.state, entry, kind, coordinator_epoch)
        if aborted is not None:
            self.store.put_state(checkpoint.aborted_name(aborted.last_offset), aborted.encode())

    def _duplicate(self, past: PastBatch) -> Appended:
        """The answer of the first time, which may still be under way."""
        if past.last_offset < self.high_watermark:
            pending = written = Pending.done()
        elif self.replica is not None:
            pending, written = self.replica.promise_of(past.last_offset)
        else:
            under_way = (turn for turn, end in self._turns.items() if end > past.last_offset)
            pending = written = next(under_way, None) or self._join_turn()
        start = self.state.log_start_offset
        # Kafka answers the batch's own time here, also where the topic keeps the records' times.
        return Appended(past.base_offset, past.last_offset, past.timestamp, start, pending, written)


async def _aside(prepare: Callable[[], tuple[Writable, BatchHeader, int]]) -> Prepared:
    return Prepared(*await aside(prepare), None)
