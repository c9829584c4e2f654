"""The acquisition state of a share partition: which records were delivered, and which member holds which.

A record is available until a member acquires it, then locked for that member until it is acknowledged, released or
rejected, or the lock expires. All records before the start offset are done. After it, only offsets that are not just
available are stored, as runs, so records far ahead can be delivered, too.

Locks exist in this process only: after a restart, the records are delivered again. Everything that has to be persisted is
returned as an Update, to be written before a client gets a response. The machine has applied the Update already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.messages import (
    AckBatch,
    AckType,
    Acquired,
    Dead,
    Found,
    Outcome,
    Reason,
    RecordState,
    Span,
    StateBatch,
    Update,
    Want,
    joined,
)
from kompat.share.machine.passed import Passed
from kompat.share.machine.picking import Picker
from kompat.share.machine.runs import Run, Runs
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.timers import Timers
from kompat.types import Millis, Offset

_AVAILABLE, _ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
_ACKNOWLEDGED, _ARCHIVED, _ARCHIVING = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.ARCHIVING


class AcquisitionState:
    def __init__(self, start_offset: Offset, batches: Iterable[StateBatch] = (), passed: Passed | None = None) -> None:
        """Built from the persisted state. `passed`: how records before the start have ended, as far as known."""
        self.start_offset = start_offset
        self.passed = passed or Passed()
        self.passed.cut(start_offset)
        self._runs = Runs()
        self._timers = Timers()
        self._offsets = [0] * len(RecordState.__members__)  # tracked, by state
        self.returned = 0  # how many times records have become available again
        for batch in batches:
            if batch.last >= start_offset and (batch.state is not _AVAILABLE or batch.deliveries > 0):
                self._set(max(batch.first, start_offset), batch.last, batch.state, batch.deliveries)
        self._advance()

    # -- what it knows ---------------------------------------------------------------------------------------------
    @property
    def in_flight(self) -> int:
        """Records that were delivered and are not done."""
        return self._offsets[_ACQUIRED] + self._offsets[_AVAILABLE] + self._offsets[_ARCHIVING]

    @property
    def complete_count(self) -> int:
        """Offsets from the start on that are done."""
        return self._offsets[_ACKNOWLEDGED] + self._offsets[_ARCHIVED]

    @property
    def has_archiving(self) -> bool:
        """Whether dead-letter records are still to be written."""
        return self._offsets[_ARCHIVING] > 0

    @property
    def fragments(self) -> int:
        """The number of runs after the start."""
        return len(self._runs)

    @property
    def tracked_end(self) -> int:
        """The offset from which on no record was ever acquired."""
        end = self._runs.end
        return self.start_offset if end is None else end

    def is_terminal(self, first: int, last: int) -> bool:
        """Whether none of these offsets will be delivered again."""
        return self._runs.are_terminal(max(first, self.start_offset), last)

    def next_deadline(self) -> Millis | None:
        found = self._timers.next()
        return None if found is None else Millis(found)

    def next_offset(self, settings: ShareSettings, now: Millis) -> Offset | None:
        """The first record that can be acquired, perhaps past the end of the log. None: the group's limit is reached."""
        can_take_new = self.in_flight < settings.max_locks
        end = self._runs.end
        if end is None:
            return self.start_offset if can_take_new else None
        has_gap = sum(self._offsets) < end - self.start_offset
        if self._offsets[_AVAILABLE] or (has_gap and can_take_new):
            for first, _, deliveries in self.available(self.start_offset, end - 1, now):
                if deliveries or can_take_new:
                    return Offset(first)
        return Offset(end) if can_take_new else None

    def available(self, first: int, last: int, now: Millis) -> Iterator[tuple[int, int, int]]:
        """The offsets in a range that can be acquired: first, last, delivery count so far."""
        position = max(first, self.start_offset)
        for run in self._runs.overlapping(position, last):
            if run.first > position:
                yield position, run.first - 1, 0
                position = run.first
            if run.state is _AVAILABLE and run.until <= now:
                yield position, min(run.last, last), run.deliveries
            position = run.last + 1
        if position <= last:
            yield position, last, 0

    def runs(self) -> list[Run]:
        return list(self._runs)

    def at(self, offset: int) -> Run | None:
        """The run of an offset; None: it was never acquired, or lies before the start."""
        found = self._runs.overlapping(offset, offset)
        return found[0] if found else None

    def archiving(self, settings: ShareSettings) -> list[Dead]:
        """Records whose dead-letter records are still to be written. The delivery count implies the reason, which is not persisted."""
        return [
            Dead(
                run.first,
                run.last,
                run.deliveries,
                Reason.DELIVERY_LIMIT if run.deliveries >= settings.delivery_limit else Reason.REJECTED,
            )
            for run in self._runs
            if run.state is _ARCHIVING
        ]

    # -- acquiring -------------------------------------------------------------------------------------------------
    def acquire(
        self,
        member: str,
        found: Found,
        want: Want,
        settings: ShareSettings,
        now: Millis,
        within: Sequence[Span] | None = None,
    ) -> Acquired:
        """Lock records for a member. `within`: only those in these ascending spans."""
        picker = Picker(want, settings, settings.max_locks - self.in_flight)
        if within is None and self._is_fresh(found):
            picker.take_fresh(found.first, found.firsts, found.lasts)
        else:
            self._offer(picker, found, settings, now, within)
        until = now + settings.lock_ms
        for first, last, deliveries in picker.spans:
            self._set(first, last, _ACQUIRED, deliveries, member, until)
        update = None
        if found.holes:
            end = picker.spans[-1].last + 1 if picker.spans and within is None else found.end
            update = self._skip_holes(found.holes, end, now)
        return Acquired(picker.spans, picker.count, update)

    def _is_fresh(self, found: Found) -> bool:
        """Whether every offset has a record and none was ever acquired."""
        if found.holes or not found.firsts or found.first < self.start_offset:
            return False
        end = self._runs.end
        return end is None or found.first >= end

    def _offer(
        self, picker: Picker, found: Found, settings: ShareSettings, now: Millis, within: Sequence[Span] | None
    ) -> None:
        """Offer all available records, batch by batch."""
        low, high = found.first, found.end - 1
        spans = ((low, high),) if within is None else within
        available = [each for first, last in spans for each in self.available(max(first, low), min(last, high), now)]
        position = 0
        for first, last in zip(found.firsts, found.lasts, strict=True):
            picker.begin_batch()
            while position < len(available) and available[position][1] < first:
                position += 1
            while position < len(available) and available[position][0] <= last:
                begin, end, deliveries = available[position]
                size = self._size_at(begin) if deliveries >= settings.isolate_from else 0
                picker.offer(max(begin, first), min(end, last), deliveries, size)
                if end > last:
                    break
                position += 1
            if picker.is_done:
                break

    def _size_at(self, offset: int) -> int:
        return self._runs.overlapping(offset, offset)[0].size

    def _skip_holes(self, holes: Sequence[Span], end: int, now: Millis) -> Update | None:
        """Archive offsets without records, up to `end`."""
        for hole in holes:
            for first, last, _ in list(self.available(hole.first, min(hole.last, end - 1), now)):
                self._set(first, last, _ARCHIVED, 0)
        return self._update([]) if self._advance() else None

    def expire(self, spans: Sequence[Span], now: Millis) -> Outcome:
        """Archive those of these records that no member holds: their time to live has ended."""
        free = (each for span in sorted(spans) for each in list(self.available(*span, now)))
        changed = [StateBatch(first, last, _ARCHIVED, deliveries) for first, last, deliveries in free]
        for batch in changed:
            self._set(*batch)
        if not changed:
            return Outcome(None, [])
        self._advance()
        return Outcome(self._update(changed), [])

    def claim(self, member: str, offset: int, deliveries: int, settings: ShareSettings, now: Millis) -> None:
        """Lock an available record for the member that held it last; the delivery count stays."""
        run = self.at(offset)
        delivery_count = max(deliveries, run.deliveries if run is not None else 0)
        self._set(offset, offset, _ACQUIRED, delivery_count, member, now + settings.lock_ms)

    # -- acknowledging ---------------------------------------------------------------------------------------------
    def acknowledge(self, member: str, batches: Sequence[AckBatch], settings: ShareSettings, now: Millis) -> Outcome:
        """Apply a member's acknowledgements: all of them, or none. Raises KafkaError."""
        parts = []
        previous = -1
        for batch in batches:
            for first, last, kind in batch.parts():
                if last < self.start_offset:
                    continue  # the log's start has passed them: no member can hold them
                if first <= previous:
                    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is acknowledged twice")
                previous = last
                begin = max(first, self.start_offset)
                self._check_held(member, begin, last)
                parts.append((begin, last, _checked(kind, settings)))
        outcome = Outcome(None, [])
        changed: list[StateBatch] = []
        for first, last, kind in parts:
            for run in self._inside(first, last):
                self._acknowledge_run(run, kind, settings, now, changed, outcome.dead)
        if changed:
            self._advance()
            outcome.update = self._update(changed)
        return outcome

    def _check_held(self, member: str, first: int, last: int) -> None:
        end = self._runs.end
        if end is not None and last >= end:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"offset {last} is past the acquired records")
        position = first
        for run in self._runs.overlapping(first, last):
            if run.first > position or run.state is not _ACQUIRED:
                break
            if run.member != member:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE, f"offset {position} is held by another member of the group"
                )
            position = run.last + 1
        if position <= last:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"offset {position} is not acquired")

    def _acknowledge_run(
        self,
        run: Run,
        kind: AckType,
        settings: ShareSettings,
        now: Millis,
        changed: list[StateBatch],
        dead: list[Dead],
    ) -> None:
        first, last, deliveries = run.first, run.last, run.deliveries
        if kind is AckType.RENEW:
            self._set(first, last, _ACQUIRED, deliveries, run.member, now + settings.lock_ms)
            return
        if kind is AckType.ACCEPT:
            state, until = _ACKNOWLEDGED, 0
        elif kind is AckType.GAP:
            state, until = _ARCHIVED, 0
        elif kind is AckType.RELEASE and deliveries < settings.delivery_limit:
            state, until = _AVAILABLE, now + settings.of_member(run.member).backoff(deliveries)
        else:
            reason = Reason.REJECTED if kind is AckType.REJECT else Reason.DELIVERY_LIMIT
            state, until = self._give_up(run, reason, settings, dead), 0
        self._set(first, last, state, deliveries, None, until)
        changed.append(StateBatch(first, last, state, deliveries))

    def _give_up(self, run: Run, reason: Reason, settings: ShareSettings, dead: list[Dead]) -> RecordState:
        if not settings.of_member(run.member).has_dead_letters:
            return _ARCHIVED
        dead.append(Dead(run.first, run.last, run.deliveries, reason))
        return _ARCHIVING

    def finish_archiving(self, first: int, last: int) -> Update | None:
        """The dead-letter records of these records are written: archive them."""
        changed = [
            StateBatch(run.first, run.last, _ARCHIVED, run.deliveries)
            for run in self._inside(max(first, self.start_offset), last)
            if run.state is _ARCHIVING
        ]
        for batch in changed:
            self._set(*batch)
        if not changed:
            return None
        self._advance()
        return self._update(changed)

    # -- releasing -------------------------------------------------------------------------------------------------
    def release(self, member: str, settings: ShareSettings) -> Outcome:
        """Release the records of a member that left. The delivery counts: a record may be the reason why the member left."""
        return self._let_go((run for run in self._runs if run.member == member), settings)

    def tick(self, settings: ShareSettings, now: Millis) -> Outcome:
        """Release records whose lock has expired, and those whose back-off has ended."""
        return self._let_go((run for run in self._runs if 0 < run.until <= now), settings)

    def _let_go(self, runs: Iterable[Run], settings: ShareSettings) -> Outcome:
        outcome = Outcome(None, [])
        changed = []
        for run in list(runs):
            state = _AVAILABLE
            if run.state is _ACQUIRED:
                if run.deliveries >= settings.delivery_limit:
                    state = self._give_up(run, Reason.DELIVERY_LIMIT, settings, outcome.dead)
                changed.append(StateBatch(run.first, run.last, state, run.deliveries))
            self._set(run.first, run.last, state, run.deliveries)
        if changed:
            self._advance()
            outcome.update = self._update(changed)
        return outcome

    def move_start(self, log_start_offset: Offset) -> bool:
        """Move the start with the log start offset; returns whether it moved."""
        if log_start_offset <= self.start_offset:
            return False
        self._forget(self.start_offset, log_start_offset - 1)
        self.start_offset = log_start_offset
        self._advance()
        return True

    # -- bookkeeping -----------------------------------------------------------------------------------------------
    def _set(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str | None = None, until: int = 0
    ) -> None:
        """Replace the state of these offsets."""
        low, high = self._take_out(first, last)
        self._runs.replace(low, high, Run(first, last, state, deliveries, member, until))
        self._offsets[state] += last - first + 1
        if state is _AVAILABLE:
            self.returned += 1
        if until:
            self._timers.add(until, last - first + 1)
        # The delivery count no longer matters once they are done.
        self._runs.join(low, exactly=state is not _ACKNOWLEDGED and state is not _ARCHIVED)

    def _forget(self, first: int, last: int) -> None:
        """Remove the state of these offsets."""
        self._runs.remove(*self._take_out(first, last))

    def _take_out(self, first: int, last: int) -> tuple[int, int]:
        """Remove these offsets from the counts; returns the indexes of their runs."""
        low, high = self._runs.cut(first, last)
        for run in self._runs.inside(low, high):
            self._offsets[run.state] -= run.size
            if run.until:
                self._timers.remove(run.until, run.size)
        return low, high

    def _inside(self, first: int, last: int) -> list[Run]:
        return self._runs.inside(*self._runs.cut(first, last))

    def _advance(self) -> bool:
        """Move the start past records that are done; returns whether it moved."""
        passed = 0
        for run in self._runs:
            if run.first > self.start_offset or not (run.state is _ACKNOWLEDGED or run.state is _ARCHIVED):
                break
            self._offsets[run.state] -= run.size
            self.passed.add(run.first, run.last, is_accepted=run.state is _ACKNOWLEDGED)
            self.start_offset = Offset(run.last + 1)
            passed += 1
        self._runs.remove(0, passed)
        return passed > 0

    def _update(self, changed: Sequence[StateBatch]) -> Update:
        """The update for a change, without what lies before the start: that need not be persisted."""
        return Update(self.start_offset, self.complete_count, joined(changed, self.start_offset))


def _checked(kind: int, settings: ShareSettings) -> AckType:
    try:
        found = AckType(kind)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"acknowledge type {kind} does not exist") from None
    if found is AckType.RENEW and not settings.can_renew:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "this group's settings do not allow to renew a lock")
    return found
