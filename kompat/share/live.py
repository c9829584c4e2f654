"""A share partition in use: its machine, the log that it is about, and the place where its state is persisted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.coordination.timers import Alarm
from kompat.errors import ErrorCode, KafkaError
from kompat.log.commit import Pending, settle
from kompat.log.partition import Isolation, Partition
from kompat.log.waiters import Waiters
from kompat.share.events import SILENT, ShareEvents
from kompat.share.home import Home
from kompat.share.home import Spawn as Spawn
from kompat.share.machine import claims
from kompat.share.machine.claims import Said
from kompat.share.machine.messages import AckBatch, Acquired, Dead, Found, Outcome, RecordState, Span, Update, Want
from kompat.share.machine.order import Moment, Order
from kompat.share.machine.partition import SharePartition
from kompat.share.machine.passed import Passed
from kompat.share.machine.runs import Run
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import ShareStateMachine, Stored
from kompat.share.records import ShareKey, ShareRecord
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

MOST_REASONS = 2_000  # of one partition, each a kilobyte at most
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)


class _SteadyClock:
    """Locks are known in this process only: they end when their time has passed, whatever becomes of the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic

    def now(self) -> Millis:
        return Millis(int(self.monotonic() * 1000))


class LivePartition:
    """Changes are decided and written down in one step, so that the log has them in the order in which they were made.

    Should one not be written, what is believed here may be more than what is true: then all of it is given up, locks
    included, and built anew from what is persisted.
    """

    def __init__(
        self,
        key: ShareKey,
        stored: Stored,
        *,
        log: Partition,
        home: Home,
        order: Order,
        settings: Callable[[], ShareSettings],
        clock: Clock,
        spawn: Spawn,
        on_dead: Callable[[LivePartition, Sequence[Dead]], None],
        on_fenced: Callable[[LivePartition], None],
        events: ShareEvents = SILENT,
        passed: Passed | None = None,
    ) -> None:
        """`passed`: what is known from an earlier use of it."""
        self.key = key
        self.log = log
        self.order = order
        self._home = home
        self._settings = settings
        self._clock = clock
        self._steady = _SteadyClock(clock)
        self._spawn = spawn
        self._on_dead = on_dead
        self._on_fenced = on_fenced
        self._events = events
        self._waiters: Waiters[LivePartition] = Waiters()
        self._alarm = Alarm(self._steady, self._next_deadline, self._ring)
        self.state_epoch = stored.state_epoch  # moves where somebody lets the group begin anew
        self.machine = SharePartition(stored.start_offset, stored.batches, passed)
        self.reasons: dict[int, str] = {}  # why records were rejected, until their letters are written
        self.is_fenced = False
        self.is_reading = False  # somebody waits for the disk: others would only read the same
        self.record_bytes = 1024.0  # of a record, as it seems: how much to read at once

    # -- what others look at ---------------------------------------------------------------------------------------
    @property
    def settings(self) -> ShareSettings:
        return self._settings()

    @property
    def isolation(self) -> Isolation:
        return Isolation.READ_COMMITTED if self.settings.is_read_committed else Isolation.READ_UNCOMMITTED

    @property
    def end(self) -> Offset:
        """Of what the group can read."""
        return self.log.last_stable_offset if self.settings.is_read_committed else self.log.high_watermark

    @property
    def is_at_end(self) -> bool:
        """Could more be taken, if there were more?"""
        if self.is_fenced:
            return False
        offset = self.machine.next_offset(self.settings, self._steady.now())
        return offset is not None and offset >= self.log.high_watermark

    def next_spans(self, max_records: int) -> Sequence[Span]:
        """What to read for the next member, best first. Whoever finds nothing is woken when there may be something."""
        self.machine.move_start(self.log.log_start_offset)
        moment = Moment(self._steady.now(), self._clock.now(), self.end, self.log.config.kompat_priority_aging_ms)
        spans, expired, is_cut = self.order.next_spans(self.machine, self.settings, max_records, moment)
        if expired:
            self.expire(expired).add_done_callback(lambda _: self.wake())
        elif is_cut:
            asyncio.get_running_loop().call_soon(self.wake)
        return spans

    def watch(self, callback: Callable[[LivePartition], None]) -> None:
        """Be called when records may have become available without the log's growing."""
        self._waiters.add(callback)

    def unwatch(self, callback: Callable[[LivePartition], None]) -> None:
        self._waiters.remove(callback)

    def wake(self) -> None:
        if self._waiters:
            self._waiters.fire(self)

    # -- what members do -------------------------------------------------------------------------------------------
    def acquire(self, member: str, found: Found, want: Want, within: Sequence[Span] | None) -> Acquired:
        acquired = self.machine.acquire(member, found, want, self.settings, self._steady.now(), within)
        if acquired.update is not None:
            # Nobody waits for it: should it be lost, the same offsets will be found empty again.
            self._decide(lambda _: Outcome(acquired.update, []))
        self._alarm.arm()
        if acquired.spans and self._events.watches(self.log):
            self._events.acquired(self.log, self.key.group_id, member, acquired.spans)
        return acquired

    def acknowledge(self, member: str, batches: Sequence[AckBatch]) -> Pending:
        promise = self._decide(lambda now: self.machine.acknowledge(member, batches, self.settings, now))
        words = ((member, Span(first, last), kind) for batch in batches for first, last, kind in batch.parts())
        return self._told(promise, words)

    def settle(self, said: Sequence[Said]) -> Pending:
        """Take the word of those who were given single records."""
        promise = self._decide(lambda now: claims.settle(self.machine, said, self.settings, now))
        return self._told(promise, ((each.member, Span(each.offset, each.offset), each.kind) for each in said))

    def release(self, member: str) -> Pending:
        """Let go of all that a member holds."""

        def let_go(_: Millis) -> Outcome:
            self._tell_let_go(lambda run: run.member == member, is_late=False)
            return self.machine.release(member, self.settings)

        return self._decide(let_go)

    def expire(self, spans: Sequence[Span]) -> Pending:
        """Be done with records whose time to live has ended."""
        promise = self._decide(lambda now: self.machine.expire(spans, now))
        if self._events.watches(self.log):
            for span in spans:
                self._events.expired(self.log, self.key.group_id, span)
        return promise

    @property
    def is_ready(self) -> bool:
        """Are changes made at once? Else they have to wait until the state is at hand."""
        if self.is_fenced:
            return False
        keeper = self._home.keeper
        return keeper is None or keeper.run_now(_nothing) is not None

    async def ready(self) -> None:
        """Wait until they are."""
        while not self.is_fenced and not self.is_ready:
            keeper = self._home.keeper
            if keeper is None:
                continue
            try:
                await keeper.run(_nothing)
            except KafkaError:
                if keeper.is_leading:
                    raise  # else another broker has it now

    def settled(self) -> Pending:
        """The promise that all changes until now are written."""
        return self._decide(lambda _: Outcome(None, []))

    def say_why(self, offset: int, reason: str) -> None:
        """Of a record that is about to be rejected. A broker that dies before the letter is written forgets it."""
        if not self.settings.has_receipt_dead_letters:
            return  # nobody would tell it
        self.reasons[offset] = reason
        if len(self.reasons) > MOST_REASONS:
            del self.reasons[next(iter(self.reasons))]

    def finish(self, dead: Dead) -> Pending:
        """The dead letters of these records are written in this turn."""
        return self._decide(lambda _: Outcome(self.machine.buried(dead.first, dead.last), []))

    # -- time ------------------------------------------------------------------------------------------------------
    def _next_deadline(self) -> Millis | None:
        return None if self.is_fenced else self.machine.next_deadline()

    async def _ring(self) -> None:
        await self._decide(self._tick).wait()

    def _tick(self, now: Millis) -> Outcome:
        self._tell_let_go(lambda run: 0 < run.until <= now, is_late=True)
        return self.machine.tick(self.settings, now)

    # -- telling ---------------------------------------------------------------------------------------------------
    def _told(self, promise: Pending, words: Iterable[tuple[str, Span, int]]) -> Pending:
        """Tell of the members' words, when they count."""
        if not self._events.watches(self.log):
            return promise
        listed = list(words)

        def kept(done: Pending) -> None:
            if done.error is None:
                for member, span, kind in listed:
                    self._events.acknowledged(self.log, self.key.group_id, member, span, kind)

        promise.add_done_callback(kept)
        return promise

    def _tell_let_go(self, goes: Callable[[Run], bool], *, is_late: bool) -> None:
        if self._events.watches(self.log):
            for run in self.machine.runs():
                if run.state is RecordState.ACQUIRED and goes(run):
                    span = Span(run.first, run.last)
                    self._events.let_go(self.log, self.key.group_id, run.member, span, is_late=is_late)

    # -- persisting ------------------------------------------------------------------------------------------------
    def _decide(self, what: Callable[[Millis], Outcome]) -> Pending:
        """Decide, and promise to persist what follows; a refusal is the promise's error."""
        change = _Change(self, what)
        if self.is_fenced:
            return _broken(_fenced())
        keeper = self._home.keeper
        try:
            done = self._send(change.make()) if keeper is None else keeper.run_now(change)
        except KafkaError as error:
            if change.outcome is None or not self._home.may_send(error):
                return self._failed(change, error)
            done = self._send(change.outcome)
        if done is None:
            promise = Pending()
            self._spawn(self._run(change, promise))
            return promise
        outcome, written = done
        if not written.is_done:
            written.add_done_callback(self._written)
        self._follow(outcome)
        return written

    def _send(self, outcome: Outcome) -> tuple[Outcome, Pending]:
        """As `run_now`, where another broker has the state."""
        written, promise = self._home.send(outcome.update), Pending()
        # Before whoever waits for it: who comes again then finds it loaded anew, where it has to be.
        written.add_done_callback(self._written)
        written.add_done_callback(lambda done: settle(promise, _as_told(done.error)))
        return outcome, promise

    async def _run(self, change: _Change, promise: Pending) -> None:
        """As `_decide`, where the state has to be waited for."""
        try:
            await self.ready()
            made = self._decide(change.what)
        except KafkaError as refusal:
            made = _broken(refusal)
        except Exception as bug:  # whoever waits hears of it
            logger.exception("a change of %s failed", self.key)
            made = _broken(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(bug).__name__}: {bug}"))
        made.add_done_callback(lambda done: settle(promise, done.error))

    def _failed(self, change: _Change, error: KafkaError) -> Pending:
        if change.outcome is not None:
            self.fence()
        return _broken(_fenced() if error.code in _FENCED else error)

    def _written(self, written: Pending) -> None:
        if written.error is not None:
            self.fence()

    def _follow(self, outcome: Outcome) -> None:
        self._alarm.arm()
        if outcome.dead:
            self._on_dead(self, outcome.dead)
        self.wake()

    def write(self, store: ShareStateMachine, update: Update) -> Decision[ShareRecord, None]:
        return store.write(self.key, update, self._home.fence, self._clock.now())

    def now(self) -> Millis:
        """In the time that locks are kept in."""
        return self._steady.now()

    @property
    def is_idle(self) -> bool:
        """Nobody holds anything, nobody waits, and no dead letter is to be written."""
        is_used = self._waiters or self.is_reading or self.machine.has_archiving
        return not is_used and self.machine.next_deadline() is None

    def fence(self) -> None:
        """Be no longer in use: whoever comes next begins with what is persisted."""
        if not self.is_fenced:
            self.close()
            self._on_fenced(self)
            self.wake()

    def close(self) -> None:
        self.is_fenced = True
        self._alarm.close()


class _Change:
    """A change of a share partition as a command to whoever keeps its state."""

    __slots__ = ("_live", "outcome", "what")

    def __init__(self, live: LivePartition, what: Callable[[Millis], Outcome]) -> None:
        self._live = live
        self.what = what
        self.outcome: Outcome | None = None  # once there is one, the machine believes it

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


def _broken(error: KafkaError) -> Pending:
    promise = Pending()
    promise.resolve(error)
    return promise


def _fenced() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the share partition has to be loaded anew")


def _as_told(error: KafkaError | None) -> KafkaError | None:
    """Whoever is fenced knows nothing of it: somebody else uses the share partition, or it has begun anew."""
    return _fenced() if error is not None and error.code in _FENCED else error
