"""Urgent records first: the order of a group's records if some have a class, or a time to live.

A record that has waited for `aging_ms` longer than another counts as one class higher, so none waits for ever; within a
class the oldest comes first. Most records are of the default class and are not in the index: they lie between those
that are, and count as having come with the next one of those.

Each class has a lane: its records that are not done, as far as they have been read from the index. Nothing is read before it
is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Protocol

from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import Span
from kompat.share.machine.order import ByOffset, Choice, Moment
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

CLASSES: Final = 10  # 0 to 9, the most urgent last
DEFAULT_CLASS: Final = 4
NEVER: Final = (1 << 63) - 1
PAGE: Final = 128  # batches that are read at once
MOST_PAGES: Final = 64  # before other tasks get their turn
MOST_EXPIRED: Final = 2_000  # runs, likewise
# Records that are done far ahead of the start are stored run by run, in memory and in `__share_group_state`: beyond this
# number the gaps are closed first, by offset.
MOST_RUNS: Final = 10_000
_SLACK: Final = 256


class RankedRun(NamedTuple):
    """Consecutive records of one class that expire at the same time."""

    first: int
    last: int
    expires: int


class RankedBatch(NamedTuple):
    """One class's records of a batch."""

    came: Millis
    runs: Sequence[RankedRun]

    @property
    def last(self) -> int:
        return self.runs[-1].last


class Ranked(Protocol):
    """The records of a partition that have a class of their own or a time to live."""

    def newest(self) -> Sequence[int] | None:
        """For each class the last known offset, or -1; None: there has never been one."""
        ...

    def find(self, priority: int, first: int, end: int, limit: int) -> list[RankedBatch]:
        """The batches with records of a class that end in [first, end), in order: up to the limit, or fewer if they are large,
        but at least one."""
        ...


class _Piece:
    """Neighbouring records of one class."""

    __slots__ = ("came", "expires", "first", "last")

    def __init__(self, first: int, last: int, came: int | None, expires: int) -> None:
        self.first = first
        self.last = last
        self.came = came  # None: after all known ones
        self.expires = expires


_Free = tuple[int, int, int, int]  # what could be delivered now: first, last, deliveries so far, when it came
_Head = tuple[int, int, int, _Free]  # its place in the order, and which lane's it is


class _Look:
    """One attempt to find the next records."""

    __slots__ = ("expired", "is_full", "moment", "newest", "pages", "partition", "ranked")

    def __init__(
        self, partition: AcquisitionState, ranked: Ranked, newest: Sequence[int], moment: Moment, *, is_full: bool
    ) -> None:
        self.partition = partition
        self.ranked = ranked
        self.newest = newest
        self.moment = moment
        self.is_full = is_full  # no record is delivered for the first time
        self.pages = MOST_PAGES
        self.expired: list[Span] = []

    @property
    def is_cut(self) -> bool:
        """Whether there was more to read than one attempt may."""
        return self.pages <= 0 or len(self.expired) >= MOST_EXPIRED

    def begin(self, position: int) -> int | None:
        """Where to continue from a position; None: there is no need."""
        begin = max(position, self.partition.start_offset)
        end = min(self.moment.end, self.partition.tracked_end) if self.is_full else self.moment.end
        return begin if begin < end else None

    def find(self, priority: int, first: int, limit: int) -> list[RankedBatch]:
        if self.newest[priority] < first:
            return []
        self.pages -= 1
        return self.ranked.find(priority, first, self.moment.end, limit)

    def known_until(self, priority: int, found: Sequence[RankedBatch]) -> int:
        """Up to where the index of a class has been read."""
        is_all = not found or found[-1].last >= self.newest[priority]
        return self.moment.end if is_all else found[-1].last + 1


class _Lane:
    def __init__(self, priority: int, start: int) -> None:
        self.priority = priority
        self._pieces: list[_Piece] = []
        self._cursor = 0  # nothing before it is available, unless records were released
        self._kept = 0  # the count of released records when those were last checked
        self._returned = -1
        self._position = start  # read up to here

    def free(self, look: _Look) -> Iterator[_Free]:
        """The available records, by offset. Expired ones are only noted."""
        now, wall, end, _ = look.moment
        self._rewind(look.partition)
        index = self._cursor
        while not look.is_cut and (index < len(self._pieces) or self._read(look)):
            if index == len(self._pieces):
                continue  # the index had nothing for this lane
            piece = self._pieces[index]
            has_some = piece.last >= end
            for first, last, deliveries in look.partition.available(piece.first, min(piece.last, end - 1), now):
                has_some = True
                if piece.expires <= wall:
                    look.expired.append(Span(first, last))
                else:
                    yield first, last, deliveries, wall if piece.came is None else piece.came
            if not has_some and index == self._cursor:
                self._cursor += 1
            index += 1

    def _rewind(self, partition: AcquisitionState) -> None:
        """Begin with released records; drop those that are done."""
        is_back = self._returned != partition.returned
        if is_back or self._cursor > 2 * self._kept + _SLACK:
            passed = self._pieces[: self._cursor]
            self._pieces[: self._cursor] = kept = [p for p in passed if not partition.is_terminal(p.first, p.last)]
            self._kept = len(kept)
            self._cursor = 0 if is_back else len(kept)
            self._returned = partition.returned

    def _read(self, look: _Look) -> bool:
        """Read more; returns whether there was anything left to read."""
        begin = look.begin(self._position)
        if begin is None:
            return False
        batches = look.find(self.priority, begin, PAGE)
        self._position = look.known_until(self.priority, batches)
        self._pieces += [
            _Piece(run.first, run.last, batch.came, run.expires)
            for batch in batches
            for run in batch.runs
            if run.last >= begin
        ]
        return True


class _DefaultLane(_Lane):
    """The records between the others."""

    def free(self, look: _Look) -> Iterator[_Free]:
        self._join()
        if self._pieces and self._pieces[-1].came is None:
            # The next known record may have come meanwhile: the time must not stay unknown for ever.
            begin = max(self._position, look.partition.start_offset)
            found = [batch for priority in range(CLASSES) for batch in look.find(priority, begin, 1)]
            if found:
                self._date(min(found, key=_first_of).came)
        return super().free(look)

    def _read(self, look: _Look) -> bool:
        begin = look.begin(self._position)
        if begin is None:
            return False
        known: list[tuple[int, int, int, Millis, int]] = []
        until = look.moment.end  # before it, all of every class is known
        for priority in range(CLASSES):
            batches = look.find(priority, begin, PAGE)
            known += [(*run, batch.came, priority) for batch in batches for run in batch.runs if run.last >= begin]
            until = min(until, look.known_until(priority, batches))
        known.sort()
        if known:
            self._date(known[0][3])
        for first, last, expires, came, priority in known:
            self._add(begin, min(first, until) - 1, came, NEVER)
            if priority == DEFAULT_CLASS:
                self._add(max(first, begin), min(last, until - 1), came, expires)
            begin = max(begin, last + 1)
        self._add(begin, until - 1, None, NEVER)
        self._position = until
        return True

    def _join(self) -> None:
        """Limit the number of pieces at the end: every attempt may add one."""
        pieces = self._pieces
        while len(pieces) > 1 and pieces[-1].came is None and pieces[-2].came is None:
            if pieces[-2].last + 1 != pieces[-1].first:
                break
            newest = pieces.pop()
            pieces[-1].last = newest.last
            self._cursor = min(self._cursor, len(pieces) - 1)

    def _date(self, came: Millis) -> None:
        """The first known record after those at the end has come."""
        for piece in reversed(self._pieces):
            if piece.came is not None:
                break
            piece.came = came

    def _add(self, first: int, last: int, came: Millis | None, expires: int) -> None:
        if first <= last:
            self._pieces.append(_Piece(first, last, came, expires))


class ByClass:
    """An Order: one group's view of one partition."""

    def __init__(self, ranked: Ranked) -> None:
        self._ranked = ranked
        self._by_offset = ByOffset()
        self._lanes: list[_Lane] = []

    def next_spans(
        self, partition: AcquisitionState, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        newest = self._ranked.newest()
        if newest is None or max(newest) < partition.start_offset:
            self._lanes.clear()
            return self._by_offset.next_spans(partition, settings, max_records, moment)
        if not self._lanes:
            start = partition.start_offset
            others = (_Lane(priority, start) for priority in reversed(range(CLASSES)) if priority != DEFAULT_CLASS)
            self._lanes = [*others, _DefaultLane(DEFAULT_CLASS, start)]
        locks = settings.max_locks - partition.in_flight
        look = _Look(partition, self._ranked, newest, moment, is_full=locks <= 0)
        heads = _Heads(self._lanes, look, None if partition.fragments > MOST_RUNS else moment.aging_ms)
        spans = _choose(heads, settings, max_records, locks)
        return Choice(spans, look.expired, look.is_cut)


class _Heads:
    """All lanes as one, the best first."""

    def __init__(self, lanes: Sequence[_Lane], look: _Look, aging_ms: int | None) -> None:
        self._aging = aging_ms  # None: all that counts is the offset
        self._lanes = [(lane.priority, lane.free(look)) for lane in lanes]

    def __iter__(self) -> Iterator[_Free]:
        heap = [head for index in range(len(self._lanes)) if (head := self._next(index)) is not None]
        heapify(heap)
        while heap:
            entry: _Head | None = heappop(heap)
            while entry is not None:
                if heap and entry > heap[0]:
                    heappush(heap, entry)  # another is better
                    break
                yield entry[3]
                entry = self._next(entry[2])

    def _next(self, index: int) -> _Head | None:
        """The lower the better."""
        priority, lane = self._lanes[index]
        free = next(lane, None)
        if free is None:
            return None
        if self._aging is None:
            return free[0], 0, index, free
        # What waits grows more urgent at the same pace for all: so their order stays as it is.
        return free[3] - priority * self._aging if self._aging else -priority, -priority, index, free


def _choose(heads: _Heads, settings: ShareSettings, max_records: int, locks: int) -> list[Span]:
    """The best available records, as many as requested. `locks`: how many may be delivered for the first time."""
    spans: list[Span] = []
    room = max_records
    isolate_from = settings.isolate_from
    for first, last, deliveries, _ in heads:
        if deliveries >= isolate_from:
            # It may be the record that breaks its members: it is delivered alone.
            return spans or [Span(first, last)]
        size = min(last - first + 1, room if deliveries else min(room, locks))
        if size <= 0:
            continue
        if not deliveries:
            locks -= size
        room -= size
        _extend(spans, first, first + size - 1)
        if not room:
            break
    return spans


def _first_of(batch: RankedBatch) -> int:
    return batch.runs[0].first


def _extend(spans: list[Span], first: int, last: int) -> None:
    if spans and spans[-1].last + 1 == first:
        spans[-1] = Span(spans[-1].first, last)
    else:
        spans.append(Span(first, last))
