"""A share partition in use: its acquisition state, the log of its records, and the writer of its persisted state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.coordination.decision import Decision
from kompat.coordination.timers import Alarm
from kompat.errors import ErrorCode, KafkaError, kafka_error
from kompat.log.partition import Isolation, Partition
from kompat.log.waiters import Waiters
from kompat.share.events import SILENT, ShareEvents
from kompat.share.machine import claims
from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.claims import RecordAcknowledgement
from kompat.share.machine.messages import AckBatch, Acquired, Dead, Found, Outcome, RecordState, Span, Update, Want
from kompat.share.machine.order import Moment, Order
from kompat.share.machine.passed import Passed
from kompat.share.machine.runs import Run
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import ShareStateMachine, Stored
from kompat.share.records import ShareKey, ShareRecord
from kompat.share.state_writer import Spawn as Spawn
from kompat.share.state_writer import StateWriter
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

MOST_REASONS = 2_000  # of one partition; each has at most a kilobyte
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)


class _SteadyClock:
    """Locks exist in this process only, so they expire by the monotonic clock, even if the wall clock is set."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic

    def now(self) -> Millis:
        return Millis(int(self.monotonic() * 1000))


class SharePartition:
    """Decides changes and writes them in one step, so that the log has them in the order in which they were made.

    If a write fails, the state in memory may be ahead of the persisted one: then the share partition is fenced, all locks
    are lost, and it is loaded again from the persisted state.
    """

    def __init__(
        self,
        key: ShareKey,
        stored: Stored,
        *,
        log: Partition,
        writer: StateWriter,
        order: Order,
        settings: Callable[[], ShareSettings],
        clock: Clock,
        spawn: Spawn,
        on_dead: Callable[[SharePartition, Sequence[Dead]], None],
        on_fenced: Callable[[SharePartition], None],
        events: ShareEvents = SILENT,
        passed: Passed | None = None,
    ) -> None:
        """`passed`: how the last records ended when the share partition was in use before."""
        self.key = key
        self.log = log
        self.order = order
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._steady = _SteadyClock(clock)
        self._spawn = spawn
        self._on_dead = on_dead
        self._on_fenced = on_fenced
        self._events = events
        self._waiters: Waiters[SharePartition] = Waiters()
        self._alarm = Alarm(self._steady, self._next_deadline, self._ring)
        self.state_epoch = stored.state_epoch  # changes when the group is reset
        self.machine = AcquisitionState(stored.start_offset, stored.batches, passed)
        self.reasons: dict[int, str] = {}  # why records were rejected, until their dead-letter records are written
        self.is_fenced = False
        self.is_reading = False  # one fetch reads from disk: others would only read the same
        self.record_bytes = 1024.0  # an estimate of the size of a record: how much to read at once

    # -- what others look at ---------------------------------------------------------------------------------------
    @property
    def settings(self) -> ShareSettings:
        return self._settings()

    @property
    def isolation(self) -> Isolation:
        return Isolation.READ_COMMITTED if self.settings.is_read_committed else Isolation.READ_UNCOMMITTED

    @property
    def end(self) -> Offset:
        """The end of what the group can read."""
        return self.log.last_stable_offset if self.settings.is_read_committed else self.log.high_watermark

    @property
    def is_at_end(self) -> bool:
        """Whether the group could acquire more, if the log had more."""
        if self.is_fenced:
            return False
        offset = self.machine.next_offset(self.settings, self._steady.now())
        return offset is not None and offset >= self.log.high_watermark

    def next_spans(self, max_records: int) -> Sequence[Span]:
        """The spans to read for the next member, best first. A member that finds none is woken when there may be some."""
        self.machine.move_start(self.log.log_start_offset)
        moment = Moment(self._steady.now(), self._clock.now(), self.end, self.log.config.kompat_priority_aging_ms)
        spans, expired, is_cut = self.order.next_spans(self.machine, self.settings, max_records, moment)
        if expired:
            self.expire(expired).add_done_callback(lambda _: self.wake())
        elif is_cut:
            asyncio.get_running_loop().call_soon(self.wake)
        return spans

    def watch(self, callback: Callable[[SharePartition], None]) -> None:
        """Call back when records may have become available although the log has not grown."""
        self._waiters.add(callback)

    def unwatch(self, callback: Callable[[SharePartition], None]) -> None:
        self._waiters.remove(callback)

    def wake(self) -> None:
        if self._waiters:
            self._waiters.fire(self)

    # -- what members do -------------------------------------------------------------------------------------------
    def acquire(self, member: str, found: Found, want: Want, within: Sequence[Span] | None) -> Acquired:
        acquired = self.machine.acquire(member, found, want, self.settings, self._steady.now(), within)
        if acquired.update is not None:
            # No caller waits for it: if the write is lost, the same offsets will be found empty again.
            self._decide(lambda _: Outcome(acquired.update, []))
        self._alarm.arm()
        if acquired.spans and self._events.watches(self.log):
            self._events.acquired(self.log, self.key.group_id, member, acquired.spans)
        return acquired

    def acknowledge(self, member: str, batches: Sequence[AckBatch]) -> Promise[None]:
        promise = self._decide(lambda now: self.machine.acknowledge(member, batches, self.settings, now))
        acknowledgements = (
            (member, Span(first, last), kind) for batch in batches for first, last, kind in batch.parts()
        )
        return self._report_acknowledged(promise, acknowledgements)

    def acknowledge_records(self, acks: Sequence[RecordAcknowledgement]) -> Promise[None]:
        """Acknowledge single records that were delivered with a receipt."""
        promise = self._decide(lambda now: claims.acknowledge(self.machine, acks, self.settings, now))
        return self._report_acknowledged(
            promise, ((each.member, Span(each.offset, each.offset), each.kind) for each in acks)
        )

    def release(self, member: str) -> Promise[None]:
        """Release all records that a member holds."""

        def let_go(_: Millis) -> Outcome:
            self._report_released(lambda run: run.member == member, is_late=False)
            return self.machine.release(member, self.settings)

        return self._decide(let_go)

    def expire(self, spans: Sequence[Span]) -> Promise[None]:
        """Archive records whose time to live has ended."""
        promise = self._decide(lambda now: self.machine.expire(spans, now))
        if self._events.watches(self.log):
            for span in spans:
                self._events.expired(self.log, self.key.group_id, span)
        return promise

    @property
    def is_ready(self) -> bool:
        """Whether changes are made in this turn; else they wait until the state is loaded."""
        if self.is_fenced:
            return False
        shard = self._writer.shard
        return shard is None or shard.run_now(_nothing) is not None

    async def ready(self) -> None:
        """Wait until `is_ready`, or until it is fenced."""
        while not self.is_fenced and not self.is_ready:
            shard = self._writer.shard
            if shard is None:
                continue
            try:
                await shard.run(_nothing)
            except KafkaError:
                if shard.is_leading:
                    raise  # else another broker is the coordinator now

    def all_written(self) -> Promise[None]:
        """The promise that all changes made so far are written."""
        return self._decide(lambda _: Outcome(None, []))

    def say_why(self, offset: int, reason: str) -> None:
        """Keep the reason of a rejection for its dead-letter record. It is lost if the broker ends before that is written."""
        if not self.settings.has_receipt_dead_letters:
            return  # without a dead-letter record, no reason is needed
        self.reasons[offset] = reason
        if len(self.reasons) > MOST_REASONS:
            del self.reasons[next(iter(self.reasons))]

    def finish(self, dead: Dead) -> Promise[None]:
        """The dead-letter records of these records are written in this turn."""
        return self._decide(lambda _: Outcome(self.machine.finish_archiving(dead.first, dead.last), []))

    # -- time ------------------------------------------------------------------------------------------------------
    def _next_deadline(self) -> Millis | None:
        return None if self.is_fenced else self.machine.next_deadline()

    async def _ring(self) -> None:
        await self._decide(self._tick)

    def _tick(self, now: Millis) -> Outcome:
        self._report_released(lambda run: 0 < run.until <= now, is_late=True)
        return self.machine.tick(self.settings, now)

    # -- reporting -------------------------------------------------------------------------------------------------
    def _report_acknowledged(
        self, promise: Promise[None], acknowledgements: Iterable[tuple[str, Span, int]]
    ) -> Promise[None]:
        """Report acknowledgements to the listener as soon as they are written."""
        if not self._events.watches(self.log):
            return promise
        listed = list(acknowledgements)

        def kept(done: Promise[None]) -> None:
            if done.error is None:
                for member, span, kind in listed:
                    self._events.acknowledged(self.log, self.key.group_id, member, span, kind)

        promise.add_done_callback(kept)
        return promise

    def _report_released(self, goes: Callable[[Run], bool], *, is_late: bool) -> None:
        if self._events.watches(self.log):
            for run in self.machine.runs():
                if run.state is RecordState.ACQUIRED and goes(run):
                    span = Span(run.first, run.last)
                    self._events.let_go(self.log, self.key.group_id, run.member, span, is_late=is_late)

    # -- persisting ------------------------------------------------------------------------------------------------
    def _decide(self, what: Callable[[Millis], Outcome]) -> Promise[None]:
        """Decide, and promise to persist the outcome; if it is refused, the promise fails."""
        change = _Change(self, what)
        if self.is_fenced:
            return Promise.failed(_fenced())
        shard = self._writer.shard
        try:
            done = self._send(change.make()) if shard is None else shard.run_now(change)
        except KafkaError as error:
            if change.outcome is None or not self._writer.may_send(error):
                return self._failed(change, error)
            done = self._send(change.outcome)
        if done is None:
            promise: Promise[None] = Promise()
            self._spawn(self._run(change, promise))
            return promise
        outcome, written = done
        if not written.is_done:
            written.add_done_callback(self._written)
        self._follow(outcome)
        return written

    def _send(self, outcome: Outcome) -> tuple[Outcome, Promise[None]]:
        """As `run_now`, where another broker is the share coordinator."""
        written = self._writer.send(outcome.update)
        promise: Promise[None] = Promise()
        # This callback runs before those of the caller: a caller that retries must find the share partition already fenced.
        written.add_done_callback(self._written)
        written.add_done_callback(lambda done: promise.end(_not_leader_if_fenced(done.error)))
        return outcome, promise

    async def _run(self, change: _Change, promise: Promise[None]) -> None:
        """As `_decide`, after the state is loaded."""
        try:
            await self.ready()
            made = self._decide(change.what)
        except KafkaError as refusal:
            made = Promise.failed(refusal)
        except Exception as bug:  # the caller gets it as an error
            logger.exception("a change of %s failed", self.key)
            made = Promise.failed(kafka_error(bug))
        made.add_done_callback(lambda done: promise.end(done.error))

    def _failed(self, change: _Change, error: KafkaError) -> Promise[None]:
        if change.outcome is not None:
            self.fence()
        return Promise.failed(_fenced() if error.code in _FENCED else error)

    def _written(self, written: Promise[None]) -> None:
        if written.error is not None:
            self.fence()

    def _follow(self, outcome: Outcome) -> None:
        self._alarm.arm()
        if outcome.dead:
            self._on_dead(self, outcome.dead)
        self.wake()

    def write(self, store: ShareStateMachine, update: Update) -> Decision[ShareRecord, None]:
        return store.write(self.key, update, self._writer.fence, self._clock.now())

    def now(self) -> Millis:
        """The time by which locks expire."""
        return self._steady.now()

    @property
    def is_idle(self) -> bool:
        """Nothing is acquired, no fetch waits, and no dead-letter record is still to be written."""
        is_used = self._waiters or self.is_reading or self.machine.has_archiving
        return not is_used and self.machine.next_deadline() is None

    def fence(self) -> None:
        """Stop using it: the next user loads the persisted state."""
        if not self.is_fenced:
            self.close()
            self._on_fenced(self)
            self.wake()

    def close(self) -> None:
        self.is_fenced = True
        self._alarm.close()


class _Change:
    """A change of a share partition, as a command to the shard with its state."""

    __slots__ = ("_live", "outcome", "what")

    def __init__(self, live: SharePartition, what: Callable[[Millis], Outcome]) -> None:
        self._live = live
        self.what = what
        self.outcome: Outcome | None = None  # as soon as it is set, the acquisition state has changed

    def make(self) -> Outcome:
        if self._live.is_fenced:
            raise _fenced()
        self.outcome = self.what(self._live.now())
        return self.outcome

    def __call__(self, store: ShareStateMachine) -> Decision[ShareRecord, Outcome]:
        outcome = self.make()
        records = () if outcome.update is None else self._live.write(store, outcome.update).records
        return Decision(records, outcome)


def _nothing(_: ShareStateMachine) -> Decision[ShareRecord, None]:
    return Decision([], None)


def _fenced() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the share partition has to be loaded anew")


def _not_leader_if_fenced(error: Exception | None) -> Exception | None:
    """NOT_LEADER_OR_FOLLOWER for a fenced write: another broker uses the share partition, or it was reset."""
    return _fenced() if isinstance(error, KafkaError) and error.code in _FENCED else error
