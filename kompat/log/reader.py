"""Reads of a log: whole batches from memory or from the store, and offsets by time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kompat.errors import DamagedBatch, DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log import lookup
from kompat.log.aborted import Aborted
from kompat.log.empty_batches import is_empty_batch, skip_empty_batches
from kompat.log.local_log import LocalLog
from kompat.log.partition_api import FoundOffset, Isolation, ReadResult
from kompat.log.read_ahead import Found, ReadAhead
from kompat.log.storage.store import PartitionStore
from kompat.types import Buffer, Millis, Offset

if TYPE_CHECKING:
    from kompat.log.partition import Partition

SMALL = 4096  # batches below this are joined for the way out, where there are many
MANY = 8
READS_PAST_EMPTY_BATCHES = 4
ALWAYS_ENOUGH = 1 << 62  # as many bytes as any request waits for: it gets an error
MOST_MENDED = 1000  # stretches that one read has mended before it gives up

T = TypeVar("T")


class LogReader:
    __slots__ = ("_log", "_partition", "_read_ahead")

    def __init__(self, partition: Partition, log: LocalLog, read_ahead: ReadAhead) -> None:
        self._partition = partition
        self._log = log
        self._read_ahead = read_ahead

    def read(self, offset: Offset, max_bytes: int, isolation: Isolation, minimum_one: bool = True) -> ReadResult | None:
        """From memory: see Partition.read. It has few calls, for every fetch comes this way."""
        partition, state = self._partition, self._log.state
        if partition.is_dropped or not state.log_start_offset <= offset <= state.log_end_offset:
            raise self._unreadable(offset)
        end = partition.last_stable_offset if isolation else partition.high_watermark
        if offset >= end or (max_bytes <= 0 and not minimum_one):
            return self._result([], 0, offset, offset, isolation)
        tail = self._log.tail
        found = tail.read(offset, max_bytes, end)
        if found is None:
            found = self._read_ahead.find(partition.log_id, offset, max_bytes, end)
            if found is None:
                return None
            self._go_on(found, max_bytes, end)
            return self._result(*found, offset, isolation)
        if is_empty_batch(found[0][0]):
            found = _skip_empty_batches(found, end, lambda start: tail.read(start, max_bytes, end))
        buffers, size, next_offset = found
        if size > max_bytes and not minimum_one:
            return self._result([], 0, offset, offset, isolation)
        if len(buffers) > MANY and size < SMALL * len(buffers):
            buffers = [b"".join(buffers)]
        if isolation:
            return self._result(buffers, size, next_offset, offset, isolation)
        return ReadResult(buffers, size, next_offset, end, partition.last_stable_offset, state.log_start_offset, None)

    async def read_stored(
        self, offset: Offset, max_bytes: int, isolation: Isolation, minimum_one: bool = True
    ) -> ReadResult:
        end, log_id = self._readable_end(offset, isolation), self._partition.log_id
        if offset >= end:
            return self._result([], 0, offset, offset, isolation)
        found = await self._read_ahead.join(log_id, offset, max_bytes, end)
        is_going_on = found is not None or self._read_ahead.is_next(log_id, offset)
        if found is None:
            found = await self.read_mended(lambda: _read_store(self._log.store, offset, max_bytes, end))
        self._readable_end(offset, isolation)  # the log's start may have moved meanwhile
        if is_going_on:
            self._go_on(found, max_bytes, end)
        else:
            self._read_ahead.ended(log_id, found[2])
        if found[1] > max_bytes and not minimum_one:
            return self._result([], 0, offset, offset, isolation)
        return self._result(*found, offset, isolation)

    def _readable_end(self, offset: Offset, isolation: Isolation) -> Offset:
        partition, state = self._partition, self._log.state
        if partition.is_dropped or not state.log_start_offset <= offset <= state.log_end_offset:
            raise self._unreadable(offset)
        return partition.last_stable_offset if isolation else partition.high_watermark

    def _unreadable(self, offset: Offset) -> KafkaError:
        if self._partition.is_dropped:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = self._log.state
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within [{state.log_start_offset}, {state.log_end_offset}]",
        )

    def _result(
        self, buffers: list[Buffer], size: int, next_offset: Offset, offset: Offset, isolation: Isolation
    ) -> ReadResult:
        aborted: list[Aborted] | None = None
        partition, state = self._partition, self._log.state
        if isolation:
            aborted = state.aborted.find(offset, next_offset) if buffers and state.aborted else []
        high, stable = partition.high_watermark, partition.last_stable_offset
        return ReadResult(buffers, size, next_offset, high, stable, state.log_start_offset, aborted)

    def available(self, offset: Offset, isolation: Isolation) -> int:
        """Bytes that a read at `offset` could give; for what is not in memory, an upper bound."""
        partition, state = self._partition, self._log.state
        end = partition.last_stable_offset if isolation else partition.high_watermark
        if partition.is_dropped or not state.log_start_offset <= offset <= state.log_end_offset:
            return ALWAYS_ENOUGH
        if offset >= end:
            return 0
        found = self._log.tail.bytes_between(offset, end)
        return state.segments.size if found is None else found

    def _go_on(self, found: Found, max_bytes: int, end: Offset) -> None:
        """Read what follows, where the answer held as much as it might and there is more that memory does not have."""
        offset = found[2]
        if offset >= min(end, self._log.tail.start):
            return
        store = self._log.store
        self._read_ahead.begin(
            self._partition.log_id, offset, max_bytes, lambda: _read_store(store, offset, max_bytes, end)
        )

    async def first_at_or_after(self, timestamp: Millis, start: Offset, end: Offset) -> FoundOffset | None:
        """The first record in [start, end) whose timestamp is at least `timestamp`."""
        store, segment = self._log.store, self._log.state.segments.from_time(timestamp)
        if segment is None:
            return None
        return await self.read_mended(
            lambda: lookup.first_at_or_after(store, timestamp, segment=segment.base_offset, start=start, end=end)
        )

    async def newest(self, start: Offset, end: Offset) -> FoundOffset | None:
        """The first record in [start, end) that carries the newest timestamp."""
        store, segment = self._log.store, self._log.state.segments.with_newest()
        batch, timestamp = segment.max_timestamp_batch, segment.max_timestamp
        if timestamp < 0:
            return None
        return await self.read_mended(lambda: lookup.newest(store, batch, timestamp, start=start, end=end))

    async def read_mended(self, work: Callable[[], T]) -> T:
        """Carry out a read of the store in a worker thread. What it finds damaged is mended first, where that is possible.

        Raises CORRUPT_MESSAGE where it is not, KAFKA_STORAGE_ERROR where the disk fails.
        """
        loop = asyncio.get_running_loop()
        for _ in range(MOST_MENDED):
            try:
                return await loop.run_in_executor(None, work)
            except DamagedBatch as damage:
                await self._partition.mend(damage)
            except (StorageError, DamagedData) as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition} has too many damaged batches for one read")


def _read_store(store: PartitionStore, offset: Offset, max_bytes: int, end: Offset) -> Found:
    """In a worker thread."""

    def read(start: Offset) -> Found:
        run = store.read(start, max_bytes, end)
        return list(run.buffers), run.size, run.next_offset

    found = read(offset)
    return _skip_empty_batches(found, end, read) if found[0] and is_empty_batch(found[0][0]) else found


def _skip_empty_batches(found: Found, end: Offset, read: Callable[[Offset], Found | None]) -> Found:
    """Without leading batches that have no records, as far as records follow within a few reads."""
    for _ in range(READS_PAST_EMPTY_BATCHES):
        buffers, after = skip_empty_batches(found[0])
        if after is None:
            return buffers, sum(map(len, buffers)), found[2]
        empty = buffers, len(buffers[0]), after
        following = read(after) if after < end else None
        if following is None or not following[0]:
            break
        found = following
    return empty
