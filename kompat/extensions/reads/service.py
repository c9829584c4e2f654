"""Reads of a topic from one point to another, in pages: for people and scripts, who are not consumers.

The records of several partitions come in the order of their times; those of one partition in the order of their offsets.
Any broker of a cluster can be asked: partitions are read where they are led.
A page holds little in memory however long the range is, and tells by its cursor where the next one begins. Where a range
ends is settled with its first page: what is appended meanwhile does not lengthen it.

A range of times has all records whose times are in it, wherever they lie: producers' clocks differ, so a log is not in the order of its
times. It begins where Kafka finds its start, at the first record that is not older, and goes on to the log's end, for any record
there may be older than the one before it. Batches that have nothing of it are passed over unopened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.reads import cursors
from kompat.extensions.reads.lanes import Backward, Forward, Lane, Position, Wanted, merge
from kompat.extensions.reads.sources import FindBounds, PartitionSource, ReadChunk, Source, find_bounds, read_chunk
from kompat.log.partition import Isolation
from kompat.protocol.records import BatchHeader, Record, check_batch, read_header
from kompat.rpc.router import Router
from kompat.types import NO_TIMESTAMP, Millis


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

    def may_have_times_of(self, batch: memoryview) -> bool:
        """Whether a record of the batch may be in the range, by what is known without opening it."""
        if self.from_time is None and self.to_time is None:
            return True
        header = read_header(batch)
        if self.from_time is not None and header.max_timestamp < self.from_time:
            return False
        if self.to_time is None or header.max_timestamp < self.to_time:
            return True
        return not header.timestamp_type and _oldest(batch, header) < self.to_time

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
    next_offsets: Mapping[int, int]  # by partition: what comes after the page, on the way forward


class ReadService:
    def __init__(self, partitions: PartitionLookup, rpc: Router) -> None:
        self._partitions = partitions
        self._rpc = rpc
        rpc.serve(FindBounds, find_bounds)
        rpc.serve(ReadChunk, read_chunk)

    async def read(
        self,
        wanted: ReadRange,
        *,
        limit: int = 100,
        cursor: str | None = None,
        keep: Wanted | None = None,
        backward: bool = False,
        max_bytes: int | None = None,
    ) -> ReadPage:
        """A page of the range; `keep` tells which records are wanted, where not all are. Raises KafkaError.

        `backward`: the range's last records first, and so on to its start. `max_bytes`: of keys and values together, unless
        it is a single record.
        """
        _check(wanted, limit)
        log_ids = sorted(self._partitions.log_ids(wanted.topic, wanted.partitions), key=lambda each: each.partition)
        sources = {each.partition: PartitionSource(self._rpc, each) for each in log_ids}
        if cursor is None:
            positions = await asyncio.gather(*(_resolve(wanted, source) for source in sources.values()))
        else:
            positions = _decode(cursor, sources)
            if backward:
                positions = await asyncio.gather(
                    *(_within(wanted, sources[each.partition], each) for each in positions)
                )
        share = len(positions)
        lanes: list[Lane] = [
            (Backward if backward else Forward)(sources[each.partition], each, wanted, keep, share)
            for each in positions
            if each.next < each.end
        ]
        found = [ReadRecord(wanted.topic, *each) for each in await merge(lanes, limit, max_bytes)]
        left = [lane.position for lane in lanes if lane.position.next < lane.position.end]
        return ReadPage(found, _encode(left) if left else None, {each.partition: each.next for each in positions})

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


def _oldest(batch: memoryview, header: BatchHeader) -> int:
    """The time of a batch's oldest record; where it is damaged, of none: whoever opens it finds out."""
    if header.record_count == 1:
        return header.max_timestamp
    try:
        return check_batch(batch).min_timestamp
    except KafkaError:
        return NO_TIMESTAMP


async def _resolve(wanted: ReadRange, source: Source) -> Position:
    bounds = await source.bounds(wanted.isolation, wanted.from_time)
    first, end = bounds.start, bounds.end
    if wanted.from_time is not None:
        first = max(first, bounds.from_time) if bounds.from_time is not None else end
    if wanted.from_offset is not None:
        first = max(first, wanted.from_offset)
    if wanted.to_offset is not None:
        end = min(end, wanted.to_offset)
    return Position(source.index, min(first, max(end, bounds.start)), end)


async def _within(wanted: ReadRange, source: Source, position: Position) -> Position:
    """A position from outside, cut down to what there is."""
    bounds = await source.bounds(wanted.isolation, None)
    return Position(position.partition, max(position.next, bounds.start), min(position.end, bounds.end))


def _encode(positions: Sequence[Position]) -> str:
    return cursors.encode([[each.partition, each.next, each.end] for each in positions])


def _decode(cursor: str, sources: Mapping[int, Source]) -> list[Position]:
    positions = {row[0]: Position(*row) for row in cursors.decode(cursor, 3)}
    if not positions.keys() <= sources.keys():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this read")
    return list(positions.values())
