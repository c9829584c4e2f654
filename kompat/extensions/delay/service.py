"""Looking at records that wait for their time, and changing when, or whether, they are delivered.

A record is known by its topic, partition and slot: the offset that its producer was told. What is answered is committed. A
partition's leader answers for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from kompat.clock import Clock
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay import pages
from kompat.extensions.delay import records as delayed
from kompat.extensions.delay.pages import DueTimeline, ScheduledPage
from kompat.extensions.delay.records import NEVER, DelayedRecord, Summary
from kompat.extensions.delay.requests import (
    CancelDelayed,
    DelayStatistics,
    DescribeDelays,
    DueTimes,
    FindDelayed,
    ListDelayed,
    ListDueTimes,
    Page,
    RescheduleDelayed,
    Scheduled,
)
from kompat.extensions.delay.timers import Timers
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.states import Draft
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.router import Router
from kompat.types import NO_PRODUCER, LogId, Millis, Offset

PAGE_BYTES: Final = 1 << 20
COUNTED_AT_ONCE: Final = 500  # before others get their turn
MOST_COUNTED: Final = 100_000  # records of a timeline
AT_ONCE: Final = 16  # partitions that are looked at at the same time
NOTHING: Final = DelayStatistics(waiting=0, undecided=0, size=0, next_due=None)
T = TypeVar("T")


class DelayService:
    def __init__(self, partitions: PartitionLookup, rpc: Router, logs: Logs, clock: Clock) -> None:
        self._partitions = partitions
        self._rpc = rpc
        self._logs = logs
        self._clock = clock
        rpc.serve(ListDelayed, self._list)
        rpc.serve(FindDelayed, self._find)
        rpc.serve(ListDueTimes, self._list_due_times)
        rpc.serve(CancelDelayed, self._cancel)
        rpc.serve(RescheduleDelayed, self._reschedule)
        rpc.serve(DescribeDelays, self._describe)

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
        marks = pages.marks_of(cursor, self._partitions.log_ids(topic, partitions))
        limit = max(1, limit)

        async def page(log_id: LogId) -> Page:
            request = ListDelayed(cursor=marks[log_id], limit=limit, since=since, until=until)
            return await self._rpc.call(log_id, request)

        found = dict(zip(marks, await _gathered(page, [*marks]), strict=True))
        return pages.merged(found, marks, limit)

    async def find(self, topic: str, partition: int, slot: Offset) -> Scheduled | None:
        return await self._rpc.call(self._partitions.log_id(topic, partition), FindDelayed(slot))

    async def timeline(self, topic: str, since: Millis, until: Millis, count: int) -> DueTimeline:
        """How many are due when, in buckets of equal length."""
        if until <= since or count < 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a timeline ends after it begins, and has a bucket")
        request = ListDueTimes(since, until, MOST_COUNTED)
        found = await _gathered(lambda log_id: self._rpc.call(log_id, request), self._partitions.log_ids(topic))
        return pages.timeline(found, since, until, count)

    async def statistics(self, topic: str | None = None) -> DelayStatistics:
        """Of one topic, or of all: as far as brokers can be reached that lead their partitions."""
        if topic is not None:
            self._partitions.topic(topic)
        found = await self._rpc.call_all(DescribeDelays(topic))
        return pages.total(each for topics in found for each in topics.values())

    async def topics(self) -> dict[str, DelayStatistics]:
        """Of every topic that something waits in: as far as brokers can be reached that lead its partitions."""
        found: dict[str, list[DelayStatistics]] = {}
        for topics in await self._rpc.call_all(DescribeDelays()):
            for topic, each in topics.items():
                found.setdefault(topic, []).append(each)
        return {topic: pages.total(parts) for topic, parts in found.items()}

    # -- changing --------------------------------------------------------------------------------------------------
    async def cancel(self, topic: str, partition: int, slot: Offset) -> Scheduled:
        """The record will not be delivered. RESOURCE_NOT_FOUND where it does not wait: perhaps it was delivered."""
        return await self._rpc.call(self._partitions.log_id(topic, partition), CancelDelayed(slot))

    async def reschedule(self, topic: str, partition: int, slot: Offset, due: Millis) -> Scheduled:
        """Deliver the record at another time; at once, if that has passed."""
        return await self._rpc.call(self._partitions.log_id(topic, partition), RescheduleDelayed(slot, due))

    # -- what the leader does --------------------------------------------------------------------------------------
    async def _list(self, partition: Partition, request: ListDelayed) -> Page:
        interceptor, cursor = _interceptor(partition), request.cursor
        first, end = _span(interceptor, request.since, request.until)
        start = first if cursor is None else max(first, cursor + b"\0")
        found = interceptor.view.range(start, end, request.limit, PAGE_BYTES) if start < end else []
        items = [
            _scheduled(interceptor, delayed.decode(delayed.timer_of(name)[1], value), is_undecided=False)
            for name, value in found
        ]
        more = found and interceptor.view.range(found[-1][0] + b"\0", end, 1)
        return Page(items, found[-1][0] if more else None)

    async def _find(self, partition: Partition, request: FindDelayed) -> Scheduled | None:
        return _find(_interceptor(partition), request.slot)

    async def _list_due_times(self, partition: Partition, request: ListDueTimes) -> DueTimes:
        interceptor = _interceptor(partition)
        start, end = _span(interceptor, request.since, request.until)
        found: list[Millis] = []
        while start < end and len(found) < request.limit:
            page = interceptor.view.range(start, end, min(COUNTED_AT_ONCE, request.limit - len(found)), PAGE_BYTES)
            found += [delayed.timer_of(name)[0] for name, _ in page]
            if not page:
                return DueTimes(found, is_all=True)
            start = page[-1][0] + b"\0"
            await asyncio.sleep(0)
        return DueTimes(found, is_all=start >= end)

    async def _describe(self, request: DescribeDelays) -> dict[str, DelayStatistics]:
        found: dict[str, DelayStatistics] = {}
        async for log in sliced(self._logs.all()):
            interceptor = log.interceptor
            if (
                not isinstance(interceptor, PartitionInterceptor) or not interceptor.is_used
            ):  # most: nothing has ever waited in them
                continue
            if log.is_led and request.topic in (None, log.topic):
                summary = interceptor.summary
                if summary.waiting or summary.undecided:
                    found[log.topic] = _added(found.get(log.topic, NOTHING), summary)
        return found

    async def _cancel(self, partition: Partition, request: CancelDelayed) -> Scheduled:
        interceptor = _interceptor(partition)
        cancelled: list[DelayedRecord] = []
        found = await _change(interceptor, request.slot, lambda _, record: cancelled.append(record))
        for each in cancelled:
            interceptor.traces.tracer.cancelled(interceptor.traces, each, "cancelled")
        return found

    async def _reschedule(self, partition: Partition, request: RescheduleDelayed) -> Scheduled:
        interceptor = _interceptor(partition)
        limit = partition.config.kompat_delay_max_ms
        now = self._clock.now()
        if request.due - now > limit:
            reason = f"{request.due} is more than kompat.delay.max.ms ({limit}) away"
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        due = max(request.due, now)

        def again(timers: Timers, record: DelayedRecord) -> None:
            timers.park(DelayedRecord(record.slot, due, record.codec, record.schedule_id, record.record))

        before = await _change(interceptor, request.slot, again)
        return _find(interceptor, request.slot) or replace(before, due=due)  # it may be delivered by now


async def _gathered(work: Callable[[LogId], Awaitable[T]], log_ids: Sequence[LogId]) -> list[T]:
    found: list[T] = []
    for start in range(0, len(log_ids), AT_ONCE):
        found += await asyncio.gather(*map(work, log_ids[start : start + AT_ONCE]))
    return found


def _interceptor(partition: Partition) -> PartitionInterceptor:
    if not isinstance(partition.interceptor, PartitionInterceptor):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {partition.topic} is the broker's own")
    return partition.interceptor


async def _change(
    interceptor: PartitionInterceptor, slot: Offset, change: Callable[[Timers, DelayedRecord], None]
) -> Scheduled:
    found = _find(interceptor, slot)
    timers = Timers(Draft(interceptor.view))
    removed = timers.remove(slot)
    if found is None or removed is None:
        await interceptor.view.newest_turn  # it may be on its way into the log
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"no record of slot {slot} waits")
    if found.is_undecided:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the transaction of the record at {slot} has not ended")
    change(timers, removed)
    await interceptor.partition.write_states(timers.writes())
    return found


def _span(interceptor: PartitionInterceptor, since: Millis | None, until: Millis | None) -> tuple[bytes, bytes]:
    """The names of what is due in [since, until)."""
    summary = interceptor.summary
    first = delayed.timer_name(summary.none_before, summary.from_slot)
    if since is not None:
        first = max(first, delayed.timer_name(max(since, Millis(0)), Offset(0)))
    end = delayed.AFTER_TIMERS if until is None else delayed.timer_name(max(until, Millis(0)), Offset(0))
    return first, end


def _added(before: DelayStatistics, more: Summary) -> DelayStatistics:
    next_due = more.none_before if before.next_due is None else min(before.next_due, more.none_before)
    return DelayStatistics(
        waiting=before.waiting + more.waiting,
        undecided=before.undecided + more.undecided,
        size=before.size + more.size,
        next_due=None if next_due == NEVER else next_due,
    )


def _find(interceptor: PartitionInterceptor, slot: Offset) -> Scheduled | None:
    place = interceptor.view.get(delayed.place_name(slot))
    if place is None:
        return None
    due, producer_id = delayed.decode_place(place)
    is_undecided = producer_id != NO_PRODUCER
    name = delayed.undecided_name(producer_id, slot) if is_undecided else delayed.timer_name(due, slot)
    value = interceptor.view.get(name)
    record = delayed.decode(slot, value) if value is not None else None
    if record is None or record.record is None:
        return None
    return _scheduled(interceptor, record, is_undecided=is_undecided)


def _scheduled(interceptor: PartitionInterceptor, found: DelayedRecord, *, is_undecided: bool) -> Scheduled:
    assert found.record is not None, found.slot  # noqa: S101 - only records wait
    return Scheduled(
        topic=interceptor.partition.topic,
        partition=interceptor.partition.index,
        slot=found.slot,
        due=found.due,
        schedule_id=found.schedule_id,
        record=found.record,
        is_undecided=is_undecided,
    )
