"""Looking at records that wait for their time, and changing when, or whether, they are delivered.

A record is known by its topic, partition and slot: the offset that its producer was told. What is answered is
committed. In a cluster a partition's leader answers for it; `delay_far.py` asks it, wherever it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kompat.clock import Clock
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import parked
from kompat.extensions.firing import Firing
from kompat.extensions.headers import DELIVER_AT, SCHEDULE_ID
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.parked import NEVER, Parked
from kompat.extensions.states import Draft
from kompat.extensions.timers import Timers
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.protocol.records import Record, build_batch
from kompat.types import NO_PRODUCER, Millis, Offset

PAGE_BYTES = 1 << 20
COUNTED_AT_ONCE = 500  # before others get their turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A record that waits."""

    topic: str
    partition: int
    slot: Offset
    due: Millis
    schedule_id: str | None
    record: Record  # as it was sent, at its slot
    is_undecided: bool  # part of a transaction that has not ended: it is not delivered before


@dataclass(frozen=True, slots=True)
class Page:
    items: Sequence[Scheduled]
    cursor: bytes | None  # where to go on; None: there are no more


class DueTimes(NamedTuple):
    times: Sequence[Millis]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayStatistics:
    waiting: int
    undecided: int  # in transactions that have not ended
    size: int  # in bytes, of both
    next_due: Millis | None


class DelayService:
    def __init__(self, logs: Logs, firing: Firing, clock: Clock) -> None:
        self._logs = logs
        self._firing = firing
        self._clock = clock

    # -- looking ---------------------------------------------------------------------------------------------------
    def list(
        self,
        topic: str,
        partition: int,
        *,
        cursor: bytes | None = None,
        limit: int = 100,
        since: Millis | None = None,
        until: Millis | None = None,
    ) -> Page:
        """What waits in a partition, first what is due first: all, or what is due in [since, until)."""
        intake = self._intake(topic, partition)
        if cursor is not None and not cursor.startswith(parked.TIMER):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this list")
        first, end = _span(intake, since, until)
        start = first if cursor is None else max(first, cursor + b"\0")
        found = intake.view.range(start, end, max(1, limit), PAGE_BYTES) if start < end else []
        items = [
            _scheduled(intake, parked.decode(parked.timer_of(name)[1], value), is_undecided=False)
            for name, value in found
        ]
        more = found and intake.view.range(found[-1][0] + b"\0", end, 1)
        return Page(items, found[-1][0] if more else None)

    async def due_times(self, topic: str, partition: int, since: Millis, until: Millis, most: int) -> DueTimes:
        """When records of a partition are due in [since, until); no more of them than `most`."""
        intake = self._intake(topic, partition)
        start, end = _span(intake, since, until)
        found: list[Millis] = []
        while start < end and len(found) < most:
            page = intake.view.range(start, end, min(COUNTED_AT_ONCE, most - len(found)), PAGE_BYTES)
            found += [parked.timer_of(name)[0] for name, _ in page]
            if not page:
                return DueTimes(found, is_all=True)
            start = page[-1][0] + b"\0"
            await asyncio.sleep(0)
        return DueTimes(found, is_all=start >= end)

    def find(self, topic: str, partition: int, slot: Offset) -> Scheduled | None:
        return _find(self._intake(topic, partition), slot)

    def find_by_schedule_id(self, topic: str, partition: int, schedule_id: str) -> Scheduled | None:
        intake = self._intake(topic, partition)
        slot = Timers(Draft(intake.view)).slot_of(schedule_id)
        return None if slot is None else _find(intake, slot)

    def statistics(self, topic: str | None = None) -> DelayStatistics:
        """Of one topic, or of all, as far as this broker leads their partitions."""
        return _count(intake for intake in self._intakes() if topic in (None, intake.partition.topic))

    def topics(self) -> dict[str, DelayStatistics]:
        """Of every topic that something waits in, as far as this broker leads its partitions."""
        by_topic: dict[str, list[PartitionIntake]] = {}
        for intake in self._intakes():
            if intake.summary.waiting or intake.summary.undecided:
                by_topic.setdefault(intake.partition.topic, []).append(intake)
        return {topic: _count(intakes) for topic, intakes in by_topic.items()}

    @property
    def fired(self) -> int:
        """Records delivered since the broker started."""
        return self._firing.fired

    # -- changing --------------------------------------------------------------------------------------------------
    async def cancel(self, topic: str, partition: int, slot: Offset) -> Scheduled:
        """The record will not be delivered. RESOURCE_NOT_FOUND where it does not wait: perhaps it was delivered."""
        intake = self._intake(topic, partition)
        cancelled: list[Parked] = []
        found = await self._change(topic, partition, slot, lambda _, record: cancelled.append(record))
        for each in cancelled:
            intake.traces.tracer.cancelled(intake.traces, each, "cancelled")
        return found

    async def reschedule(self, topic: str, partition: int, slot: Offset, due: Millis) -> Scheduled:
        """Deliver the record at another time; at once, if that has passed."""
        intake = self._intake(topic, partition)
        limit = intake.partition.config.kompat_delay_max_ms
        now = self._clock.now()
        if due - now > limit:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{due} is more than kompat.delay.max.ms ({limit}) away")
        due = max(due, now)

        def again(timers: Timers, record: Parked) -> None:
            timers.park(Parked(record.slot, due, record.codec, record.schedule_id, record.record))

        before = await self._change(topic, partition, slot, again)
        return _find(intake, slot) or replace(before, due=due)  # what was due at once may be delivered by now

    async def schedule(
        self, topic: str, partition: int, record: Record, due: Millis, *, schedule_id: str | None = None
    ) -> Offset:
        """Let a record wait, in the place of the one that waits under its schedule id: its slot."""
        log = self._partition(topic, partition)
        added = [(DELIVER_AT, str(due).encode())]
        if schedule_id is not None:
            added.append((SCHEDULE_ID, schedule_id.encode()))
        sent = Record(0, record.timestamp, record.key, record.value, (*record.headers, *added))
        appended = log.append(memoryview(build_batch([sent])))
        await appended.pending.wait()
        return appended.base_offset

    async def _change(
        self, topic: str, partition: int, slot: Offset, change: Callable[[Timers, Parked], None]
    ) -> Scheduled:
        intake = self._intake(topic, partition)
        found = _find(intake, slot)
        timers = Timers(Draft(intake.view))
        removed = timers.remove(slot)
        if found is None or removed is None:
            await intake.view.newest_turn.wait()  # it may be on its way into the log
            raise _not_found(slot)
        if found.is_undecided:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the transaction of the record at {slot} has not ended")
        change(timers, removed)
        await intake.partition.write_states(timers.writes()).wait()
        return found

    # -- finding ---------------------------------------------------------------------------------------------------
    def _partition(self, topic: str, partition: int) -> Partition:
        found = self._logs.find(topic, partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not found.is_led:
            reason = f"another broker leads partition {partition} of {topic}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        return found

    def _intake(self, topic: str, partition: int) -> PartitionIntake:
        intake = self._partition(topic, partition).intake
        if not isinstance(intake, PartitionIntake):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic} is the broker's own")
        return intake

    def _intakes(self) -> Iterator[PartitionIntake]:
        return (log.intake for log in self._logs.all() if log.is_led and isinstance(log.intake, PartitionIntake))


def _span(intake: PartitionIntake, since: Millis | None, until: Millis | None) -> tuple[bytes, bytes]:
    """The names of what is due in [since, until)."""
    summary = intake.summary
    first = parked.timer_name(summary.none_before, summary.from_slot)
    if since is not None:
        first = max(first, parked.timer_name(max(since, Millis(0)), Offset(0)))
    end = parked.AFTER_TIMERS if until is None else parked.timer_name(max(until, Millis(0)), Offset(0))
    return first, end


def _count(intakes: Iterable[PartitionIntake]) -> DelayStatistics:
    found = [intake.summary for intake in intakes]
    next_due = min((summary.none_before for summary in found), default=NEVER)
    return DelayStatistics(
        waiting=sum(summary.waiting for summary in found),
        undecided=sum(summary.undecided for summary in found),
        size=sum(summary.size for summary in found),
        next_due=None if next_due == NEVER else next_due,
    )


def _find(intake: PartitionIntake, slot: Offset) -> Scheduled | None:
    place = intake.view.get(parked.place_name(slot))
    if place is None:
        return None
    due, producer_id = parked.decode_place(place)
    is_undecided = producer_id != NO_PRODUCER
    name = parked.undecided_name(producer_id, slot) if is_undecided else parked.timer_name(due, slot)
    value = intake.view.get(name)
    record = parked.decode(slot, value) if value is not None else None
    if record is None or record.record is None:
        return None
    return _scheduled(intake, record, is_undecided=is_undecided)


def _scheduled(intake: PartitionIntake, found: Parked, *, is_undecided: bool) -> Scheduled:
    assert found.record is not None, found.slot  # noqa: S101 - only records wait
    return Scheduled(
        topic=intake.partition.topic,
        partition=intake.partition.index,
        slot=found.slot,
        due=found.due,
        schedule_id=found.schedule_id,
        record=found.record,
        is_undecided=is_undecided,
    )


def _not_found(slot: Offset) -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"no record of slot {slot} waits")
