"""A partition that heeds headers, on a store in memory; time passes and turns end when the test says so."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from kompat.errors import KafkaError
from kompat.extensions.delay_service import DelayService
from kompat.extensions.firing import Firing
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.lane_release import Releases
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.partition import Appended, Partition
from kompat.protocol.records import Compression, Record, build_batch, read_header, recompress, split_batches
from kompat.types import Millis, Offset
from tests.log.support import COMMITTED, UNCOMMITTED, Log, run

__all__ = ["COMMITTED", "UNCOMMITTED", "ExtendedLog", "Headers", "delivered", "message", "run"]

Headers = dict[str, object]


class ExtendedLog(Log):
    """A log, and the service that delivers what waits in it."""

    def _open(self) -> None:
        super()._open()
        self.firing = Firing(self.clock)
        self.tracer = Tracer(self.clock)
        self.committed: Offset | None = None  # the furthest of any group
        self.releases = Releases(self.clock, self.tracer)
        self.releases.commits = self
        self.releases.start()
        self.intake = PartitionIntake(self.partition, self._changed, self.firing.dropped, self.tracer)
        self.partition.intake = self.intake
        self._changed(self.intake)
        self.delays = DelayService(cast("Logs", self), self.firing, self.clock)

    def _changed(self, intake: PartitionIntake) -> None:
        self.firing.changed(intake)
        self.releases.look_at(intake.partition, intake.view, intake.lanes)

    # -- as groups are ---------------------------------------------------------------------------------------------
    knows_all_commits = True

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        return self.committed

    def watch_commits(self, callback: Callable[[], None]) -> None:
        """The test tells of them."""

    # -- as Logs are -----------------------------------------------------------------------------------------------
    def find(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == ("topic", 0) else None

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
            before = self.firing.fired
            self.firing.wake()
            self.commit.end_turn()
            if self.firing.fired == before:
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
        found, cursor = [], None
        while True:
            page = self.delays.list("topic", 0, cursor=cursor, limit=2)
            found += [(each.record.value or b"-").decode() for each in page.items]
            cursor = page.cursor
            if cursor is None:
                return found

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
