"""Delivers parked records when they are due: one append to the log, which takes them out of their waiting in the same write.

There is one timer for all partitions. It ends when the first of their records may be due; then each partition that has
such records delivers some, and the next when those are committed, so that others get their turns. A record that was
delivered is gone from the waiting ones in the same write, so a crash leaves it either there or in the log. On a topic with lanes
it goes to its lane instead. Of several brokers, the one that leads the partition delivers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count

from kompat.clock import Clock
from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.extensions import headers
from kompat.extensions.headers import HeaderError
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.parked import NEVER, Parked
from kompat.extensions.priority import Ranks
from kompat.extensions.states import Draft
from kompat.extensions.timers import Timers
from kompat.log.commit import Pending
from kompat.log.intake import StateWrite
from kompat.log.packing import batch_limit, codec_for
from kompat.log.partition import Origin
from kompat.protocol.records import Compression, Record, build_batch
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 500  # records that one append delivers
TURN_SECONDS = 0.005  # others get their turn after so much work
LONGEST_SLEEP = 1.0  # seconds: should somebody set the clock, it is noticed
VOID_TOLERATED = 64  # places in the queue
RETRY_MS = 1000  # after the disk has refused


class Firing:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: list[tuple[Millis, int, PartitionIntake]] = []  # by time; those not in `_armed` are void
        self._armed: dict[PartitionIntake, Millis] = {}
        self._under_way: set[PartitionIntake] = set()
        self._failing: set[PartitionIntake] = set()
        self._order = count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._wakes_at = NEVER
        self.fired = 0  # records, since the start

    def start(self) -> None:
        """Until then, what is due waits."""
        self._loop = asyncio.get_running_loop()
        self._set_timer()

    def close(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()

    # -- who is next -----------------------------------------------------------------------------------------------
    def changed(self, intake: PartitionIntake) -> None:
        """Other records of the partition may be the next that are due, or this broker leads it, or does no more."""
        if intake in self._under_way:
            return
        if not intake.partition.is_led:
            self.dropped(intake)
            return
        try:
            due = intake.summary.none_before
        except KafkaError as error:
            self._put_off(intake, str(error))
        else:
            self._arm(intake, due)

    def dropped(self, intake: PartitionIntake) -> None:
        self._armed.pop(intake, None)
        self._failing.discard(intake)

    def _arm(self, intake: PartitionIntake, due: Millis) -> None:
        if self._armed.get(intake, NEVER) == due:
            return
        if due == NEVER:
            del self._armed[intake]
            return
        self._armed[intake] = due
        heappush(self._queue, (due, next(self._order), intake))
        if len(self._queue) > VOID_TOLERATED + 2 * len(self._armed):
            self._queue = [(at, next(self._order), each) for each, at in self._armed.items()]
            heapify(self._queue)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._loop is None:
            return
        while self._queue and self._armed.get(self._queue[0][2]) != self._queue[0][0]:
            heappop(self._queue)
        due = self._queue[0][0] if self._queue else NEVER
        if self._timer is not None:
            if self._wakes_at <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due != NEVER:
            self._wakes_at = due
            sleep = (due - self._clock.now()) / 1000
            self._timer = self._loop.call_later(min(max(sleep, 0), LONGEST_SLEEP), self.wake)

    # -- delivering ------------------------------------------------------------------------------------------------
    def wake(self) -> None:
        """Deliver what is due, some of it in each partition."""
        self._timer = None
        pause = self._clock.monotonic() + TURN_SECONDS
        now = self._clock.now()
        while self._queue and self._queue[0][0] <= now and self._clock.monotonic() < pause:
            due, _, intake = heappop(self._queue)
            if self._armed.get(intake) == due:
                del self._armed[intake]
                self.fire(intake, now)
        self._set_timer()

    def fire(self, intake: PartitionIntake, now: Millis) -> None:
        """Deliver some of what is due in a partition; the rest follows when that is committed."""
        if not intake.partition.is_led:
            return  # nor was it when it was opened; whoever leads it knows of the same records
        self._under_way.add(intake)
        try:
            pending = self._append(intake, now)
        except Exception as error:  # noqa: BLE001 - what is wrong with one partition must not stop the others
            self._under_way.discard(intake)
            self._put_off(intake, f"{type(error).__name__}: {error}")
        else:
            pending.add_done_callback(lambda done: self._ended(intake, done))

    def _append(self, intake: PartitionIntake, now: Millis) -> Pending:
        draft = Draft(intake.view)
        timers = Timers(draft)
        due = timers.take_due(now, AT_ONCE, batch_limit(intake.partition.config))
        if not intake.lanes.is_on:
            _rank(due, intake.partition.log_end_offset, now, draft)
        writes = timers.writes()
        if not due:  # what was to be the first has been cancelled, or put off
            return intake.partition.write_states(writes) if writes else Pending.done()
        if intake.lanes.is_on:
            self.fired += len(due)
            return intake.partition.write_states([*writes, *_enter_lanes(intake, due, now)])
        batch = _batch(due, intake.partition.config, now)
        appended = intake.partition.append(memoryview(batch), origin=Origin.INTERNAL, writes=writes)
        self.fired += len(due)
        intake.traces.tracer.fired(intake.traces, due, appended)
        return appended.pending

    def _ended(self, intake: PartitionIntake, done: Pending) -> None:
        self._under_way.discard(intake)
        if done.error is not None:
            self._put_off(intake, str(done.error))
        else:
            self._failing.discard(intake)
            self.changed(intake)

    def _put_off(self, intake: PartitionIntake, reason: str) -> None:
        if intake.partition.is_dropped or not intake.partition.is_led:
            return
        if intake not in self._failing:  # told once, not with every attempt
            self._failing.add(intake)
            logger.error("%s cannot deliver what is due, and goes on trying: %s", intake.partition, reason)
        self._arm(intake, Millis(self._clock.now() + RETRY_MS))


def _batch(due: Sequence[Parked], config: TopicConfig, now: Millis) -> bytearray:
    return build_batch(_delivered(due, config, now), compression=_codec(due, config))


def _codec(due: Sequence[Parked], config: TopicConfig) -> Compression:
    return codec_for(config, ((each.codec, each.plain_size) for each in due))


def _rank(due: Sequence[Parked], base_offset: Offset, now: Millis, draft: Draft) -> None:
    """The classes and times to live of what is delivered: they count from now on."""
    ranks = Ranks()
    for offset, parked in enumerate(due, base_offset):
        with suppress(HeaderError):  # what waits was taken under other rules
            asked = headers.parse(parked.record.headers) if parked.record is not None else None
            if asked is not None:
                ranks.add(Offset(offset), asked, now)
    ranks.write(draft, now)


def _enter_lanes(intake: PartitionIntake, due: Sequence[Parked], now: Millis) -> list[StateWrite]:
    config = intake.partition.config
    return intake.lanes.enter(_delivered(due, config, now), _codec(due, config), now)


def _delivered(due: Sequence[Parked], config: TopicConfig, now: Millis) -> list[Record]:
    """As they were sent, at their due times: were it the original ones, retention might take them at once.

    For the same reason those that are long overdue, because the broker was down or their transaction open, come at the present time.
    """
    oldest = now - config.retention_ms // 2 if config.delete and config.retention_ms >= 0 else None
    return [
        _dressed(each, place, now if oldest is not None and each.due < oldest else each.due)
        for place, each in enumerate(due)
    ]


def _dressed(parked: Parked, place: int, timestamp: Millis) -> Record:
    record = parked.record
    assert record is not None, parked.slot  # noqa: S101 - only records wait
    added = (
        (headers.ORIGINAL_OFFSET, str(parked.slot).encode()),
        (headers.ORIGINAL_TIMESTAMP, str(record.timestamp).encode()),
    )
    return Record(place, timestamp, record.key, record.value, (*record.headers, *added))
