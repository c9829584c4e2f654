"""Batches without records: what remains where all records of a batch are delayed, or were compacted away.

A reader only has to get past them, so of several the last is enough. Some clients take a response without records for the
end of the log, so they do not get one while records follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kompat.protocol.batch import COUNT_AT, LENGTH_AT, LOG_OVERHEAD
from kompat.protocol.records import Record, build_batch, read_header
from kompat.types import Buffer, Offset

AT_ONCE = 4096  # batches that are skipped at once, to bound the time
_COUNT = Struct(">i")
_unpack = _COUNT.unpack_from
_NO_KIND = b"\x00\x00\xff\xff"  # the key of a control record of an unknown type: every client skips it


def is_empty_batch(buffer: Buffer) -> bool:
    """Whether the first batch in the buffer has no records."""
    return not _unpack(buffer, COUNT_AT)[0]


def skip_empty_batches(buffers: Sequence[Buffer]) -> tuple[list[Buffer], Offset | None]:
    """The batches from the first one with records on; if there is none, the last empty batch and the offset after it."""
    passed = 0
    for at, buffer in enumerate(buffers):
        position, size = 0, len(buffer)
        while position < size:
            if _unpack(buffer, position + COUNT_AT)[0]:
                return [memoryview(buffer)[position:] if position else buffer, *buffers[at + 1 :]], None
            end = position + LOG_OVERHEAD + _unpack(buffer, position + LENGTH_AT)[0]
            passed += 1
            if passed == AT_ONCE or (end == size and at == len(buffers) - 1):
                empty = memoryview(buffer)[position:end]
                return [empty], Offset(read_header(empty).last_offset + 1)
            position = end
    return [], None


def as_control(empty: Buffer) -> Buffer:
    """The control batch that a consumer gets in place of an empty batch, where it gets nothing else.

    librdkafka takes a response without any record for one that was too small for the next record. It raises its fetch size
    again and again, and in the end returns an error to its application. A control record counts as a record, and is hidden
    from the application.
    """
    header = read_header(empty)
    record = Record(header.last_offset, max(0, header.max_timestamp), _NO_KIND, b"")
    return build_batch([record], base_offset=header.base_offset, leader_epoch=header.leader_epoch, is_control=True)
