"""A share partition in use: its machine, the log that it is about, and the place where its state is persisted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.coordination.timers import Alarm
from kompat.errors import ErrorCode, KafkaError
from kompat.log.commit import Pending
from kompat.log.partition import Isolation, Partition
from kompat.log.waiters import Waiters
from kompat.share.events import SILENT, ShareEvents
from kompat.share.machine import claims
from kompat.share.machine.claims import Said
from kompat.share.machine.messages import AckBatch, Acquired, Dead, Found, Outcome, RecordState, Span, Update, Want
from kompat.share.machine.order import Moment, Order
from kompat.share.machine.partition import SharePartition
from kompat.share.machine.runs import Run
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import ShareStateMachine, Stored
from kompat.share.records import ShareKey, ShareRecord
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

Home = Runtime[ShareStateMachine, ShareRecord]
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


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
    ) -> None:
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
        self.machine = SharePartition(stored.start_offset, stored.batches)
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
        """Are changes written in the turn in which they are made?"""
        return not self.is_fenced and self._home.run_now(_nothing) is not None

    async def ready(self) -> None:
        """Wait until they are."""
        while not self.is_fenced and not self.is_ready:
            await self._home.run(_nothing)

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
        try:
            done = None if self.is_fenced else self._home.run_now(change)
        except KafkaError as error:
            return self._failed(change, error)
        if self.is_fenced:
            return _broken(_fenced())
        if done is None:
            promise = Pending()
            self._spawn(self._run(change, promise))
            return promise
        outcome, written = done
        if not written.is_done:
            written.add_done_callback(self._written)
        self._follow(outcome)
        return written

    async def _run(self, change: _Change, promise: Pending) -> None:
        """As `_decide`, where the home has to be waited for."""
        error: KafkaError | None = None
        try:
            outcome = await self._home.run(change)
        except KafkaError as refusal:
            self._failed(change, refusal)
            error = refusal
        else:
            self._follow(outcome)
        for failure in promise.resolve(error):
            logger.error("a reply could not be given", exc_info=failure)

    def _failed(self, change: _Change, error: KafkaError) -> Pending:
        if change.is_made:
            self.fence()
        return _broken(error)

    def _written(self, written: Pending) -> None:
        if written.error is not None:
            self.fence()

    def _follow(self, outcome: Outcome) -> None:
        self._alarm.arm()
        if outcome.dead:
            self._on_dead(self, outcome.dead)
        self.wake()

    def write(self, store: ShareStateMachine, update: Update) -> Decision[ShareRecord, None]:
        return store.write(self.key, update, leader_epoch=self.log.leader_epoch, now=self._clock.now())

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
    """A change of a share partition as a command to its home."""

    __slots__ = ("_live", "_what", "is_made")

    def __init__(self, live: LivePartition, what: Callable[[Millis], Outcome]) -> None:
        self._live = live
        self._what = what
        self.is_made = False  # from here on the machine believes it

    def __call__(self, store: ShareStateMachine) -> Decision[ShareRecord, Outcome]:
        if self._live.is_fenced:
            raise _fenced()
        outcome = self._what(self._live.now())
        self.is_made = True
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
