"""Reads of a topic from one point to another, in pages: for people and scripts, who are not consumers.

The records of several partitions come in the order of their times; those of one partition in the order of their offsets.
A page holds little in memory however long the range is, and tells by its cursor where the next one begins. Where a range
ends is settled with its first page: what is appended meanwhile does not lengthen it.

Times are found as Kafka finds offsets by time: a range begins with the first record that is not older than its start, and
ends before the first that is not older than its end. Records in between whose own times are outside are left out.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from kompat.errors import ErrorCode, KafkaError
from kompat.log.aborted import Aborted
from kompat.log.manager import Logs
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import BatchHeader, Record, iterate, read_header, split_batches
from kompat.types import Millis, Offset

PAGE_BYTES: Final = 4 << 20  # of keys and values in a page, if it is more than one record
SCANNED_BYTES: Final = 32 << 20  # of the log that is read for a page: a range may have few records that are wanted
CHUNK_BYTES: Final = 1 << 20  # that are read at once from all partitions together
LEAST_CHUNK: Final = 16 << 10

Wanted = Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """What to read. Without a start, from the log's beginning; without an end, up to what is committed now."""

    topic: str
    partitions: Sequence[int] | None = None  # None: all
    from_offset: int | None = None
    to_offset: int | None = None  # is not read itself
    from_time: Millis | None = None
    to_time: Millis | None = None  # neither is what has this time
    read_committed: bool = False  # without what was aborted, and up to the last stable offset

    @property
    def isolation(self) -> Isolation:
        return Isolation.READ_COMMITTED if self.read_committed else Isolation.READ_UNCOMMITTED

    def has_time_of(self, record: Record) -> bool:
        if self.from_time is not None and record.timestamp < self.from_time:
            return False
        return self.to_time is None or record.timestamp < self.to_time


@dataclass(frozen=True, slots=True)
class ReadRecord:
    topic: str
    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class ReadPage:
    records: Sequence[ReadRecord]
    cursor: str | None  # where to go on; None: that was all. A page may be empty and yet not the last.


@dataclass(slots=True)
class _Position:
    partition: int
    next: int
    end: int


class ReadService:
    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    async def read(
        self,
        wanted: ReadRange,
        *,
        limit: int = 100,
        cursor: str | None = None,
        keep: Wanted | None = None,
    ) -> ReadPage:
        """A page of the range; `keep` tells which records are wanted, where not all are. Raises KafkaError."""
        _check(wanted, limit)
        partitions = self._partitions(wanted)
        if cursor is None:
            positions = [await _resolve(wanted, partition) for partition in partitions.values()]
        else:
            positions = _decode(cursor, partitions)
        lanes = [_Lane(partitions[each.partition], each, wanted, keep, len(positions)) for each in positions]
        found = await _merge(lanes, limit)
        left = [lane.position for lane in lanes if lane.position.next < lane.position.end]
        return ReadPage(found, _encode(left) if left else None)

    async def stream(self, wanted: ReadRange, *, page: int = 500) -> AsyncIterator[ReadRecord]:
        """All of the range, page by page."""
        cursor: str | None = None
        while True:
            found = await self.read(wanted, limit=page, cursor=cursor)
            for record in found.records:
                yield record
            cursor = found.cursor
            if cursor is None:
                return

    def _partitions(self, wanted: ReadRange) -> dict[int, Partition]:
        if wanted.partitions is not None:
            found = {index: self._logs.find(wanted.topic, index) for index in wanted.partitions}
        else:
            found = {log.index: log for log in self._logs.all() if log.topic == wanted.topic}
        partitions = {index: log for index, log in sorted(found.items()) if log is not None}
        if not partitions or len(partitions) < len(found):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.topic} has no such partition here")
        return partitions


def _check(wanted: ReadRange, limit: int) -> None:
    if limit < 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a page has at least one record, not {limit}")
    for name, first, last in (
        ("offset", wanted.from_offset, wanted.to_offset),
        ("time", wanted.from_time, wanted.to_time),
    ):
        for value in (first, last):
            if value is not None and value < 0:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{value} is no {name}")
        if first is not None and last is not None and first > last:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the range ends at {name} {last}, before it begins at {first}")


async def _resolve(wanted: ReadRange, partition: Partition) -> _Position:
    end: int = partition.latest(wanted.isolation).offset
    first: int = partition.log_start_offset
    if wanted.from_time is not None:
        found = await partition.offset_for_time(wanted.from_time, wanted.isolation)
        first = max(first, found.offset) if found is not None else end
    if wanted.to_time is not None:
        found = await partition.offset_for_time(wanted.to_time, wanted.isolation)
        end = min(end, found.offset) if found is not None else end
    if wanted.from_offset is not None:
        first = max(first, wanted.from_offset)
    if wanted.to_offset is not None:
        end = min(end, wanted.to_offset)
    return _Position(partition.index, first, end)


class _Lane:
    """One partition's part of a page: the records that are next, a chunk at a time."""

    def __init__(
        self, log: Partition, position: _Position, wanted: ReadRange, keep: Wanted | None, others: int
    ) -> None:
        self.position = position
        self.scanned = 0  # bytes
        self.log = log
        self._wanted = wanted
        self._keep = keep
        self._chunk_bytes = max(LEAST_CHUNK, CHUNK_BYTES // others)
        self._chunk: Iterator[Record] = iter(())
        self._chunk_end = position.next

    async def next(self) -> Record | None:
        """The next record that is wanted; None where there is none, or none was found in one chunk."""
        record = self._next_in_chunk()
        if record is None and self.position.next < self.position.end:
            await self._read()
            record = self._next_in_chunk()
        return record

    def _next_in_chunk(self) -> Record | None:
        wanted, position = self._wanted, self.position
        for record in self._chunk:
            if record.offset >= position.end:
                break
            if record.offset >= position.next:
                if wanted.has_time_of(record) and (self._keep is None or self._keep(record)):
                    return record
                position.next = record.offset + 1
        position.next = max(position.next, min(self._chunk_end, position.end))
        return None

    async def _read(self) -> None:
        log, isolation = self.log, self._wanted.isolation
        offset = Offset(max(self.position.next, log.log_start_offset))
        if offset >= self.position.end:  # retention was faster
            self._chunk_end = self.position.end
            return
        read = log.read(offset, self._chunk_bytes, isolation)
        if read is None:
            read = await log.read_stored(offset, self._chunk_bytes, isolation)
        self.scanned += read.size
        # Where nothing is left to read, there is nothing up to the range's end.
        self._chunk_end = read.next_offset if read.next_offset > offset else Offset(self.position.end)
        batches = [batch for buffer in read.buffers for batch in split_batches(memoryview(buffer))]
        self._chunk = (record for batch in batches if _is_for_readers(batch, read.aborted) for record in iterate(batch))


def _is_for_readers(batch: memoryview, aborted: Sequence[Aborted] | None) -> bool:
    header = read_header(batch)
    return not header.is_control and not (header.is_transactional and _is_aborted(header, aborted or ()))


def _is_aborted(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )


async def _merge(lanes: Sequence[_Lane], limit: int) -> list[ReadRecord]:
    """The next records of all lanes by time, as far as the limits go."""
    heap: list[tuple[int, int, Record]] = []
    found: list[ReadRecord] = []
    size = 0
    waiting = list(range(len(lanes)))  # whose next record is not known
    while True:
        for number in waiting[:]:
            record = await lanes[number].next()
            if record is not None:
                heappush(heap, (record.timestamp, number, record))
            if record is not None or lanes[number].position.next >= lanes[number].position.end:
                waiting.remove(number)
        is_enough = sum(lane.scanned for lane in lanes) >= SCANNED_BYTES
        if waiting and not is_enough:
            continue  # what comes first is not known before all are
        if waiting or not heap or len(found) == limit or size > PAGE_BYTES or (is_enough and found):
            break
        _, number, record = heappop(heap)
        lane = lanes[number]
        lane.position.next = record.offset + 1
        size += len(record.key or b"") + len(record.value or b"")
        found.append(ReadRecord(lane.log.topic, lane.position.partition, record))
        waiting = [number]
    return found


def _encode(positions: Sequence[_Position]) -> str:
    listed = [[each.partition, each.next, each.end] for each in positions]
    return base64.urlsafe_b64encode(json.dumps(listed, separators=(",", ":")).encode()).decode()


def _decode(cursor: str, partitions: dict[int, Partition]) -> list[_Position]:
    try:
        listed = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        positions = [_Position(int(partition), int(start), int(end)) for partition, start, end in listed]
    except (ValueError, TypeError, binascii.Error):
        positions = []
    if not positions or any(each.partition not in partitions or each.next < 0 for each in positions):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this read")
    for each in positions:
        each.end = min(each.end, partitions[each.partition].high_watermark)
    return positions
