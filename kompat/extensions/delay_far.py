"""What waits for its time, in any partition of the cluster: whoever is asked has its leader look, or change it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import cursors, parked, record_text
from kompat.extensions.anywhere import Anywhere
from kompat.extensions.delay_service import DelayService, DelayStatistics, DueTimes, Page, Scheduled
from kompat.log.partition import Partition
from kompat.types import LogId, Millis, Offset

MOST_COUNTED: Final = 100_000  # records of a timeline
PAGE_BYTES: Final = 4 << 20  # of keys and values, unless it is a single record
AT_ONCE: Final = 16  # partitions that are asked at the same time
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScheduledPage:
    items: Sequence[Scheduled]
    cursor: str | None  # where to go on; None: there are no more


@dataclass(frozen=True, slots=True)
class Bucket:
    since: Millis
    until: Millis
    count: int


@dataclass(frozen=True, slots=True)
class DueTimeline:
    buckets: Sequence[Bucket]
    is_whole: bool  # False: there are more than were counted


class FarDelays:
    def __init__(self, here: DelayService, anywhere: Anywhere) -> None:
        self.here = here  # what this broker leads
        self._anywhere = anywhere
        for command, work in (
            ("delay-list", self._on_list),
            ("delay-find", self._on_find),
            ("delay-cancel", self._on_cancel),
            ("delay-reschedule", self._on_reschedule),
            ("delay-times", self._on_times),
            ("delay-statistics", self._on_statistics),
            ("delay-topics", self._on_topics),
        ):
            anywhere.serve(command, work)

    # -- looking ---------------------------------------------------------------------------------------------------
    async def list(
        self,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        since: Millis | None = None,
        until: Millis | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ScheduledPage:
        """What waits in a topic, or in some partitions of it, first what is due first."""
        places = self._places(topic, partitions)
        marks = _read_cursor(cursor, places) if cursor is not None else dict.fromkeys(places)
        limit = max(1, limit)

        async def page(place: LogId) -> Page:
            return await self._page(topic, place, marks[place], limit, since, until)

        pages = dict(zip(marks, await _gathered(page, [*marks]), strict=True))
        return _merged(pages, marks, limit)

    async def _page(
        self, topic: str, place: LogId, cursor: bytes | None, limit: int, since: Millis | None, until: Millis | None
    ) -> Page:
        if self._anywhere.led(place) is not None:
            return self.here.list(topic, place.partition, cursor=cursor, limit=limit, since=since, until=until)
        mark = None if cursor is None else cursor.hex()
        items, after = await self._ask(place, "delay-list", [mark, limit, since, until])
        return Page([_read(each) for each in items], None if after is None else bytes.fromhex(after))

    async def find(self, topic: str, partition: int, slot: Offset) -> Scheduled | None:
        place = self._anywhere.place(topic, partition)
        if self._anywhere.led(place) is not None:
            return self.here.find(topic, partition, slot)
        found = await self._ask(place, "delay-find", [slot])
        return None if found is None else _read(found)

    async def timeline(self, topic: str, since: Millis, until: Millis, count: int) -> DueTimeline:
        """How many are due when, in buckets of equal length."""
        if until <= since or count < 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a timeline ends after it begins, and has a bucket")

        async def times(place: LogId) -> DueTimes:
            if self._anywhere.led(place) is not None:
                return await self.here.due_times(topic, place.partition, since, until, MOST_COUNTED)
            return DueTimes(*await self._ask(place, "delay-times", [since, until]))

        found = await _gathered(times, self._places(topic, None))
        return _timeline(
            [time for each in found for time in each.times], since, until, count, all(f.is_all for f in found)
        )

    async def statistics(self, topic: str | None = None) -> DelayStatistics:
        """Of one topic, or of all: as far as brokers can be reached that lead their partitions."""
        if topic is not None:
            self._anywhere.topic(topic)
        here = self.here.statistics(topic)
        others = await self._anywhere.ask_others("delay-statistics", [topic])
        return _total([here, *(DelayStatistics(**told) for told in others)])

    async def topics(self) -> dict[str, DelayStatistics]:
        """Of every topic that something waits in: as far as brokers can be reached that lead its partitions."""
        found: dict[str, list[DelayStatistics]] = {topic: [each] for topic, each in self.here.topics().items()}
        for told in await self._anywhere.ask_others("delay-topics", []):
            for topic, each in told.items():
                found.setdefault(topic, []).append(DelayStatistics(**each))
        return {topic: _total(parts) for topic, parts in found.items()}

    # -- changing --------------------------------------------------------------------------------------------------
    async def cancel(self, topic: str, partition: int, slot: Offset) -> Scheduled:
        """The record will not be delivered. RESOURCE_NOT_FOUND where it does not wait: perhaps it was delivered."""
        place = self._anywhere.place(topic, partition)
        if self._anywhere.led(place) is not None:
            return await self.here.cancel(topic, partition, slot)
        return _read(await self._ask(place, "delay-cancel", [slot]))

    async def reschedule(self, topic: str, partition: int, slot: Offset, due: Millis) -> Scheduled:
        """Deliver the record at another time; at once, if that has passed."""
        place = self._anywhere.place(topic, partition)
        if self._anywhere.led(place) is not None:
            return await self.here.reschedule(topic, partition, slot, due)
        return _read(await self._ask(place, "delay-reschedule", [slot, due]))

    # -- for other brokers -----------------------------------------------------------------------------------------
    async def _on_list(self, told: Sequence[Any]) -> Sequence[Any]:
        log, (cursor, limit, since, until) = self._ours(told)
        mark = None if cursor is None else bytes.fromhex(cursor)
        page = self.here.list(log.topic, log.index, cursor=mark, limit=limit, since=since, until=until)
        return [[_told(each) for each in page.items], None if page.cursor is None else page.cursor.hex()]

    async def _on_find(self, told: Sequence[Any]) -> Sequence[Any] | None:
        log, (slot,) = self._ours(told)
        found = self.here.find(log.topic, log.index, slot)
        return None if found is None else _told(found)

    async def _on_cancel(self, told: Sequence[Any]) -> Sequence[Any]:
        log, (slot,) = self._ours(told)
        return _told(await self.here.cancel(log.topic, log.index, slot))

    async def _on_reschedule(self, told: Sequence[Any]) -> Sequence[Any]:
        log, (slot, due) = self._ours(told)
        return _told(await self.here.reschedule(log.topic, log.index, slot, due))

    async def _on_times(self, told: Sequence[Any]) -> Sequence[Any]:
        log, (since, until) = self._ours(told)
        return await self.here.due_times(log.topic, log.index, since, until, MOST_COUNTED)

    async def _on_statistics(self, told: Sequence[Any]) -> dict[str, Any]:
        return _figures(self.here.statistics(told[0]))

    async def _on_topics(self, _: Sequence[Any]) -> dict[str, Any]:
        return {topic: _figures(each) for topic, each in self.here.topics().items()}

    def _ours(self, told: Sequence[Any]) -> tuple[Partition, Sequence[Any]]:
        return self._anywhere.required(told), told[2:]

    # -- finding ---------------------------------------------------------------------------------------------------
    def _places(self, topic: str, partitions: Sequence[int] | None) -> Sequence[LogId]:
        if partitions is None:
            return self._anywhere.places(topic)
        return [self._anywhere.place(topic, partition) for partition in partitions]

    async def _ask(self, place: LogId, command: str, arguments: Sequence[Any]) -> Any:
        return await self._anywhere.ask(place, command, [place.topic_id.hex, place.partition, *arguments])


async def _gathered(work: Callable[[LogId], Awaitable[T]], places: Sequence[LogId]) -> list[T]:
    found: list[T] = []
    for start in range(0, len(places), AT_ONCE):
        found += await asyncio.gather(*map(work, places[start : start + AT_ONCE]))
    return found


def _merged(pages: Mapping[LogId, Page], marks: dict[LogId, bytes | None], limit: int) -> ScheduledPage:
    """The first of all, as far as it is known what comes first: after a page that goes on, others may come first."""
    queues = {place: list(reversed(page.items)) for place, page in pages.items()}
    left = {place for place, page in pages.items() if page.items}
    found: list[Scheduled] = []
    size = 0
    while left and len(found) < limit and size < PAGE_BYTES:
        place = min(left, key=lambda each: (queues[each][-1].due, each.partition))
        item = queues[place].pop()
        found.append(item)
        size += len(item.record.key or b"") + len(item.record.value or b"")
        marks[place] = parked.timer_name(item.due, item.slot)
        if not queues[place]:
            left.discard(place)
            if pages[place].cursor is not None:
                break
    going_on = {place: marks[place] for place, page in pages.items() if queues[place] or page.cursor is not None}
    return ScheduledPage(found, _cursor(going_on) if going_on else None)


def _timeline(times: Sequence[Millis], since: Millis, until: Millis, count: int, is_whole: bool) -> DueTimeline:
    edges = [Millis(since + (until - since) * number // count) for number in range(count + 1)]
    counts = [0] * count
    for time in times:
        counts[min((time - since) * count // (until - since), count - 1)] += 1
    return DueTimeline([Bucket(*each) for each in zip(edges, edges[1:], counts, strict=False)], is_whole)


def _total(parts: Sequence[DelayStatistics]) -> DelayStatistics:
    return DelayStatistics(
        waiting=sum(each.waiting for each in parts),
        undecided=sum(each.undecided for each in parts),
        size=sum(each.size for each in parts),
        next_due=min((each.next_due for each in parts if each.next_due is not None), default=None),
    )


def _figures(of: DelayStatistics) -> dict[str, Any]:
    return {name: getattr(of, name) for name in DelayStatistics.__slots__}


# -- as text -----------------------------------------------------------------------------------------------------------
def _told(each: Scheduled) -> list[Any]:
    return [
        *(each.topic, each.partition, each.slot, each.due, each.schedule_id),
        record_text.told(each.record),
        each.is_undecided,
    ]


def _read(told: Sequence[Any]) -> Scheduled:
    topic, partition, slot, due, schedule_id, record, is_undecided = told
    return Scheduled(
        topic=topic,
        partition=partition,
        slot=slot,
        due=due,
        schedule_id=schedule_id,
        record=record_text.read(record),
        is_undecided=is_undecided,
    )


def _cursor(marks: Mapping[LogId, bytes | None]) -> str:
    rows = []
    for place, mark in marks.items():
        due, slot = (0, 0) if mark is None else parked.timer_of(mark)
        rows.append([place.partition, mark is not None, due, slot])
    return cursors.encode([[int(each) for each in row] for row in rows])


def _read_cursor(cursor: str, places: Sequence[LogId]) -> dict[LogId, bytes | None]:
    known = {place.partition: place for place in places}
    rows = cursors.decode(cursor, 4)
    if not {row[0] for row in rows} <= known.keys():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this list")
    return {
        known[partition]: parked.timer_name(Millis(due), Offset(slot)) if has_mark else None
        for partition, has_mark, due, slot in rows
    }
