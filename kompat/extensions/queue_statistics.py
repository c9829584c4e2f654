"""How deep a queue is."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kompat.extensions.priority_index import PriorityIndex
from kompat.share.live import LivePartition
from kompat.share.machine.classes import DEFAULT_CLASS, MOST_PAGES, PAGE
from kompat.share.machine.messages import RecordState
from kompat.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Of a group on a topic. Offsets are counted: what the log has no record for counts as available until it is come to."""

    available: int = 0  # can be acquired now, or has never been looked at
    in_flight: int = 0
    backing_off: int = 0  # released, and not to be had yet
    being_buried: int = 0  # given up; the dead letters are being written
    deliveries: dict[int, int] = field(default_factory=dict)  # how many that are not done with were delivered how often
    classes: dict[int, int] = field(default_factory=dict)  # of those that nobody holds, how many are how urgent


def count(live: LivePartition) -> QueueStatistics:
    """Of one partition."""
    states: Counter[RecordState | None] = Counter()
    deliveries: Counter[int] = Counter()
    backing_off = tracked = 0
    taken: list[tuple[int, int]] = []  # held, or done with
    for run in live.machine.runs():
        tracked += run.size
        if run.state is not RecordState.AVAILABLE:
            taken.append((run.first, run.last))
        states[run.state] += run.size
        if run.state in (RecordState.ACQUIRED, RecordState.AVAILABLE):
            deliveries[run.deliveries] += run.size
        if run.state is RecordState.AVAILABLE and run.until > live.now():
            backing_off += run.size
    states[None] = max(0, live.log.high_watermark - live.machine.start_offset - tracked)
    return QueueStatistics(
        available=states[None] + states[RecordState.AVAILABLE] - backing_off,
        in_flight=states[RecordState.ACQUIRED],
        backing_off=backing_off,
        being_buried=states[RecordState.ARCHIVING],
        deliveries=dict(sorted(deliveries.items())),
        classes=_classes(live, taken, states[None] + states[RecordState.AVAILABLE]),
    )


def _classes(live: LivePartition, taken: Sequence[tuple[int, int]], free: int) -> dict[int, int]:
    """Most records are of the default class: they are what is left."""
    found: dict[int, int] = {}
    index = getattr(live.log.intake, "priorities", None)
    newest = index.newest() if isinstance(index, PriorityIndex) else None
    if isinstance(index, PriorityIndex) and newest is not None:
        for number, last in enumerate(newest):
            if number != DEFAULT_CLASS and last >= live.machine.start_offset:
                found[number] = _free_of(index, number, live, taken)
    found[DEFAULT_CLASS] = max(0, free - sum(found.values()))
    return {number: size for number, size in sorted(found.items()) if size}


def _free_of(index: PriorityIndex, number: int, live: LivePartition, taken: Sequence[tuple[int, int]]) -> int:
    """Of one class; where there are very many, those that come first."""
    first, end, size = live.machine.start_offset, live.log.high_watermark, 0
    for _ in range(MOST_PAGES):
        batches = index.find(number, first, end, PAGE)
        for batch in batches:
            for run in batch.runs:
                low, high = max(run.first, live.machine.start_offset), min(run.last, end - 1)
                size += max(0, high - low + 1) - _overlap(taken, low, high)
        if not batches:
            break
        first = Offset(batches[-1].last + 1)
    return size


def _overlap(taken: Sequence[tuple[int, int]], low: int, high: int) -> int:
    """How many of [low, high] are in runs that are in order and do not touch each other."""
    at = max(0, bisect_right(taken, (low, 0)) - 1)
    size = 0
    while at < len(taken) and taken[at][0] <= high:
        size += max(0, min(high, taken[at][1]) - max(low, taken[at][0]) + 1)
        at += 1
    return size


def total(parts: Iterable[QueueStatistics]) -> QueueStatistics:
    found = list(parts)
    deliveries: Counter[int] = Counter()
    classes: Counter[int] = Counter()
    for each in found:
        deliveries.update(each.deliveries)
        classes.update(each.classes)
    return QueueStatistics(
        available=sum(each.available for each in found),
        in_flight=sum(each.in_flight for each in found),
        backing_off=sum(each.backing_off for each in found),
        being_buried=sum(each.being_buried for each in found),
        deliveries=dict(sorted(deliveries.items())),
        classes=dict(sorted(classes.items())),
    )


# -- as text -----------------------------------------------------------------------------------------------------------
def told(of: QueueStatistics) -> list[Any]:
    return [
        of.available,
        of.in_flight,
        of.backing_off,
        of.being_buried,
        list(of.deliveries.items()),
        list(of.classes.items()),
    ]


def read(told: Sequence[Any]) -> QueueStatistics:
    available, in_flight, backing_off, being_buried, deliveries, classes = told
    return QueueStatistics(
        available=available,
        in_flight=in_flight,
        backing_off=backing_off,
        being_buried=being_buried,
        deliveries=dict(deliveries),
        classes=dict(classes),
    )
