"""A partition that heeds headers, on a store in memory; time passes and turns end when the test says so."""

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

from kompat.errors import KafkaError
from kompat.extensions.delay.requests import DelayStatistics, Scheduled
from kompat.extensions.delay.scheduler import DelayScheduler
from kompat.extensions.delay.service import DelayService
from kompat.extensions.delay.timers import Timers
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.priority.lane_release import Releases
from kompat.extensions.states import Draft
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.partition import Appended, Partition
from kompat.protocol.records import Compression, Record, build_batch, read_header, recompress, split_batches
from kompat.types import LogId, Millis, Offset
from tests.extensions.one_broker import OneBroker
from tests.log.support import COMMITTED, UNCOMMITTED, Log, run

__all__ = ["COMMITTED", "UNCOMMITTED", "ExtendedLog", "Headers", "delivered", "message", "run"]

Headers = dict[str, object]


class ExtendedLog(Log):
    """A log, and the service that delivers what waits in it."""

    def _open(self) -> None:
        super()._open()
        self.scheduler = DelayScheduler(self.clock)
        self.tracer = Tracer(self.clock)
        self.committed: Offset | None = None  # the furthest of any group
        self.releases = Releases(self.clock, self.tracer)
        self.releases.start(self)
        self.interceptor = PartitionInterceptor(self.partition, self._changed, self.scheduler.dropped, self.tracer)
        self.partition.interceptor = self.interceptor
        self._changed(self.interceptor)
        self.broker = OneBroker(cast("Logs", self))
        self.delays = DelayService(PartitionLookup(self.broker), self.broker.rpc, cast("Logs", self), self.clock)

    def _changed(self, interceptor: PartitionInterceptor) -> None:
        self.scheduler.changed(interceptor)
        self.releases.look_at(interceptor.partition, interceptor.view, interceptor.lanes)

    # -- as groups are ---------------------------------------------------------------------------------------------
    knows_all_commits = True

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        return self.committed

    def watch_commits(self, callback: Callable[[], None]) -> None:
        """The test tells of them."""

    # -- as Logs are -----------------------------------------------------------------------------------------------
    def find_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        return self.partition if LogId(topic_id, index) == self.partition.log_id else None

    def all(self) -> list[Partition]:
        return [self.partition]

    # -- producing -------------------------------------------------------------------------------------------------
    def send(self, value: str | None, *, key: str = "k", **asked: object) -> Offset:
        """One record that asks for something (`delay_ms=5` is `kompat-delay-ms: 5`), committed: its offset."""
        return self.send_all([message(value, key=key, now=self.clock.now(), **asked)])

    def send_all(self, records: Sequence[Record], **options: Any) -> Offset:
        appended = self.stage_all(records, **options)
        self.commit.end_turn()
        return appended.base_offset

    def stage_all(self, records: Sequence[Record], **options: Any) -> Appended:
        numbered = [Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)]
        return self.stage(build_batch(numbered, **options))

    def refused(self, value: str = "v", **asked: object) -> KafkaError:
        record = message(value, now=self.clock.now(), **asked)
        return self.refuse(build_batch([record]))

    # -- time ------------------------------------------------------------------------------------------------------
    def pass_time(self, ms: int) -> None:
        """Let time pass, and deliver all that is due then."""
        self.clock.advance(ms)
        self.deliver()

    def deliver(self) -> None:
        for _ in range(1000):
            before = self.scheduler.fired
            self.scheduler.wake()
            self.commit.end_turn()
            if self.scheduler.fired == before:
                return
        raise AssertionError("there is no end to it")

    @property
    def now(self) -> Millis:
        return self.clock.now()

    # -- looking ---------------------------------------------------------------------------------------------------
    def texts(self, isolation: Any = UNCOMMITTED) -> list[str]:
        return [(r.value or b"-").decode() for r in self.records(self.partition.log_start_offset, isolation)]

    def waiting(self) -> list[str]:
        """What waits, first what is due first."""
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = run(self.delays.list("topic", cursor=cursor, limit=2))
            found += [(each.record.value or b"-").decode() for each in page.items]
            cursor = page.cursor
            if cursor is None:
                return found

    def delay_statistics(self) -> DelayStatistics:
        return run(self.delays.statistics())

    def find_by_schedule_id(self, schedule_id: str) -> Scheduled | None:
        slot = Timers(Draft(self.interceptor.view)).slot_of(schedule_id)
        return None if slot is None else run(self.delays.find("topic", 0, slot))

    def headers_of_batches(self) -> list[Any]:
        run_ = self.partition.store.read(Offset(0), 1 << 30, self.partition.high_watermark)
        return [read_header(b) for buffer in run_.buffers for b in split_batches(memoryview(buffer))]

    def plain_sizes(self) -> list[int]:
        """Of the batches in the log: how large they are without compression."""
        run_ = self.partition.store.read(Offset(0), 1 << 30, self.partition.high_watermark)
        batches = [b for buffer in run_.buffers for b in split_batches(memoryview(buffer))]
        return [len(recompress(batch, Compression.NONE)) for batch in batches]


def message(value: str | None, *, key: str = "k", now: int, **asked: object) -> Record:
    headers = tuple((f"kompat-{name.replace('_', '-')}", str(text).encode()) for name, text in asked.items())
    return Record(0, now, key.encode(), None if value is None else value.encode(), headers)


def delivered(record: Record) -> tuple[int, int]:
    """The slot and original timestamp that a delivered record tells of."""
    told = dict(record.headers)
    return int(told["kompat-original-offset"] or b""), int(told["kompat-original-timestamp"] or b"")
