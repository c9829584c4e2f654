"""Gives the records in the lanes their order in the log, when somebody wants them: one append, which takes them out in the same write.

A consumer that has read all there is gets the next records, the highest class first. Whoever asks where the log ends
gets all that wait: it may never read past that. Where the setting is turned off, all are released, too. There is one release at a
time in a partition; the next is decided when it is committed, so that others get their turns, and by what waits then. A record
that was released is gone from its lane in the same write, so a crash leaves it either there or in the log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kompat.clock import Clock
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import headers, lanes
from kompat.extensions.lane_intake import LaneIntake
from kompat.extensions.lanes import Lanes, Limit, Summary, Taken
from kompat.extensions.outstanding import Outstanding
from kompat.extensions.priority import Ranks
from kompat.extensions.states import Draft, View
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.commit import Pending
from kompat.log.packing import batch_limit, codec_for, size_of
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import Record, build_batch
from kompat.types import Millis, Offset

logger = logging.getLogger(__name__)

AT_ONCE = 1000  # records that one append releases, where all are to be
KEPT_BYTES = 32 << 20  # of runs that are released in parts, and so are needed again soon; of all partitions
RECORD_BYTES = 400  # that a record takes in memory besides what it has, about


class Commits(Protocol):
    """How far groups have come."""

    @property
    def knows_all_commits(self) -> bool:
        """Or are there groups of other brokers?"""
        ...

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        """The highest offset that any has committed."""
        ...

    def watch_commits(self, callback: Callable[[], None]) -> None: ...


class Releases:
    """What the lanes of all partitions have in common."""

    def __init__(self, clock: Clock, tracer: Tracer) -> None:
        self.clock = clock
        self.tracer = tracer
        self.commits: Commits | None = None  # set when groups are there
        self.released = 0  # records, since the start
        self.is_started = False
        self.opened = OpenedRuns()
        self.held: set[LaneRelease] = set()  # by their windows, while somebody wants more
        self._emptying: set[LaneRelease] = set()  # found before the start, with lanes that are to be emptied

    def start(self) -> None:
        self.is_started = True
        emptying, self._emptying = self._emptying, set()
        for each in emptying:
            each.wake()

    def close(self) -> None:
        self.is_started = False

    def offsets_committed(self) -> None:
        """Some group has committed some offset."""
        if self.held:
            held, self.held = self.held, set()
            for each in held:
                each.wake()

    def look_at(self, partition: Partition, view: View, intake: LaneIntake) -> None:
        """The partition's lanes or its settings may have changed."""
        release = partition.demand
        if release is None and (lanes.is_on(partition.config) or (intake.is_used and not _is_empty(view))):
            release = partition.demand = LaneRelease(partition, view, self)
        if isinstance(release, LaneRelease):
            release.heed_loads(intake.loads)
            if self.is_started:
                release.changed()
            else:
                self._emptying.add(release)


class _Settling(NamedTuple):
    """Wants all runs before the one of this number."""

    number: int
    settled: Pending


class LaneRelease:
    """Demand for what waits in one partition's lanes."""

    __slots__ = (
        "_is_busy",
        "_is_empty",
        "_is_failing",
        "_loads",
        "_outstanding",
        "_partition",
        "_readers",
        "_settling",
        "_shared",
        "_view",
    )

    counts_shares = True

    def __init__(self, partition: Partition, view: View, shared: Releases) -> None:
        self._partition = partition
        self._view = view
        self._shared = shared
        self._readers: dict[object, int] = {}  # and how many bytes each would take
        self._settling: deque[_Settling] = deque()
        self._outstanding = Outstanding(view)
        self._is_busy = False  # with a release that is not committed
        self._is_empty = False  # as far as was seen since the last change
        self._is_failing = False
        self._loads = 0  # of the partition's states, that it knows of

    # -- who wants something ---------------------------------------------------------------------------------------
    def asked(self, reader: object, max_bytes: int) -> bool:
        self._readers[reader] = max(1, max_bytes)
        return self.wake()

    def left(self, reader: object) -> None:
        self._readers.pop(reader, None)

    def settle(self) -> Pending:
        if not self._can_append:
            return Pending.done()
        settled = Pending()
        try:
            self._settling.append(_Settling(_summary(self._view).next_number, settled))
        except KafkaError as error:
            settled.resolve(error)
        else:
            self.wake()
        return settled

    def heed_loads(self, loads: int) -> None:
        """What is known of the states is void where they were loaded anew: the disk may have refused some, or another broker led."""
        if loads != self._loads:
            self._loads = loads
            self._outstanding.reload()

    def changed(self) -> None:
        """More may wait, or the settings may be others: see to it when that is written."""
        self._is_empty = False
        if not self._is_busy and self._is_wanted:
            self._view.newest_turn.add_done_callback(self._written)

    def _written(self, _: Pending) -> None:
        self.wake()

    @property
    def _is_wanted(self) -> bool:
        return bool(self._readers or self._settling) or not lanes.is_on(self._partition.config)

    @property
    def _can_append(self) -> bool:
        """Not while the partition is being opened, for the intake has to hear of it; nor where another broker leads."""
        return self._shared.is_started and self._partition.intake is not None and self._partition.is_led

    # -- releasing -------------------------------------------------------------------------------------------------
    def wake(self) -> bool:
        """Release some records, if they are wanted; whether some are on their way."""
        if self._is_busy or not self._is_wanted or not self._can_append:
            return self._is_busy
        if self._is_empty and not self._settling:
            return False
        self._is_busy = True
        try:
            released = self._release()
        except Exception as error:  # noqa: BLE001 - those who wait hear of it, or try again
            self._fail(error)
            released = None
        if released is None:
            self._is_busy = False
            return False
        released.add_done_callback(self._ended)
        return True

    def _release(self) -> Pending | None:
        draft = Draft(self._view)
        waiting = Lanes(draft)
        taken: list[Taken] = []
        while not taken:
            limit = self._limit(waiting.summary)
            if limit is not None:
                taken = waiting.take(limit, self._shared.opened)
            if not taken and not self._settling:
                self._rest(waiting.summary)
                return None
            if not taken:
                self._settling.popleft().settled.resolve()
        waiting.finish()
        return self._append(draft, taken)

    def _limit(self, waiting: Summary) -> Limit | None:
        """How much can be released now; None: nothing."""
        config = self._partition.config
        size = min(batch_limit(config), config.segment_bytes // 2)
        if not waiting.waiting:
            return None
        if self._settling:
            return Limit(AT_ONCE, size, self._settling[0].number)
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
        """0: none. Where other brokers have groups, nobody here knows of their commits: a window would never open again."""
        commits = self._shared.commits
        return self._partition.config.kompat_priority_window if commits is not None and commits.knows_all_commits else 0

    def _append(self, draft: Draft, taken: Sequence[Taken]) -> Pending:
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

    def _ended(self, done: Pending) -> None:
        self._is_busy = False
        if done.error is not None:
            self._fail(done.error)
        else:
            self._is_failing = False
            self.wake()

    def _fail(self, error: Exception) -> None:
        """Tell those who have to hear it. Readers come again, and so it is tried again."""
        self._outstanding.reload()
        self._shared.opened.clear()
        told = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        while self._settling:
            self._settling.popleft().settled.resolve(told)
        if not self._is_failing and not self._partition.is_dropped:  # told once, not with every attempt
            self._is_failing = True
            logger.error("%s cannot release what waits, and goes on trying: %s", self._partition, error)

    def _rest(self, waiting: Summary) -> None:
        """There is nothing to do. Where there will not be either, the partition is an ordinary one again."""
        self._is_empty = not waiting.waiting
        if self._is_empty and not waiting.undecided and not lanes.is_on(self._partition.config):
            self._partition.demand = None


@dataclass(slots=True)
class OpenedRuns:
    """Records of runs that are released in parts: as many as there is room for, the newest, and that one in any case.

    Else a run without room would be opened anew for every part of it.
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
    # What has waited for long gets the time of its release: by its own, retention might take it at once.
    oldest = now - config.retention_ms // 2 if config.delete and config.retention_ms >= 0 else None
    records: list[Record] = []
    for run in taken:
        timestamp = now if oldest is not None and run.parked_at < oldest else None
        _dress(run, len(records), timestamp)
        records += run.records
    return build_batch(records, compression=codec)


def _note_ends(draft: Draft, taken: Sequence[Taken], offset: Offset, now: Millis) -> None:
    """Tell queues of records that have a time to live, from when they came: not of their classes, for those are in order."""
    ranks = Ranks()
    for run in taken:
        for place, record in enumerate(run.records, offset):
            if record.headers and any(name == headers.TIME_TO_LIVE for name, _ in record.headers):
                asked = headers.parse(record.headers)
                if asked is not None:
                    asked.priority = None
                    ranks.add(Offset(place), asked, run.parked_at)
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
    """Let the records be as they were sent, with headers that tell where their slots are. They are changed in place: it
    is done for each of them, and nobody else has them."""
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
