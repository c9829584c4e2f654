"""Reads a machine's records from its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - it is one
from typing import Generic, TypeVar

from kompat.coordination.machine import BatchCodec, Unreadable
from kompat.coordination.skipped import Skipped
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.partition import Isolation, Partition, ReadResult
from kompat.protocol.records import read_header, split_batches
from kompat.types import Offset

R = TypeVar("R")

READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Written(Generic[R]):
    """The records of one batch of the log."""

    records: list[R]
    offsets: list[Offset]  # of each of them
    end: Offset  # the next offset after it
    size: int


def read_memory(partition: Partition, position: Offset) -> ReadResult | None:
    """None: it has to be read from the store."""
    return partition.read(position, READ_BYTES, Isolation.READ_UNCOMMITTED)


async def read(partition: Partition, position: Offset) -> ReadResult:
    """The committed batches from a position on, a few megabytes at a time."""
    try:
        found = read_memory(partition, position)
        if found is None:
            # Records about topics must not be skipped: without them the topics' data would be deleted.
            read = partition.read_stored if partition.store.is_vital else partition.read_around
            found = await read(position, READ_BYTES, Isolation.READ_UNCOMMITTED)
    except StorageError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return found


def decode(found: ReadResult, position: Offset, batches: BatchCodec[R], skipped: Skipped) -> Iterator[Written[R]]:
    """The records from a position on, batch by batch, without those that cannot be read."""
    for batch in (batch for buffer in found.buffers for batch in split_batches(memoryview(buffer))):
        header = read_header(batch)
        records: list[R] = []
        offsets: list[Offset] = []
        try:
            for offset, record in batches.decode(batch):
                if offset < position:
                    continue
                if isinstance(record, Unreadable):
                    skipped.skip(offset, record.error)
                else:
                    records.append(record)
                    offsets.append(offset)
        except (KafkaError, ValueError, StructError) as error:  # the batch itself is damaged: its rest is skipped
            skipped.skip(Offset(header.last_offset), error)
        yield Written(records, offsets, Offset(header.last_offset + 1), header.size)
