"""Pages of dead-letter records from one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.extensions.dead_letters import redrive
from kompat.extensions.dead_letters.redrive import DeadLetterRecord, Marks, Selection
from kompat.log.aborted import Aborted
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import Record, iterate, read_header, split_batches
from kompat.types import Offset

READ_BYTES = 256 << 10
PAGE_BYTES = 4 << 20  # of keys and values, if it is more than one record
MOST_LOOKED_AT = 10_000  # records read for one page: a selection may match none of them
_NO_LIMIT = 2**62


class PartPage(NamedTuple):
    """Some dead-letter records of a partition."""

    dead_letters: list[DeadLetterRecord]
    next_offset: int | None  # where to continue; None: there are no more
    looked_at: int


async def page_of(log: Partition, offset: int, selection: Selection, limit: int, most_looked_at: int) -> PartPage:
    marks = marks_of(log)
    at = Offset(max(offset, log.log_start_offset))
    found: list[DeadLetterRecord] = []
    looked_at = size = 0
    while at < log.last_stable_offset:
        records, after = await read(log, at)
        for record in records:
            dead_letter = redrive.read_dead_letter(log.topic, log.index, record, marks)
            looked_at += 1
            if selection.takes(dead_letter):
                found.append(dead_letter)
                size += len(record.key or b"") + len(record.value or b"")
            if len(found) >= limit or looked_at >= most_looked_at or size > PAGE_BYTES:
                return PartPage(found, record.offset + 1, looked_at)
        at = after
    return PartPage(found, None, looked_at)


def marks_of(log: Partition) -> Marks:
    try:
        return Marks.decode(log.store.state_range(redrive.MARK, redrive.AFTER_MARKS, _NO_LIMIT, _NO_LIMIT))
    except (StorageError, DamagedData) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


async def read(log: Partition, offset: Offset) -> tuple[list[Record], Offset]:
    """Some records from an offset on, and where to continue."""
    isolation = Isolation.READ_COMMITTED
    read = log.read(offset, READ_BYTES, isolation)
    if read is None:
        read = await log.read_around(offset, READ_BYTES, isolation)
    records = [
        record
        for buffer in read.buffers
        for batch in split_batches(memoryview(buffer))
        if not _is_hollow(batch, read.aborted or ())
        for record in iterate(batch)
        if record.offset >= offset
    ]
    return records, Offset(max(read.next_offset, offset + 1))


def _is_hollow(batch: memoryview, aborted: Sequence[Aborted]) -> bool:
    """Whether it is a marker, or part of an aborted transaction."""
    header = read_header(batch)
    if header.is_control or not header.is_transactional:
        return header.is_control
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
