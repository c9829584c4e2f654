"""How deep a queue is."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kompat.extensions.priority.index import PriorityIndex
from kompat.extensions.priority.order import DEFAULT_CLASS, MOST_PAGES, PAGE
from kompat.share.machine.messages import RecordState
from kompat.share.partition import SharePartition
from kompat.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Of a group on a topic. Offsets are counted: what the log has no record for counts as available until it is come to."""

    available: int = 0  # can be acquired now, or has never been looked at
    in_flight: int = 0
    backing_off: int = 0  # released, and not to be had yet
    archiving: int = 0  # given up; the dead letters are being written
    deliveries: dict[int, int] = field(default_factory=dict)  # how many that are not done with were delivered how often
    classes: dict[int, int] = field(default_factory=dict)  # of those that nobody holds, how many are how urgent


def counting(live: SharePartition) -> Iterator[QueueStatistics]:
    """Of one partition, in small steps, for there may be very many records with a class: the last has all of it."""
    at = look(live)
    yield at.figures
    found: dict[int, int] = {}
    for number in at.ranked:
        first, size = at.start, 0
        for _ in range(MOST_PAGES):
            page = read_page(live, at, number, first)
            size += page.free
            if page.is_last:
                break
            first = page.next
            yield at.figures
        found[number] = size
    yield replace(at.figures, classes=at.by_class(found))


class Look(NamedTuple):
    """At one partition, without its classes."""

    figures: QueueStatistics
    start: Offset
    end: Offset
    taken: Sequence[tuple[int, int]]  # held, or done with
    newest: Sequence[int] | None  # as of `PriorityIndex.newest`

    @property
    def free(self) -> int:
        return self.figures.available + self.figures.backing_off

    @property
    def ever(self) -> list[int]:
        """The classes that there has been a record of, besides the default."""
        return [number for number, last in enumerate(self.newest or ()) if number != DEFAULT_CLASS and last >= 0]

    @property
    def ranked(self) -> list[int]:
        """Those among them that the group may have yet to do with."""
        return [number for number in self.ever if self.newest and self.newest[number] >= self.start]

    def by_class(self, found: Mapping[int, int]) -> dict[int, int]:
        """Most records are of the default class: they are what is left."""
        left = max(0, self.free - sum(found.values()))
        return {number: size for number, size in sorted({**found, DEFAULT_CLASS: left}.items()) if size}


def look(live: SharePartition) -> Look:
    states: Counter[RecordState | None] = Counter()
    deliveries: Counter[int] = Counter()
    backing_off = tracked = 0
    taken: list[tuple[int, int]] = []
    for run in live.machine.runs():
        tracked += run.size
        if run.state is not RecordState.AVAILABLE:
            taken.append((run.first, run.last))
        states[run.state] += run.size
        if run.state in (RecordState.ACQUIRED, RecordState.AVAILABLE):
            deliveries[run.deliveries] += run.size
        if run.state is RecordState.AVAILABLE and run.until > live.now():
            backing_off += run.size
    start, end = live.machine.start_offset, live.log.high_watermark
    states[None] = max(0, end - start - tracked)
    figures = QueueStatistics(
        available=states[None] + states[RecordState.AVAILABLE] - backing_off,
        in_flight=states[RecordState.ACQUIRED],
        backing_off=backing_off,
        archiving=states[RecordState.ARCHIVING],
        deliveries=dict(sorted(deliveries.items())),
    )
    index = _index(live)
    return Look(figures, Offset(start), end, taken, index.newest() if index is not None else None)


class ClassPage(NamedTuple):
    """Some of a class's records, from an offset on."""

    free: int  # nobody holds them
    next: Offset  # where to go on
    is_last: bool


def read_page(live: SharePartition, at: Look, number: int, first: Offset) -> ClassPage:
    """Where a class has very many, it takes many of them."""
    index = _index(live)
    batches = index.find(number, first, at.end, PAGE) if index is not None else []
    size = 0
    for batch in batches:
        for run in batch.runs:
            low, high = max(run.first, at.start), min(run.last, at.end - 1)
            size += max(0, high - low + 1) - _overlap(at.taken, low, high)
    last = batches[-1].last if batches else at.end
    newest = at.newest[number] if at.newest else -1
    return ClassPage(size, Offset(last + 1), last >= min(newest, at.end - 1))


def _index(live: SharePartition) -> PriorityIndex | None:
    index = getattr(live.log.interceptor, "priorities", None)
    return index if isinstance(index, PriorityIndex) else None


def _overlap(taken: Sequence[tuple[int, int]], low: int, high: int) -> int:
    """How many of [low, high] are in runs that are in order and do not touch each other."""
    at = max(0, bisect_right(taken, (low, 0)) - 1)
    size = 0
    while at < len(taken) and taken[at][0] <= high:
        size += max(0, min(high, taken[at][1]) - max(low, taken[at][0]) + 1)
        at += 1
    return size


NOTHING = QueueStatistics()


def total(parts: Iterable[QueueStatistics]) -> QueueStatistics:
    found = [each for each in parts if each != NOTHING]  # most partitions of a large topic have nothing to count
    deliveries: Counter[int] = Counter()
    classes: Counter[int] = Counter()
    for each in found:
        deliveries.update(each.deliveries)
        classes.update(each.classes)
    return QueueStatistics(
        available=sum(each.available for each in found),
        in_flight=sum(each.in_flight for each in found),
        backing_off=sum(each.backing_off for each in found),
        archiving=sum(each.archiving for each in found),
        deliveries=dict(sorted(deliveries.items())),
        classes=dict(sorted(classes.items())),
    )
