"""Appends a batch to a log that this broker leads: check, intercept, stamp, propose, stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kompat.common.promise import Promise, all_of
from kompat.errors import ErrorCode, KafkaError
from kompat.log import admission, validation
from kompat.log.interceptor import Prepared, StateWrite
from kompat.log.local_log import LocalLog
from kompat.log.partition_api import Appended, Origin
from kompat.log.producers import PastBatch
from kompat.log.rejected_sequences import RejectedSequences
from kompat.log.validation import Writable
from kompat.protocol.records import NO_NAMES, BatchHeader, ControlType, stamp
from kompat.types import NO_TIMESTAMP, Millis

if TYPE_CHECKING:
    from kompat.log.partition import Partition


class Appender:
    __slots__ = ("_log", "_partition", "_rejected")

    def __init__(self, partition: Partition, log: LocalLog) -> None:
        self._partition = partition
        self._log = log
        self._rejected: RejectedSequences | None = None  # most partitions never reject a batch

    def append(
        self,
        records: Writable,
        origin: Origin,
        writes: Sequence[StateWrite],
        prepared: Prepared | None,
        is_patient: bool,
        client_id: str | None,
    ) -> Appended:
        """See Partition.append."""
        log, interceptor = self._log, self._partition.interceptor
        state, config = log.state, log.config
        if self._partition.is_dropped or log.replica is not None or self._partition.is_internal:
            self._check_open(origin)
        now = log.clock.now()
        if origin is not Origin.CLIENT:
            batch, header = validation.finish(records, config, now)
            marker = admission.admit_internal(state.producers, batch, header)
            if marker is not None and interceptor is not None:
                writes = interceptor.end_transaction(header.producer_id, commits=marker[0] is ControlType.COMMIT)
            return self._place(batch, header, now, writes, marker)
        if prepared is not None:
            batch, header, named = prepared[:3]
        else:
            names = interceptor.names if interceptor is not None and config.kompat_extensions_enable else NO_NAMES
            batch, header, named = admission.validated(records, config, now, names, is_patient=is_patient)
        if header.producer_id >= 0 and (past := admission.admit(log, batch, header)) is not None:
            return self._duplicate(past)
        if interceptor is None or not (named or config.wants_all):
            return self._place(batch, header, now, writes, must_fit=True)
        end = state.log_end_offset
        also: Sequence[Promise[None]] = ()
        intercepted = interceptor.intercept(batch, header, named, end, now, prepared=prepared, is_patient=is_patient)
        batch, header, writes, also = intercepted or (batch, header, writes, also)
        appended = self._place(batch, header, now, writes, must_fit=True)
        interceptor.appended(appended.base_offset, appended.pending, client_id)
        appended.pending = all_of([appended.pending, *also])
        return appended

    def _place(
        self,
        batch: Writable,
        header: BatchHeader,
        now: Millis,
        writes: Sequence[StateWrite],
        marker: tuple[ControlType, int] | None = None,
        must_fit: bool = False,
    ) -> Appended:
        """Make it the log's next entry, here and in the other replicas."""
        partition, log = self._partition, self._log
        state, replica, epoch = log.state, log.replica, partition.leader_epoch
        turn = log.join_turn()  # before anything is staged: if the turn fails, this partition has to be notified
        log.make_room(len(batch), header.max_timestamp, now, must_fit)
        base = state.log_end_offset
        stamp(batch, base, epoch)
        payload = replica.propose(batch, writes) if replica is not None else b""
        entry = log.stage(batch, header, base, epoch, payload)
        if entry.producer_id >= 0:
            log.note_producer(entry, marker)
        log.turns.under_way[turn] = state.log_end_offset
        committed = turn
        if replica is not None:
            committed = replica.staged(entry, payload, writes, turn)
        elif writes:
            partition.stage_states(writes, turn)
        append_time = NO_TIMESTAMP if log.config.message_timestamp_type == "CreateTime" else header.max_timestamp
        return Appended(base, entry.last_offset, Millis(append_time), state.log_start_offset, committed, turn)

    def _check_open(self, origin: Origin) -> None:
        if self._partition.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._partition.require_writable(origin)
        if self._log.replica is not None:
            self._log.replica.admit(internal=origin is not Origin.CLIENT)

    def _duplicate(self, past: PastBatch) -> Appended:
        """The answer of the first time, which may still be under way."""
        log = self._log
        if past.last_offset < self._partition.high_watermark:
            pending = written = Promise.resolved(None)
        elif log.replica is not None:
            pending, written = log.replica.promise_of(past.last_offset)
        else:
            pending = written = log.turns.writing(past.last_offset) or log.join_turn()
        start = log.state.log_start_offset
        # Kafka answers the batch's own time here, also where the topic keeps the records' times.
        return Appended(past.base_offset, past.last_offset, past.timestamp, start, pending, written)

    def refused(self, producer_id: int, epoch: int, sequence: int) -> None:
        if self._rejected is None:
            self._rejected = RejectedSequences()
        self._rejected.note(producer_id, epoch, sequence, self._monotonic())

    def has_refused(self, producer_id: int, epoch: int, sequence: int) -> bool:
        rejected = self._rejected
        return rejected is not None and rejected.holds(producer_id, epoch, sequence, self._monotonic())

    def _monotonic(self) -> Millis:
        return Millis(int(self._log.clock.monotonic() * 1000))
