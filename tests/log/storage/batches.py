"""Record batches as the store sees them: a length, a base offset, a checksum, and bytes."""

import random
import struct
from uuid import UUID

from kompat import _native
from kompat.log.storage.store import Entry, EntryKind, LogStore, PartitionStore
from kompat.types import Buffer, LogId, Millis, Offset, RaftIndex

HEADER_SIZE = 61
LOG = LogId(UUID(int=0x0123456789ABCDEF0123456789ABCDEF), 3)
OTHER = LogId(UUID(int=0x0123456789ABCDEF0123456789ABCDEF), 4)


def a_batch(base_offset: int, size: int = 100, seed: int = 0) -> bytes:
    size = max(size, HEADER_SIZE)
    body = random.Random(base_offset * 1000 + seed).randbytes(size - 21)
    crc = _native.crc32c(body)
    return struct.pack(">qiibI", base_offset, size - 12, 0, 2, crc) + body


def an_entry(index: int, base_offset: int, count: int = 1, size: int = 100, *, term: int = 1) -> Entry:
    return Entry(
        RaftIndex(index),
        term,
        EntryKind.DATA,
        Offset(base_offset),
        Offset(base_offset + count - 1),
        max(size, HEADER_SIZE),
        Millis(1000 + base_offset),
        0,
        -1,
        -1,
        -1,
    )


def write(store: LogStore, log: LogId, first: int, last: int, size: int, segment: int = 0) -> None:
    """Append batches of one record at offsets `first` to `last`, one turn for each."""
    partition = store.open(log)
    for offset in range(first, last + 1):
        partition.append(an_entry(offset + 1, offset, 1, size), a_batch(offset, size), Offset(segment))
        store.flush()


def content(partition: PartitionStore, first: int = 0, end: int = 1 << 60) -> bytes:
    """Everything from `first` on."""
    parts: list[Buffer] = []
    offset = Offset(first)
    while True:
        run = partition.read(offset, 1 << 20, Offset(end))
        if not run.size:
            return b"".join(parts)
        parts += run.buffers
        offset = run.next_offset


def expected(first: int, last: int, size: int) -> bytes:
    return b"".join(a_batch(offset, size) for offset in range(first, last + 1))
