"""Delivers delayed records when they are due: one append to the log, which removes the parked records in the same write.

There is one timer for all partitions. It is set to the time when the first record may be due; then each partition with
due records delivers some, and the next ones when those are committed, so that other partitions get their turn. A record is
delivered and removed in the same write, so after a crash it is either parked or in the log. On a topic with lanes it is
moved to its lane instead. In a cluster, the leader of the partition delivers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.extensions import headers
from kompat.extensions.delay.records import NEVER, DelayedRecord
from kompat.extensions.delay.timers import Timers
from kompat.extensions.headers import HeaderError
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.priority.headers import Ranks
from kompat.extensions.states import Draft
from kompat.log.interceptor import StateWrite
from kompat.log.packing import batch_limit, codec_for
from kompat.log.partition import Origin
from kompat.protocol.records import Compression, Record, build_batch
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 500  # records that one append delivers
TURN_SECONDS = 0.005  # other tasks get their turn after so much work
LONGEST_SLEEP = 1.0  # seconds: then a clock that was set is noticed
VOID_TOLERATED = 64  # places in the queue
RETRY_MS = 1000  # after a disk error


class DelayScheduler:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: list[tuple[Millis, int, PartitionInterceptor]] = []  # by time; those not in `_armed` are void
        self._armed: dict[PartitionInterceptor, Millis] = {}
        self._under_way: set[PartitionInterceptor] = set()
        self._failing: set[PartitionInterceptor] = set()
        self._order = count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._wakes_at = NEVER
        self.fired = 0  # records, since the start

    def start(self) -> None:
        """Until then, due records wait."""
        self._loop = asyncio.get_running_loop()
        self._set_timer()

    def close(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()

    # -- who is next -----------------------------------------------------------------------------------------------
    def changed(self, interceptor: PartitionInterceptor) -> None:
        """Other records of the partition may be the next that are due, or this broker leads it, or does no more."""
        if interceptor in self._under_way:
            return
        if not interceptor.partition.is_led:
            self.dropped(interceptor)
            return
        try:
            due = interceptor.summary.none_before
        except KafkaError as error:
            self._put_off(interceptor, str(error))
        else:
            self._arm(interceptor, due)

    def dropped(self, interceptor: PartitionInterceptor) -> None:
        self._armed.pop(interceptor, None)
        self._failing.discard(interceptor)

    def _arm(self, interceptor: PartitionInterceptor, due: Millis) -> None:
        if self._armed.get(interceptor, NEVER) == due:
            return
        if due == NEVER:
            del self._armed[interceptor]
            return
        self._armed[interceptor] = due
        heappush(self._queue, (due, next(self._order), interceptor))
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
        """Deliver due records, some in each partition."""
        self._timer = None
        pause = self._clock.monotonic() + TURN_SECONDS
        now = self._clock.now()
        while self._queue and self._queue[0][0] <= now and self._clock.monotonic() < pause:
            due, _, interceptor = heappop(self._queue)
            if self._armed.get(interceptor) == due:
                del self._armed[interceptor]
                self.fire(interceptor, now)
        self._set_timer()

    def fire(self, interceptor: PartitionInterceptor, now: Millis) -> None:
        """Deliver some of what is due in a partition; the rest follows when that is committed."""
        if not interceptor.partition.is_led:
            return  # its leader has the same records, and delivers them
        self._under_way.add(interceptor)
        try:
            pending = self._append(interceptor, now)
        except Exception as error:  # noqa: BLE001 - what is wrong with one partition must not stop the others
            self._under_way.discard(interceptor)
            self._put_off(interceptor, f"{type(error).__name__}: {error}")
        else:
            pending.add_done_callback(lambda done: self._ended(interceptor, done))

    def _append(self, interceptor: PartitionInterceptor, now: Millis) -> Promise[None]:
        draft = Draft(interceptor.view)
        timers = Timers(draft)
        due = timers.take_due(now, AT_ONCE, batch_limit(interceptor.partition.config))
        if not interceptor.lanes.is_on:
            _rank(due, interceptor.partition.log_end_offset, now, draft)
        writes = timers.writes()
        if not due:  # what was to be the first has been cancelled, or put off
            return interceptor.partition.write_states(writes) if writes else Promise.resolved(None)
        if interceptor.lanes.is_on:
            self.fired += len(due)
            return interceptor.partition.write_states([*writes, *_enter_lanes(interceptor, due, now)])
        batch = _batch(due, interceptor.partition.config, now)
        appended = interceptor.partition.append(memoryview(batch), origin=Origin.INTERNAL, writes=writes)
        self.fired += len(due)
        interceptor.traces.tracer.fired(interceptor.traces, due, appended)
        return appended.pending

    def _ended(self, interceptor: PartitionInterceptor, done: Promise[None]) -> None:
        self._under_way.discard(interceptor)
        if done.error is not None:
            self._put_off(interceptor, str(done.error))
        else:
            self._failing.discard(interceptor)
            self.changed(interceptor)

    def _put_off(self, interceptor: PartitionInterceptor, reason: str) -> None:
        if interceptor.partition.is_dropped or not interceptor.partition.is_led:
            return
        if interceptor not in self._failing:  # logged once, not with every attempt
            self._failing.add(interceptor)
            logger.error("%s cannot deliver what is due, and goes on trying: %s", interceptor.partition, reason)
        self._arm(interceptor, Millis(self._clock.now() + RETRY_MS))


def _batch(due: Sequence[DelayedRecord], config: TopicConfig, now: Millis) -> bytearray:
    return build_batch(_delivered(due, config, now), compression=_codec(due, config))


def _codec(due: Sequence[DelayedRecord], config: TopicConfig) -> Compression:
    return codec_for(config, ((each.codec, each.plain_size) for each in due))


def _rank(due: Sequence[DelayedRecord], base_offset: Offset, now: Millis, draft: Draft) -> None:
    """The priorities and times to live of the delivered records: they count from now on."""
    ranks = Ranks()
    for offset, parked in enumerate(due, base_offset):
        with suppress(HeaderError):  # it was parked under other rules
            options = headers.parse(parked.record.headers) if parked.record is not None else None
            if options is not None:
                ranks.add(Offset(offset), options, now)
    ranks.write(draft, now)


def _enter_lanes(interceptor: PartitionInterceptor, due: Sequence[DelayedRecord], now: Millis) -> list[StateWrite]:
    config = interceptor.partition.config
    return interceptor.lanes.enter(_delivered(due, config, now), _codec(due, config), now)


def _delivered(due: Sequence[DelayedRecord], config: TopicConfig, now: Millis) -> list[Record]:
    """As they were sent, with their due times: by the original timestamps, retention might delete them at once.

    For the same reason records that are long overdue, because the broker was down or their transaction open, get the present time.
    """
    oldest = now - config.retention_ms // 2 if config.delete and config.retention_ms >= 0 else None
    return [
        _dressed(each, place, now if oldest is not None and each.due < oldest else each.due)
        for place, each in enumerate(due)
    ]


def _dressed(parked: DelayedRecord, place: int, timestamp: Millis) -> Record:
    record = parked.record
    assert record is not None, parked.slot  # noqa: S101 - only records wait
    added = (
        (headers.ORIGINAL_OFFSET, str(parked.slot).encode()),
        (headers.ORIGINAL_TIMESTAMP, str(record.timestamp).encode()),
    )
    return Record(place, timestamp, record.key, record.value, (*record.headers, *added))
