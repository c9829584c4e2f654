"""A partition on a store in memory whose turns end when the test says so."""

import asyncio
import atexit
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

from kompat.clock import ManualClock
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.cache import TailCache
from kompat.log.cleaner import Cleaner, CleanerSettings, Throttle
from kompat.log.partition import Appended, Isolation, Origin, Partition, ReadResult
from kompat.log.storage.memory import MemoryStore, _Data
from kompat.log.storage.store import Entry
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, iterate, split_batches
from kompat.types import Buffer, LogId, Offset
from tests.simulator.disk import SimPartition

T = TypeVar("T")
LOG_ID = LogId(UUID(int=7), 0)
NOW = 1_700_000_000_000
UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


class InlineExecutor(ThreadPoolExecutor):
    """Does the work where it is asked to: a thousand property tests need no threads."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - handed on, as an executor does
            future.set_exception(error)
        return future


def run(work: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, on one loop that is kept."""
    if not _loops:
        _loops.append(asyncio.new_event_loop())
        _loops[0].set_default_executor(InlineExecutor())
        atexit.register(_loops[0].close)
    return _loops[0].run_until_complete(work)


_loops: list[asyncio.AbstractEventLoop] = []


class RefusingPartition(SimPartition):
    """Takes no append while the disk is below its reserve."""

    disk: "Disk"

    def append(self, entry: Entry, batch: Buffer, segment: Offset, payload: bytes = b"") -> None:
        self.require_room()
        super().append(entry, batch, segment, payload)

    def require_room(self) -> None:
        if self.disk.is_refusing:
            raise StorageError("less than the reserve is free")


class Disk(MemoryStore):
    """Refuses to write while it is full."""

    is_full = False
    is_refusing = False

    def open(self, log: LogId) -> RefusingPartition:
        partition = RefusingPartition(self._logs.setdefault(log, _Data()), self._staged, self._lock)
        partition.disk = self
        return partition

    def flush(self) -> None:
        if self.is_full:
            self._staged.clear()
            raise StorageError("no space left")
        super().flush()


class Restless(Throttle):
    def spent(self, size: int) -> None:
        """Nobody else needs the interpreter."""


class ManualCommit:
    """GroupCommit without a loop: `end_turn` is the end of the turn."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.on_failed = lambda: None
        self._turn: Promise[None] | None = None

    def turn(self) -> Promise[None]:
        if self._turn is None:
            self._turn = Promise()
        return self._turn

    def end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        error = None
        try:
            self.store.flush()
        except StorageError as refused:
            self.on_failed()
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(refused))
        turn.end(error)


class Log:
    """One partition and what is around it."""

    def __init__(self, *, cache: int = 1 << 20, **config: Any) -> None:
        self.store = Disk()
        self.clock = ManualClock(NOW)
        self.config = TopicConfig(**config)
        self.cache_bytes = cache
        self._open()

    def _open(self) -> None:
        self.commit = ManualCommit(self.store)
        self.cache = TailCache(self.cache_bytes)
        self.partition = Partition(
            LOG_ID,
            "topic",
            0,
            store=self.store.open(LOG_ID),
            commit=self.commit,  # type: ignore[arg-type]
            config=self.config,
            clock=self.clock,
            cache=self.cache,
        )
        self.commit.on_failed = self.partition.reload

    def kill(self) -> Partition:
        """Start anew from what the store holds."""
        self.store._staged.clear()
        self._open()
        return self.partition

    def restart(self) -> Partition:
        self.partition.close()
        self.commit.end_turn()
        return self.kill()

    def configure(self, **config: Any) -> None:
        self.config = TopicConfig(**config)
        self.partition.configure(self.config)

    # -- writing ---------------------------------------------------------------------------------------------------
    def append(self, *values: bytes, **options: Any) -> Appended:
        """One batch of one record per value, committed."""
        appended = self.stage(batch(*values, **options))
        self.commit.end_turn()
        return appended

    def stage(self, data: bytearray, origin: Origin = Origin.CLIENT) -> Appended:
        return self.partition.append(memoryview(data), origin=origin)

    def refuse(self, data: bytearray) -> KafkaError:
        """What the partition says to a batch that it does not take."""
        before = self.partition.log_end_offset
        try:
            self.stage(data)
        except KafkaError as error:
            assert self.partition.log_end_offset == before
            return error
        raise AssertionError("the batch was taken")

    def end_transaction(
        self, kind: ControlType, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0
    ) -> Appended:
        marker = control_batch(
            kind,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self.clock.now(),
        )
        appended = self.stage(marker, Origin.INTERNAL)
        self.commit.end_turn()
        return appended

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that needs turns to end."""

        async def turns() -> T:
            task = asyncio.ensure_future(work)
            while not task.done():
                self.commit.end_turn()
                await asyncio.sleep(0)
            return task.result()

        return run(turns())

    def compact(self, *, memory: int = 1 << 20) -> bool:
        """Run the cleaner, whether it is due or not."""
        cleaner = Cleaner(CleanerSettings(dedupe_buffer_size=memory))
        cleaner._executor = InlineExecutor()
        cleaner._throttle = Restless(float("inf"))
        try:
            return self.run(cleaner.clean(self.partition, self.clock.now()))
        finally:
            cleaner.close()

    def roll(self) -> None:
        """Seal the active segment, as the next append would after segment.ms; an empty one is never sealed."""
        if not self.partition.state.segments.active.size:
            return
        self.partition.log.roll(self.clock.now())
        self.partition.log.join_turn()
        self.commit.end_turn()

    # -- reading ---------------------------------------------------------------------------------------------------
    def read(
        self, offset: int = 0, max_bytes: int = 1 << 20, isolation: Isolation = UNCOMMITTED, *, minimum_one: bool = True
    ) -> ReadResult:
        """From memory where it is there, else from the store."""
        found = self.partition.read(Offset(offset), max_bytes, isolation, minimum_one=minimum_one)
        return found if found is not None else self.read_stored(offset, max_bytes, isolation, minimum_one=minimum_one)

    def read_stored(
        self, offset: int = 0, max_bytes: int = 1 << 20, isolation: Isolation = UNCOMMITTED, *, minimum_one: bool = True
    ) -> ReadResult:
        return run(self.partition.read_stored(Offset(offset), max_bytes, isolation, minimum_one=minimum_one))

    def records(self, offset: int = 0, isolation: Isolation = UNCOMMITTED) -> list[Record]:
        """All records from `offset` on, read as a consumer reads them: run by run."""
        found: list[Record] = []
        while True:
            result = self.read(offset, 200, isolation)
            if not result.buffers:
                return found
            found.extend(r for r in records_of(result) if r.offset >= offset)
            offset = result.next_offset

    def values(self, offset: int = 0, isolation: Isolation = UNCOMMITTED) -> list[bytes | None]:
        return [r.value for r in self.records(offset, isolation)]


def records_of(result: ReadResult) -> list[Record]:
    batches = [b for buffer in result.buffers for b in split_batches(memoryview(buffer))]
    return [record for b in batches for record in iterate(b)]


def records(values: Sequence[bytes | None], *, timestamp: int = NOW, key: bytes | None = b"key") -> list[Record]:
    return [Record(i, timestamp, key, value) for i, value in enumerate(values)]


def batch(*values: bytes | None, timestamp: int = NOW, key: bytes | None = b"key", **options: Any) -> bytearray:
    return build_batch(records(values, timestamp=timestamp, key=key), **options)


# -- compaction ---------------------------------------------------------------------------------------------------------
COMPACT = {"compact": True, "delete": False, "min_cleanable_dirty_ratio": 0.0}


def write(log: Log, *pairs: tuple[bytes, bytes | None], **options: object) -> None:
    """One batch, committed."""
    records = [Record(i, log.clock.now(), key, value) for i, (key, value) in enumerate(pairs)]
    log.stage(build_batch(records, **options))
    log.commit.end_turn()


def content(log: Log, isolation: object = UNCOMMITTED) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in log.records(isolation=isolation)]  # type: ignore[arg-type]


def delete(log: Log, offset: int) -> int:
    return log.run(log.partition.delete_records(Offset(offset)))
