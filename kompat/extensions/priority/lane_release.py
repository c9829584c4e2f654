"""Releases records from the lanes into the log when consumers want them: one append, which removes them in the same write.

A consumer that has read everything gets the next records, the highest class first. A request for the end of the log releases
all of them, because its client may never read past that. If the config is turned off, all are released, too. A partition has
one release at a time; the next is decided when it is committed, so that other tasks get their turn, and by what waits then. A
record is released and removed from its lane in the same write, so after a crash it is either there or in the log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError, kafka_error
from kompat.extensions import headers
from kompat.extensions.priority import lanes
from kompat.extensions.priority.headers import Ranks
from kompat.extensions.priority.lane_interceptor import LaneInterceptor
from kompat.extensions.priority.lanes import Lanes, Limit, Summary, Taken
from kompat.extensions.priority.outstanding import Outstanding
from kompat.extensions.states import Draft, View
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.packing import batch_limit, codec_for, size_of
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import Record, build_batch
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 1000  # records that one append releases, if all are released
KEPT_BYTES = 32 << 20  # of runs that are released in parts, and so are needed again soon; of all partitions
RECORD_BYTES = 400  # the memory overhead of a record, about


class Commits(Protocol):
    """The committed offsets of groups."""

    @property
    def knows_all_commits(self) -> bool:
        """Whether this broker coordinates all groups."""
        ...

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        """The highest offset that any group has committed."""
        ...

    def watch_commits(self, callback: Callable[[], None]) -> None: ...


class Releases:
    """The state that the lanes of all partitions share."""

    def __init__(self, clock: Clock, tracer: Tracer) -> None:
        self.clock = clock
        self.tracer = tracer
        self.commits: Commits | None = None  # from the start on
        self.released = 0  # records, since the start
        self.is_started = False
        self.opened = OpenedRuns()
        self.held: set[LaneRelease] = set()  # by their windows, while consumers want more
        self._emptying: set[LaneRelease] = set()  # found before the start, with lanes that are to be emptied

    def start(self, commits: Commits) -> None:
        """The group coordinator is running: windows depend on committed offsets."""
        self.commits = commits
        commits.watch_commits(self.offsets_committed)
        self.is_started = True
        emptying, self._emptying = self._emptying, set()
        for each in emptying:
            each.wake()

    def close(self) -> None:
        self.is_started = False

    def offsets_committed(self) -> None:
        """A group has committed an offset."""
        if self.held:
            held, self.held = self.held, set()
            for each in held:
                each.wake()

    def look_at(self, partition: Partition, view: View, interceptor: LaneInterceptor) -> None:
        """The partition's lanes or its settings may have changed."""
        release = partition.fetch_listener
        if release is None and (lanes.is_on(partition.config) or (interceptor.is_used and not _is_empty(view))):
            release = partition.fetch_listener = LaneRelease(partition, view, self)
        if isinstance(release, LaneRelease):
            release.heed_loads(interceptor.loads)
            if self.is_started:
                release.changed()
            else:
                self._emptying.add(release)


class _Flush(NamedTuple):
    """Wants all runs before the one of this number."""

    number: int
    flushed: Promise[None]


class LaneRelease:
    """The fetch listener of a partition with lanes: it releases records while readers wait."""

    __slots__ = (
        "_flushes",
        "_is_busy",
        "_is_empty",
        "_is_failing",
        "_loads",
        "_outstanding",
        "_partition",
        "_readers",
        "_shared",
        "_view",
    )

    counts_shares = True

    def __init__(self, partition: Partition, view: View, shared: Releases) -> None:
        self._partition = partition
        self._view = view
        self._shared = shared
        self._readers: dict[object, int] = {}  # and how many bytes each would take
        self._flushes: deque[_Flush] = deque()
        self._outstanding = Outstanding(view)
        self._is_busy = False  # with a release that is not committed
        self._is_empty = False  # as far as was seen since the last change
        self._is_failing = False
        self._loads = 0  # of the partition's states, that it knows of

    # -- who wants something ---------------------------------------------------------------------------------------
    def reader_waiting(self, reader: object, max_bytes: int) -> bool:
        self._readers[reader] = max(1, max_bytes)
        return self.wake()

    def reader_gone(self, reader: object) -> None:
        self._readers.pop(reader, None)

    def release_all(self) -> Promise[None]:
        if not self._can_append:
            return Promise.resolved(None)
        flushed: Promise[None] = Promise()
        try:
            self._flushes.append(_Flush(_summary(self._view).next_number, flushed))
        except KafkaError as error:
            flushed.fail(error)
        else:
            self.wake()
        return flushed

    def heed_loads(self, loads: int) -> None:
        """What is known of the states is void where they were loaded anew: the disk may have refused some, or another broker led."""
        if loads != self._loads:
            self._loads = loads
            self._outstanding.reload()

    def changed(self) -> None:
        """More records may wait, or the configs may have changed: check it when that is written."""
        self._is_empty = False
        if not self._is_busy and self._is_wanted:
            self._view.newest_turn.add_done_callback(self._written)

    def _written(self, _: Promise[None]) -> None:
        self.wake()

    @property
    def _is_wanted(self) -> bool:
        return bool(self._readers or self._flushes) or not lanes.is_on(self._partition.config)

    @property
    def _can_append(self) -> bool:
        """Not while the partition is being opened, for the interceptor has to hear of it; nor where another broker leads."""
        return self._shared.is_started and self._partition.interceptor is not None and self._partition.is_led

    # -- releasing -------------------------------------------------------------------------------------------------
    def wake(self) -> bool:
        """Release some records, if they are wanted; returns whether a release is in progress."""
        if self._is_busy or not self._is_wanted or not self._can_append:
            return self._is_busy
        if self._is_empty and not self._flushes:
            return False
        self._is_busy = True
        try:
            released = self._release()
        except Exception as error:  # noqa: BLE001 - waiters get the error, readers retry
            self._fail(error)
            released = None
        if released is None:
            self._is_busy = False
            return False
        released.add_done_callback(self._ended)
        return True

    def _release(self) -> Promise[None] | None:
        draft = Draft(self._view)
        waiting = Lanes(draft)
        taken: list[Taken] = []
        while not taken:
            limit = self._limit(waiting.summary)
            if limit is not None:
                taken = waiting.take(limit, self._shared.opened)
            if not taken and not self._flushes:
                self._rest(waiting.summary)
                return None
            if not taken:
                self._flushes.popleft().flushed.resolve()
        waiting.finish()
        return self._append(draft, taken)

    def _limit(self, waiting: Summary) -> Limit | None:
        """How much can be released now; None: nothing."""
        config = self._partition.config
        size = min(batch_limit(config), config.segment_bytes // 2)
        if not waiting.waiting:
            return None
        if self._flushes:
            return Limit(AT_ONCE, size, self._flushes[0].number)
        if not lanes.is_on(config):
            return Limit(AT_ONCE, size)
        records = config.kompat_priority_release_max_records
        window, commits = self._window, self._shared.commits
        if window and commits is not None:
            committed = commits.furthest_offset(self._partition.topic, self._partition.index)
            records = min(records, window - self._outstanding.count(committed))
            if records <= 0:
                self._shared.held.add(self)
        return Limit(records, min(size, max(self._readers.values()))) if records > 0 and self._readers else None

    @property
    def _window(self) -> int:
        """0: no window. If other brokers coordinate groups, their commits are not known here, and a window would never open again."""
        commits = self._shared.commits
        return self._partition.config.kompat_priority_window if commits is not None and commits.knows_all_commits else 0

    def _append(self, draft: Draft, taken: Sequence[Taken]) -> Promise[None]:
        partition, shared = self._partition, self._shared
        count = sum(len(each.records) for each in taken)
        if self._window:
            self._outstanding.add(draft, partition.log_end_offset, count)
        else:
            self._outstanding.forget(draft)
        slots = list(_slots(taken)) if partition in shared.tracer.used else ()
        now = shared.clock.now()
        _note_ends(draft, taken, partition.log_end_offset, now)
        batch = _batch(taken, partition.config, now)
        size = len(batch)
        self._readers = {reader: left - size for reader, left in self._readers.items() if left > size}
        appended = partition.append(memoryview(batch), origin=Origin.INTERNAL, writes=draft.writes())
        shared.released += count
        if slots:
            shared.tracer.released(partition, slots, appended)
        return appended.pending

    def _ended(self, done: Promise[None]) -> None:
        self._is_busy = False
        if done.error is not None:
            self._fail(done.error)
        else:
            self._is_failing = False
            self.wake()

    def _fail(self, error: Exception) -> None:
        """Fail the waiters. Readers retry, and so the release is repeated."""
        self._outstanding.reload()
        self._shared.opened.clear()
        failure = kafka_error(error)
        while self._flushes:
            self._flushes.popleft().flushed.fail(failure)
        if not self._is_failing and not self._partition.is_dropped:  # logged once, not with every attempt
            self._is_failing = True
            logger.error("%s cannot release what waits, and goes on trying: %s", self._partition, error)

    def _rest(self, waiting: Summary) -> None:
        """There is nothing to do. If there never will be, the partition becomes an ordinary one again."""
        self._is_empty = not waiting.waiting
        if self._is_empty and not waiting.undecided and not lanes.is_on(self._partition.config):
            self._partition.fetch_listener = None


@dataclass(slots=True)
class OpenedRuns:
    """Records of runs that are released in parts: as many of the newest as fit, but at least one.

    Else a run would be decoded again for every part of it.
    """

    _runs: dict[bytes, tuple[list[Record], int]] = field(default_factory=dict)  # and about how many bytes they take
    _size: int = 0

    def take(self, run: bytes) -> list[Record] | None:
        records, size = self._runs.pop(run, (None, 0))
        self._size -= size
        return records

    def keep(self, run: bytes, records: list[Record]) -> None:
        size = sum(map(size_of, records)) + RECORD_BYTES * len(records)
        self._runs[run] = records, size
        self._size += size
        while self._size > KEPT_BYTES and len(self._runs) > 1:
            self.take(next(iter(self._runs)))

    def clear(self) -> None:
        self._runs.clear()
        self._size = 0


def _is_empty(view: View) -> bool:
    summary = _summary(view)
    return not summary.waiting and not summary.undecided


def _summary(view: View) -> Summary:
    return Summary.decode(view.get(lanes.SUMMARY))


def _batch(taken: Sequence[Taken], config: TopicConfig, now: Millis) -> bytearray:
    codec = codec_for(config, ((run.codec, sum(len(each.value or b"") for each in run.records)) for run in taken))
    # A record that has waited for long gets the time of its release: by its own timestamp, retention might delete it at once.
    oldest = now - config.retention_ms // 2 if config.delete and config.retention_ms >= 0 else None
    records: list[Record] = []
    for run in taken:
        timestamp = now if oldest is not None and run.parked_at < oldest else None
        _dress(run, len(records), timestamp)
        records += run.records
    return build_batch(records, compression=codec)


def _note_ends(draft: Draft, taken: Sequence[Taken], offset: Offset, now: Millis) -> None:
    """Index the time to live of released records for queues, from when they came; not their classes: the log is in order."""
    ranks = Ranks()
    for run in taken:
        for place, record in enumerate(run.records, offset):
            if record.headers and any(name == headers.TIME_TO_LIVE for name, _ in record.headers):
                options = headers.parse(record.headers)
                if options is not None:
                    options.priority = None
                    ranks.add(Offset(place), options, run.parked_at)
        offset = Offset(offset + len(run.records))
    ranks.write(draft, now)


def _slots(taken: Sequence[Taken]) -> Iterator[tuple[int, Record]]:
    """The records in the order of their release, and where they waited."""
    for run in taken:
        for record in run.records:
            if run.slot is not None:
                yield run.slot + record.offset, record
            else:
                yield int(dict(record.headers)[headers.ORIGINAL_OFFSET] or b"0"), record


def _dress(run: Taken, place: int, timestamp: Millis | None) -> None:
    """The records as they were sent, with headers that name their slots. They are changed in place, because there may be many, and
    they are not used by other code."""
    slot = run.slot
    for offset, record in enumerate(run.records, place):
        if slot is not None:
            record.headers = (
                *record.headers,
                (headers.ORIGINAL_OFFSET, b"%d" % (slot + record.offset)),
                (headers.ORIGINAL_TIMESTAMP, b"%d" % record.timestamp),
            )
        record.offset = offset
        if timestamp is not None:
            record.timestamp = timestamp
