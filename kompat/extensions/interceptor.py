"""What the headers of a client's batch make of it: records that wait or repeat others leave their offsets empty.

The batch that takes the given one's place looks as if Kafka's cleaner had been there: same offsets, same producer, same
sequence numbers. So the producer is told true offsets, its retries are recognised, and consumers are used to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kompat.common.promise import Promise
from kompat.common.slices import Slice, aside, sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import headers
from kompat.extensions.dedup.contested import Transaction
from kompat.extensions.dedup.message_ids import Seen, Verdict
from kompat.extensions.delay import records as parked
from kompat.extensions.delay.records import DelayedRecord, Packed, Summary, pack
from kompat.extensions.delay.timers import Timers
from kompat.extensions.headers import HeaderError, RecordOptions
from kompat.extensions.priority.headers import Ranks
from kompat.extensions.priority.index import PriorityIndex
from kompat.extensions.priority.lane_interceptor import LaneInterceptor
from kompat.extensions.states import Draft, View
from kompat.extensions.tracing.partition import Choosing, PartitionTraces
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.interceptor import Costly, Intercepted, Prepared, StateWrite
from kompat.log.partition import Partition
from kompat.log.validation import InvalidRecordsError, RefusedRecord, Writable
from kompat.protocol.records import BatchHeader, Record, empty_batch, iterate, keep_records, read_header
from kompat.types import Millis, Offset

USED = b"x"  # a state that tells that there are others of extensions: most partitions never have any
MAX_ERRORS = 100  # of one batch: an answer must not be larger than the question
MOST_HEEDED = 30_000  # records of a batch with headers: more than a producer sends unless it means harm
# Delayed records of a partition's open transactions, and message ids of one: with its end all of them are decided, at once.
MOST_UNDECIDED = 30_000


class PartitionInterceptor:
    """The append interceptor of one partition."""

    __slots__ = ("_changed", "_dropped", "_is_used", "lanes", "partition", "priorities", "traces", "view")

    names = headers.NAMES

    def __init__(
        self,
        partition: Partition,
        changed: Callable[[PartitionInterceptor], None],
        dropped: Callable[[PartitionInterceptor], None],
        tracer: Tracer,
    ) -> None:
        """`changed` is told when other records may be the next that are due, or the settings are others."""
        self.partition = partition
        self.view = View(partition.store)
        self._changed = changed
        self._dropped = dropped
        self._is_used = self.view.get(USED) is not None
        self.traces: PartitionTraces = tracer.traces_of(partition, self.view, mark=USED)
        self.lanes = LaneInterceptor(partition, self.view, is_extended=self._is_used)
        self.priorities = PriorityIndex(partition, self.view, is_extended=self._is_used)
        if self._is_used or self.lanes.is_on:
            changed(self)

    @property
    def is_used(self) -> bool:
        """Whether any extension has had something to do with the partition."""
        return self._is_used

    @property
    def summary(self) -> Summary:
        return Summary.decode(self.view.get(parked.SUMMARY)) if self._is_used else Summary()

    # -- deciding --------------------------------------------------------------------------------------------------
    def intercept(
        self,
        batch: Writable,
        header: BatchHeader,
        named: int,
        base_offset: Offset,
        now: Millis,
        *,
        prepared: Prepared | None = None,
        is_patient: bool = False,
    ) -> Intercepted | None:
        looks = _prepared_looks(prepared) or _looks(
            batch, header, named, is_patient=is_patient, is_long=prepared is not None
        )
        intercepted = self._heed(batch, header, named, base_offset, now, looks)
        if not self.lanes.is_on:
            return intercepted
        left = intercepted or Intercepted(batch, header, [] if self._is_used else [(USED, b"")])
        return self.lanes.intercept(left, named, base_offset, now, self.transaction_of(header, base_offset))

    def _heed(
        self,
        batch: Writable,
        header: BatchHeader,
        named: int,
        base_offset: Offset,
        now: Millis,
        looks: Iterable[Look],
    ) -> Intercepted | None:
        """What the headers ask for, but for the order."""
        if not (
            named & (headers.STRICT | headers.PRIORITIES) or (named & headers.CONTEXT and self.traces.tracer.has_room)
        ):
            self._trace_unopened(base_offset, header.record_count, now)
            return None
        if header.record_count > MOST_HEEDED:
            reason = f"a batch with such headers has at most {MOST_HEEDED} records, not {header.record_count}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, reason)
        chosen = self.traces.choose(base_offset, header.record_count, now, all_wait=self.lanes.is_on)
        taking = _Taking(self, header, base_offset, now, chosen)
        for look in looks:
            taking.heed(look)
        writes = taking.end()
        self.traces.plan(chosen if chosen else None)
        if writes and not self._is_used:
            writes.append((USED, b""))
        if not taking.gone:
            return Intercepted(batch, header, writes) if writes else None
        left = None
        if len(taking.gone) < header.record_count:
            left = keep_records(batch, lambda record: record.offset not in taking.gone)
        left = left or empty_batch(header)
        return Intercepted(left, read_header(left), writes)

    def _trace_unopened(self, base_offset: Offset, count: int, now: Millis) -> None:
        """Records that are traced by the topic's rate are known by their offsets."""
        if not self.partition.config.kompat_extensions_enable or not self.traces.parts:
            self.traces.plan(None)
        elif self.lanes.is_on:
            chosen = self.traces.choose(base_offset, count, now, all_wait=True)
            chosen.end(())
            self.traces.plan(chosen if chosen else None)
        else:
            self.traces.sample(base_offset, count, now)

    def end_transaction(self, producer_id: int, *, commits: bool) -> Sequence[StateWrite]:
        start = self.transaction_start(producer_id)
        if not self._is_used or start is None:
            return ()
        draft = Draft(self.view)
        timers = Timers(draft)
        if commits:
            timers.commit(producer_id, start)
        else:
            timers.abort(producer_id, start)
        ended = Transaction(producer_id, start)
        Seen(draft).end_transaction(ended, timers.park, commits=commits)
        return [*timers.writes(), *self.lanes.end_transaction(ended, commits=commits)]

    def transaction_of(self, header: BatchHeader, base_offset: Offset) -> Transaction | None:
        """The one that a batch belongs to."""
        if not header.is_transactional:
            return None
        start = self.transaction_start(header.producer_id)
        return Transaction(header.producer_id, base_offset if start is None else start)

    def transaction_start(self, producer_id: int) -> Offset | None:
        """Where the producer's open transaction began; None: it has none."""
        producer = self.partition.producers.get(producer_id)
        return producer.transaction_start if producer is not None and producer.transaction_start >= 0 else None

    # -- the log's word --------------------------------------------------------------------------------------------
    def appended(self, base_offset: Offset, committed: Promise[None], client_id: str | None) -> None:
        self.traces.appended(base_offset, committed, client_id)

    def staged(self, writes: Sequence[StateWrite], turn: Promise[None]) -> None:
        self.view.staged(writes, turn)
        if self.traces.is_saving:  # nobody else is interested
            self._is_used = True
            return
        self._is_used = True
        self.lanes.staged(writes)
        self.priorities.staged(writes)
        self._changed(self)

    def reload(self) -> None:
        self.view.clear()
        self._is_used = self.view.get(USED) is not None
        self.traces.reload()
        self.lanes.load(is_extended=self._is_used)
        self.priorities.reload(is_extended=self._is_used)
        self._changed(self)

    def start_moved(self) -> None:
        self.priorities.forget_old()

    def configured(self) -> None:
        self._changed(self)

    def drop(self) -> None:
        self.view.clear()
        self.traces.drop()
        self._dropped(self)


class Look(NamedTuple):
    """What one record asks for: all that can be known of it whatever the partition's states are."""

    record: Record
    options: RecordOptions | None
    error: HeaderError | None
    packed: Packed | None  # where it may have to wait, and there was time


def _look(record: Record) -> Look:
    try:
        return Look(record, headers.parse(record.headers), None, None)
    except HeaderError as error:
        return Look(record, None, error, None)


def _looks(batch: Writable, header: BatchHeader, named: int, *, is_patient: bool, is_long: bool) -> Iterator[Look]:
    """Of the records that ask for something. Raises Costly where it takes long and somebody is patient."""
    if is_patient and is_long:
        raise Costly(lambda: _prepare(batch, header, named))
    turn = Slice()
    for record in iterate(batch, headers.NAMES):
        if is_patient and turn.is_over:
            raise Costly(lambda: _prepare(batch, header, named))
        yield _look(record)


async def _prepare(batch: Writable, header: BatchHeader, named: int) -> Prepared:
    looks = []
    async for record in sliced(await aside(lambda: iterate(batch, headers.NAMES))):
        look = _look(record)
        if look.options is not None and (look.options.delay is not None or look.options.deliver_at is not None):
            look = look._replace(packed=pack(record, header.compression))
        looks.append(look)
    return Prepared(batch, header, named, looks)


def _prepared_looks(prepared: Prepared | None) -> list[Look] | None:
    return prepared.found if prepared is not None and isinstance(prepared.found, list) else None


class _Taking:
    """One batch, record by record."""

    def __init__(
        self, interceptor: PartitionInterceptor, header: BatchHeader, base_offset: Offset, now: Millis, chosen: Choosing
    ) -> None:
        self._config = interceptor.partition.config
        self._traces = interceptor.traces
        self._chosen = chosen
        self._codec = header.compression
        self._transaction = interceptor.transaction_of(header, base_offset)
        self._base = base_offset
        self._now = now
        self._draft = Draft(interceptor.view)
        self._timers = Timers(self._draft)
        self._seen = Seen(self._draft, has_transactions=interceptor.partition.producers.has_transactions)
        self._ranks = None if interceptor.lanes.is_on else Ranks()  # there all have their order from the log
        self._errors: list[RefusedRecord] = []
        self._wrong = 0
        self.gone: set[int] = set()  # records that are not to be in the log

    def heed(self, look: Look) -> None:
        """The record's offset is its place in the batch."""
        if look.error is not None:
            self._refuse(look.record, look.error)
        elif look.options is not None and not self._wrong:
            try:
                self._take(look.record, look.options, look.packed)
            except HeaderError as error:
                self._refuse(look.record, error)

    def _refuse(self, record: Record, error: HeaderError) -> None:
        self._wrong += 1
        if self._wrong <= MAX_ERRORS:
            self._errors.append(RefusedRecord(record.offset, str(error)))

    def _take(self, record: Record, options: RecordOptions, packed: Packed | None) -> None:
        slot = Offset(self._base + record.offset)
        due = options.due(self._now)
        if due is not None and due - self._now > self._config.kompat_delay_max_ms:
            raise HeaderError(
                f"{options.delivery} is more than kompat.delay.max.ms ({self._config.kompat_delay_max_ms})"
            )
        verdict = self._verdict(options.message_id, slot)
        if verdict is Verdict.REPEATED:
            self.gone.add(record.offset)
            return
        if verdict is Verdict.CONTESTED:
            self._contest(record, options, slot, self._now if due is None else due)
            return
        self._chosen.take(slot, options, due)
        if due is not None:
            self.gone.add(record.offset)
            self._check_room(options)
            self._park(DelayedRecord(slot, due, self._codec, options.schedule_id, record, packed))
            return
        if options.schedule_id is not None:
            self._end_wait(slot, options.schedule_id)
        if self._ranks is not None:
            self._ranks.add(slot, options, self._now)

    def _verdict(self, message_id: str | None, slot: Offset) -> Verdict:
        window = self._config.kompat_dedup_window_ms
        if message_id is None or window == 0:
            return Verdict.NEW
        if self._transaction is not None and self._seen.undecided(self._transaction) >= MOST_UNDECIDED:
            reason = f"the transaction has {MOST_UNDECIDED} message ids in the partition already"
            raise HeaderError(f"{headers.MESSAGE_ID}: {reason}")
        return self._seen.take(message_id, self._now, window, slot, self._transaction)

    def _contest(self, record: Record, options: RecordOptions, slot: Offset, due: Millis) -> None:
        """The record waits until transactions with its message id have ended."""
        assert options.message_id is not None  # noqa: S101 - else nobody contests it
        self.gone.add(record.offset)
        self._chosen.take(slot, options, due)
        waiting = DelayedRecord(slot, due, self._codec, options.schedule_id, record)
        self._seen.contest(options.message_id, self._now, waiting, self._transaction)

    def _check_room(self, options: RecordOptions) -> None:
        if self._transaction is not None and self._timers.summary.undecided >= MOST_UNDECIDED:
            raise HeaderError(
                f"{options.delivery}: {MOST_UNDECIDED} delayed records are in open transactions of the partition already"
            )

    def _park(self, record: DelayedRecord) -> None:
        if self._transaction is None:
            self._timers.park(record)
        else:
            self._timers.park_undecided(record, self._transaction.producer_id)

    def _end_wait(self, slot: Offset, schedule_id: str) -> None:
        """A record that is delivered at once takes the place of the one that waits."""
        if self._transaction is None:
            self._timers.replace(schedule_id)
        else:
            self._timers.park_undecided(
                DelayedRecord(slot, Millis(0), 0, schedule_id, None), self._transaction.producer_id
            )

    def end(self) -> list[StateWrite]:
        """What is to be written; InvalidRecordsError where a header made no sense."""
        if self._errors:
            reason = f"{self._wrong} of the batch's records were refused: {self._errors[0].message}"
            raise InvalidRecordsError(ErrorCode.INVALID_RECORD, reason, self._errors)
        self._seen.forget_old(self._now, self._config.kompat_dedup_window_ms)
        if self._ranks is not None:
            self._ranks.write(self._draft, self._now)
        self._chosen.end(self.gone)
        self._chosen.replaced += self._traces.traces_of(self._timers.replaced)
        return self._timers.writes()
