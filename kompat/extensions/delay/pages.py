"""Merges the delayed records of several partitions into one list, timeline or sum. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay import records as delayed
from kompat.extensions.delay.requests import DelayStatistics, DueTimes, Page, Scheduled
from kompat.extensions.reads import cursors
from kompat.types import LogId, Millis, Offset

PAGE_BYTES: Final = 4 << 20  # of keys and values, unless it is a single record


@dataclass(frozen=True, slots=True)
class ScheduledPage:
    items: Sequence[Scheduled]
    cursor: str | None  # where to continue; None: there are no more


@dataclass(frozen=True, slots=True)
class Bucket:
    since: Millis
    until: Millis
    count: int


@dataclass(frozen=True, slots=True)
class DueTimeline:
    buckets: Sequence[Bucket]
    is_whole: bool  # False: there are more than were counted


def merged(pages: Mapping[LogId, Page], marks: dict[LogId, bytes | None], limit: int) -> ScheduledPage:
    """The first of all, as far as their order is known: after an incomplete page, others may come first."""
    queues = {log_id: list(reversed(page.items)) for log_id, page in pages.items()}
    left = {log_id for log_id, page in pages.items() if page.items}
    found: list[Scheduled] = []
    size = 0
    while left and len(found) < limit and size < PAGE_BYTES:
        log_id = min(left, key=lambda each: (queues[each][-1].due, each.partition))
        item = queues[log_id].pop()
        found.append(item)
        size += len(item.record.key or b"") + len(item.record.value or b"")
        marks[log_id] = delayed.timer_name(item.due, item.slot)
        if not queues[log_id]:
            left.discard(log_id)
            if pages[log_id].cursor is not None:
                break
    going_on = {log_id: marks[log_id] for log_id, page in pages.items() if queues[log_id] or page.cursor is not None}
    return ScheduledPage(found, _cursor(going_on) if going_on else None)


def timeline(parts: Sequence[DueTimes], since: Millis, until: Millis, count: int) -> DueTimeline:
    edges = [Millis(since + (until - since) * number // count) for number in range(count + 1)]
    counts = [0] * count
    for part in parts:
        for time in part.times:
            counts[min((time - since) * count // (until - since), count - 1)] += 1
    buckets = [Bucket(*each) for each in zip(edges, edges[1:], counts, strict=False)]
    return DueTimeline(buckets, all(part.is_all for part in parts))


def total(parts: Iterable[DelayStatistics]) -> DelayStatistics:
    found = list(parts)
    return DelayStatistics(
        waiting=sum(each.waiting for each in found),
        undecided=sum(each.undecided for each in found),
        size=sum(each.size for each in found),
        next_due=min((each.next_due for each in found if each.next_due is not None), default=None),
    )


def _cursor(marks: Mapping[LogId, bytes | None]) -> str:
    rows = []
    for log_id, mark in marks.items():
        due, slot = (0, 0) if mark is None else delayed.timer_of(mark)
        rows.append([log_id.partition, int(mark is not None), int(due), int(slot)])
    return cursors.encode(rows)


def marks_of(cursor: str | None, log_ids: Sequence[LogId]) -> dict[LogId, bytes | None]:
    """Where to continue in each partition; None: at its beginning. Those that have no more are left out."""
    if cursor is None:
        return dict.fromkeys(log_ids)
    known = {log_id.partition: log_id for log_id in log_ids}
    rows = cursors.decode(cursor, 4)
    if not {row[0] for row in rows} <= known.keys():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this list")
    return {
        known[partition]: delayed.timer_name(Millis(due), Offset(slot)) if has_mark else None
        for partition, has_mark, due, slot in rows
    }
