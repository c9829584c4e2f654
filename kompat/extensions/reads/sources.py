"""Partitions that are read, wherever they are led."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple, Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.log.aborted import Aborted
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import BatchHeader, Record, iterate, read_header, split_batches
from kompat.rpc.messages import LeaderRequest
from kompat.rpc.router import Router
from kompat.types import LogId, Millis, Offset


class Bounds(NamedTuple):
    """What can be read of a partition, and the first record in it that is not older than a time; None: all are."""

    start: int
    end: int
    from_time: int | None


class Chunk(NamedTuple):
    buffers: Sequence[memoryview]  # each holds one or more whole batches
    size: int
    next_offset: int  # where to go on; not after the offset asked for: there is nothing more
    aborted: Sequence[Aborted]

    def records(self, is_wanted: Callable[[memoryview], bool]) -> Iterator[Record]:
        """Those that readers see, of the batches that are wanted."""
        batches = [batch for buffer in self.buffers for batch in split_batches(buffer)]
        return (
            record
            for batch in batches
            if _is_for_readers(batch, self.aborted) and is_wanted(batch)
            for record in iterate(batch)
        )


class FindBounds(LeaderRequest[Bounds], frozen=True):
    is_idempotent: ClassVar[bool] = True

    isolation: Isolation
    from_time: Millis | None


class ReadChunk(LeaderRequest[Chunk], frozen=True):
    """Batches from the one that holds the offset, or from the first there is after it."""

    is_idempotent: ClassVar[bool] = True

    offset: int
    max_bytes: int
    isolation: Isolation


class Source(Protocol):
    """A partition that can be read."""

    @property
    def index(self) -> int: ...

    async def bounds(self, isolation: Isolation, from_time: Millis | None) -> Bounds: ...

    async def read(self, offset: int, max_bytes: int, isolation: Isolation) -> Chunk:
        """As ReadChunk."""
        ...


class PartitionSource:
    def __init__(self, rpc: Router, log_id: LogId) -> None:
        self._rpc = rpc
        self._log_id = log_id

    @property
    def index(self) -> int:
        return self._log_id.partition

    async def bounds(self, isolation: Isolation, from_time: Millis | None) -> Bounds:
        return await self._rpc.call(self._log_id, FindBounds(isolation, from_time))

    async def read(self, offset: int, max_bytes: int, isolation: Isolation) -> Chunk:
        return await self._rpc.call(self._log_id, ReadChunk(offset, max_bytes, isolation))


# -- what the leader does ----------------------------------------------------------------------------------------------
async def find_bounds(log: Partition, request: FindBounds) -> Bounds:
    start, end = log.log_start_offset, log.latest(request.isolation).offset
    time = request.from_time
    found = None if time is None else await log.offset_for_time(time, request.isolation)
    return Bounds(start, end, None if found is None else found.offset)


async def read_chunk(log: Partition, request: ReadChunk) -> Chunk:
    wanted = Offset(max(request.offset, log.log_start_offset))  # retention may have been faster
    try:
        read = log.read(wanted, request.max_bytes, request.isolation)
        if read is None:
            read = await log.read_stored(wanted, request.max_bytes, request.isolation)
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return Chunk((), 0, request.offset, ())  # past the end
    return Chunk([memoryview(each) for each in read.buffers], read.size, read.next_offset, read.aborted or ())


def _is_for_readers(batch: memoryview, aborted: Sequence[Aborted]) -> bool:
    header = read_header(batch)
    return not header.is_control and not (header.is_transactional and _is_aborted(header, aborted))


def _is_aborted(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
