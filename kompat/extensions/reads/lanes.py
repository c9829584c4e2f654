"""One page of a read: the next records of each partition, a chunk at a time, merged by time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Protocol

from kompat.common.slices import Slice, sliced
from kompat.extensions.reads.sources import Source
from kompat.log.partition import Isolation
from kompat.protocol.records import Record

PAGE_BYTES: Final = 4 << 20  # of keys and values in a page, if it is more than one record
SCANNED_BYTES: Final = 32 << 20  # of the log that is read for a page: a range may have few matching records
CHUNK_BYTES: Final = 1 << 20  # that are read at once from all partitions together
LEAST_CHUNK: Final = 16 << 10
FIRST_WINDOW, LARGEST_WINDOW = 64, 4096  # offsets that are read together when reading backwards

Wanted = Callable[[Record], bool]


class Range(Protocol):
    @property
    def isolation(self) -> Isolation: ...

    def may_have_times_of(self, batch: memoryview) -> bool: ...

    def has_time_of(self, record: Record) -> bool: ...


@dataclass(slots=True)
class Position:
    """The rest of a partition: [next, end)."""

    partition: int
    next: int
    end: int


class Lane(Protocol):
    position: Position
    scanned: int  # bytes

    async def next(self) -> Record | None:
        """The next matching record; None if there is none, or none was found in one chunk."""
        ...

    def took(self, record: Record) -> None:
        """The record is part of the page."""
        ...

    def rank(self, record: Record) -> int:
        """The lower, the earlier."""
        ...


class Forward:
    """From the first to the last."""

    def __init__(self, source: Source, position: Position, wanted: Range, keep: Wanted | None, others: int) -> None:
        self.position = position
        self.scanned = 0
        self._source = source
        self._wanted = wanted
        self._keep = keep
        self._chunk_bytes = max(LEAST_CHUNK, CHUNK_BYTES // others)
        self._chunk: Iterator[Record] = iter(())
        self._chunk_end = position.next

    def took(self, record: Record) -> None:
        self.position.next = record.offset + 1

    def rank(self, record: Record) -> int:
        return record.timestamp

    async def next(self) -> Record | None:
        record = await self._next_in_chunk()
        if record is None and self.position.next < self.position.end:
            await self._read()
            record = await self._next_in_chunk()
        return record

    async def _next_in_chunk(self) -> Record | None:
        wanted, position, current = self._wanted, self.position, Slice()
        for record in self._chunk:
            if current.is_over:  # there may be many records, and few that match
                await current.pause()
            if record.offset >= position.end:
                break
            if record.offset >= position.next:
                if wanted.has_time_of(record) and (self._keep is None or self._keep(record)):
                    return record
                position.next = record.offset + 1
        position.next = max(position.next, min(self._chunk_end, position.end))
        return None

    async def _read(self) -> None:
        offset = self.position.next
        read = await self._source.read(offset, self._chunk_bytes, self._wanted.isolation)
        self.scanned += read.size
        # Where nothing is left to read, there is nothing up to the range's end.
        self._chunk_end = read.next_offset if read.next_offset > offset else self.position.end
        self._chunk = read.records(self._wanted.may_have_times_of)


class Backward:
    """Backwards: a log can only be read forwards, so a window of offsets is read at a time."""

    def __init__(self, source: Source, position: Position, wanted: Range, keep: Wanted | None, others: int) -> None:
        self.position = position
        self.scanned = 0
        self._source = source
        self._wanted = wanted
        self._keep = keep
        self._chunk_bytes = max(LEAST_CHUNK, CHUNK_BYTES // others)
        self._most_held = max(LEAST_CHUNK, PAGE_BYTES // others)
        self._window = FIRST_WINDOW
        self._found: deque[Record] = deque()  # matching records that were not returned yet, in the log's order
        self._low = position.end  # from here on it has been read

    def took(self, record: Record) -> None:
        self.position.end = record.offset

    def rank(self, record: Record) -> int:
        return -record.timestamp

    async def next(self) -> Record | None:
        if not self._found and self.position.next < self._low:
            await self._look_back()
        if self._found:
            return self._found.pop()
        self.position.end = max(self.position.next, min(self.position.end, self._low))
        return None

    async def _look_back(self) -> None:
        start = max(self.position.next, self._low - self._window)
        first_kept, offset, held = start, start, 0
        while offset < self._low:
            read = await self._source.read(offset, self._chunk_bytes, self._wanted.isolation)
            self.scanned += read.size
            async for record in sliced(read.records(self._wanted.may_have_times_of)):
                if start <= record.offset < self._low and self._is_wanted(record):
                    self._found.append(record)
                    held += _size(record)
            while held > self._most_held and len(self._found) > 1:  # what lies further back is read again
                dropped = self._found.popleft()
                held -= _size(dropped)
                first_kept = dropped.offset + 1
            if read.next_offset <= offset:
                break
            offset = read.next_offset
        self._low = first_kept
        if not self._found:
            self._window = min(2 * self._window, LARGEST_WINDOW)

    def _is_wanted(self, record: Record) -> bool:
        return self._wanted.has_time_of(record) and (self._keep is None or self._keep(record))


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


async def _nexts(lanes: Sequence[Lane], numbers: Sequence[int]) -> list[tuple[int, Record | None]]:
    """Of all these concurrently: each may need a request to another broker."""
    if len(numbers) == 1:
        return [(numbers[0], await lanes[numbers[0]].next())]
    return list(zip(numbers, await asyncio.gather(*(lanes[number].next() for number in numbers)), strict=True))


async def merge(lanes: Sequence[Lane], limit: int, max_bytes: int | None = None) -> list[tuple[int, Record]]:
    """The next records of all lanes by time, with their partitions, up to the limits."""
    most = PAGE_BYTES if max_bytes is None else min(PAGE_BYTES, max_bytes)
    heap: list[tuple[int, int, Record]] = []
    found: list[tuple[int, Record]] = []
    size = 0
    waiting = list(range(len(lanes)))  # whose next record is not known
    turn = Slice()
    while True:
        if turn.is_over:
            await turn.pause()
        for number, record in await _nexts(lanes, waiting):
            if record is not None:
                heappush(heap, (lanes[number].rank(record), number, record))
            if record is not None or lanes[number].position.next >= lanes[number].position.end:
                waiting.remove(number)
        is_enough = sum(lane.scanned for lane in lanes) >= SCANNED_BYTES
        if waiting and not is_enough:
            continue  # the order is only known when all of them are
        if waiting or not heap or len(found) == limit or size > most or (is_enough and found):
            break
        _, number, record = heappop(heap)
        lane = lanes[number]
        lane.took(record)
        size += _size(record)
        found.append((lane.position.partition, record))
        waiting = [number]
    return found
