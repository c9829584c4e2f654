"""Runs the log cleaner: it reads and compacts in a worker thread, a little at a time, and writes with the group commit."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from kompat.errors import DamagedBatch, ErrorCode, KafkaError, StorageError
from kompat.log.compaction import Cleaned, Cleaning, KeyMap, Transactions, is_due
from kompat.protocol.records import HEADER_SIZE, read_header, split_batches
from kompat.types import NO_TIMESTAMP, Buffer, Millis, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kompat.common.promise import Promise
    from kompat.log.checkpoint import LogState
    from kompat.log.partition import Partition
    from kompat.log.segments import Segment
    from kompat.log.storage.store import PartitionStore

T = TypeVar("T")
logger = logging.getLogger(__name__)

READ_BYTES = 1 << 20
STEP_BYTES = 4 << 20  # read and thought about before anything is written: the new bytes are no more than that
AT_A_TIME = 100  # partitions looked at before others get their turn
WORK_SECONDS = 0.001  # with the interpreter to itself; then others get it


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Each is named in its comment."""

    dedupe_buffer_size: int = 128 * 1024 * 1024  # log.cleaner.dedupe.buffer.size
    io_max_bytes_per_second: float = float("inf")  # log.cleaner.io.max.bytes.per.second
    backoff_ms: int = 15_000  # log.cleaner.backoff.ms
    is_enabled: bool = True  # log.cleaner.enable


class Stopped(Exception):  # noqa: N818 - it is no error
    """The broker is closing: the work is given up where it stands."""


class Throttle:
    """Makes the worker rest: as long as it worked, and until it is within its bytes per second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._stopped = Event()
        self.rate = bytes_per_second
        self._since = time.monotonic()
        self._bytes = 0

    def spent(self, size: int) -> None:
        self._bytes += size
        worked = time.monotonic() - self._since
        if worked < WORK_SECONDS:
            return
        if self._stopped.wait(max(min(worked, 10 * WORK_SECONDS), self._bytes / self.rate - worked)):
            raise Stopped
        self._since = time.monotonic()
        self._bytes = 0

    def stop(self) -> None:
        """A cleaning that is throttled, or is about to be, raises Stopped."""
        self._stopped.set()


class Cleaner:
    """Compacts one partition at a time."""

    def __init__(self, settings: CleanerSettings) -> None:
        self._settings = settings
        self._throttle = Throttle(settings.io_max_bytes_per_second)
        self._executor: ThreadPoolExecutor | None = None  # most brokers of tests never need it

    def configure(self, settings: CleanerSettings) -> None:
        """Take other settings from the next partition on; the pace changes at once."""
        self._settings = settings
        self._throttle.rate = settings.io_max_bytes_per_second

    async def clean_all(self, partitions: Iterable[Partition], now: Millis) -> int:
        """Clean what is due, dirtiest first: how many partitions."""
        if not self._settings.is_enabled:
            return 0
        due = []
        for count, partition in enumerate(partitions, 1):
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)
            dirty = partition.upkeep.dirty_part(now) if partition.config.compact else None
            if dirty is not None and is_due(dirty, partition.config):
                due.append((dirty.ratio, partition))
        cleaned = 0
        for _, partition in sorted(due, key=lambda d: d[0], reverse=True):
            try:
                cleaned += await self.clean(partition, now)
            except (KafkaError, StorageError):  # of one partition: it must not keep the others from being cleaned
                logger.exception("%s could not be cleaned", partition)
        return cleaned

    async def clean(self, partition: Partition, now: Millis) -> bool:
        """Clean a partition's dirty part; False where there was none, or it had to be given up."""
        dirty = partition.upkeep.dirty_part(now)
        if dirty is None:
            return False
        store, state = partition.store, partition.state
        first = state.segments.first.base_offset
        memory = self._settings.dedupe_buffer_size
        known = state.aborted.find(dirty.start, dirty.end)
        batches = _Batches(store)
        keys = await self._in_thread(
            lambda: _map_keys(batches, KeyMap(memory, dirty.start), Transactions(known), dirty.end, self._throttle)
        )
        if keys.end <= dirty.start or not await _is_lost(partition, batches.damaged):
            return False  # where something was mended, the next round knows its keys
        transactions = Transactions(state.aborted.find(first, keys.end))
        cleaning = Cleaning(keys, transactions, now, partition.config.delete_retention_ms)
        sealed = list(state.segments.sealed)
        ends = [state.segments.end_of(i) for i in range(len(sealed))]
        for segment, end in zip(sealed, ends, strict=True):
            if segment.base_offset >= keys.end:
                break
            if not await self._clean_segment(partition, cleaning, segment, end, keys.end):
                return False
        return await _kept(partition.upkeep.end_cleaning(keys.end))

    async def _clean_segment(
        self, partition: Partition, cleaning: Cleaning, segment: Segment, end: Offset, limit: Offset
    ) -> bool:
        state, store = partition.state, partition.store
        walk = _Walk(store, cleaning, self._throttle, whole=end <= limit)
        offset, until = segment.base_offset, min(end, limit)
        while offset < until:
            start = offset
            cleaned = await self._in_thread(lambda: walk.go(start, until))  # noqa: B023 - it is called here
            # Meanwhile the topic may have been deleted, the segment expired, or the disk refused a turn.
            if not _is_current(partition, state, segment):
                return False
            offset = cleaned.next_offset
            if (cleaned.rewrites or cleaned.newest) and not await _kept(
                partition.upkeep.take_cleaned(segment, cleaned)
            ):
                return False
        await _is_lost(partition, walk.damaged)
        return True

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "kompat-cleaner")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        self._throttle.stop()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


def _is_current(partition: Partition, state: LogState, segment: Segment) -> bool:
    return not partition.is_dropped and partition.state is state and any(s is segment for s in state.segments.sealed)


async def _kept(pending: Promise[None]) -> bool:
    """Whether the disk took it."""
    try:
        await pending
    except KafkaError as error:
        logger.warning("the cleaner gives up for now: %s", error)
        return False
    return True


async def _is_lost(partition: Partition, damaged: Sequence[DamagedBatch]) -> bool:
    """Have damaged batches mended. Whether all of them are lost for good: what cannot be mended is cleaned around."""
    is_lost = True
    for damage in damaged:
        try:
            await partition.mend(damage)
        except KafkaError as error:
            is_lost &= error.code is ErrorCode.CORRUPT_MESSAGE
        else:
            is_lost = False
    return is_lost


# -- in the worker thread ----------------------------------------------------------------------------------------------
class _Batches:
    """The batches of a log, without the damaged ones: those stay as they are."""

    def __init__(self, store: PartitionStore) -> None:
        self._store = store
        self.damaged: list[DamagedBatch] = []

    def between(self, offset: Offset, end: Offset) -> Iterator[Buffer]:
        while offset < end:
            try:
                run = self._store.read(offset, READ_BYTES, end)
            except DamagedBatch as damage:
                self.damaged.append(damage)
                offset = Offset(damage.last + 1)
                continue
            if not run.buffers:
                return
            for buffer in run.buffers:
                yield from split_batches(memoryview(buffer))
            offset = run.next_offset


def _map_keys(batches: _Batches, keys: KeyMap, known: Transactions, end: Offset, throttle: Throttle) -> KeyMap:
    """Fill the map from where it ends up to `end`, as far as it has room."""
    for batch in batches.between(keys.end, end):
        header = read_header(batch)
        keys.add(batch, header, is_void=known.is_void(batch, header))
        throttle.spent(len(batch))
        if keys.is_full:
            return keys
    keys.end = end
    return keys


class _Walk:
    """Over one segment, in steps."""

    def __init__(self, store: PartitionStore, cleaning: Cleaning, throttle: Throttle, *, whole: bool) -> None:
        self._batches = _Batches(store)
        self._cleaning = cleaning
        self._throttle = throttle
        self._whole = whole  # whether all of the segment will be seen
        self._newest = (NO_TIMESTAMP, Offset(-1))

    @property
    def damaged(self) -> Sequence[DamagedBatch]:
        return self._batches.damaged

    def go(self, offset: Offset, end: Offset) -> Cleaned:
        cleaned = Cleaned(next_offset=end)
        size = 0
        for batch in self._batches.between(offset, end):
            self._clean(batch, cleaned)
            size += len(batch)
            if size >= STEP_BYTES:
                cleaned.next_offset = Offset(read_header(batch).last_offset + 1)
                break
        if cleaned.next_offset >= end and self._whole and not self.damaged:
            cleaned.newest = self._newest
        return cleaned

    def _clean(self, batch: Buffer, cleaned: Cleaned) -> None:
        header = read_header(batch)
        rewrite, is_gone_abort = self._cleaning.clean(batch)
        timestamp = header.max_timestamp
        left = len(batch)
        if rewrite is not None:
            cleaned.rewrites.append(rewrite)
            timestamp = rewrite.max_timestamp
            left = len(rewrite.batch) if rewrite.batch is not None else 0
            cleaned.growth += left - len(batch)
        if is_gone_abort:
            cleaned.markers.append(Offset(header.base_offset))
        if left > HEADER_SIZE and timestamp > self._newest[0]:
            self._newest = (Millis(timestamp), Offset(header.base_offset))
        self._throttle.spent(len(batch))
