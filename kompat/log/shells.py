"""Batches without records: what is left where all records of a batch wait for their time, or were compacted away.

A reader has no use for them but to get past them: of several, the last is enough. Some clients take an answer without
records for the end of the log, so they are not given one while records follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kompat.protocol.records import Record, build_batch, read_header
from kompat.types import Buffer, Offset

AT_ONCE = 4096  # batches that one look passes over: it must not take long
_COUNT = Struct(">i")
_COUNT_AT = 57
_LENGTH_AT = 8
_LOG_OVERHEAD = 12
_unpack = _COUNT.unpack_from
_NO_KIND = b"\x00\x00\xff\xff"  # the key of a control record of a kind that there is not: every client passes over it


def is_shell(buffer: Buffer) -> bool:
    """Whether the first batch in the buffer has no records."""
    return not _unpack(buffer, _COUNT_AT)[0]


def after_shells(buffers: Sequence[Buffer]) -> tuple[list[Buffer], Offset | None]:
    """The batches from the first with records on; else the last shell, and the offset after it."""
    passed = 0
    for at, buffer in enumerate(buffers):
        position, size = 0, len(buffer)
        while position < size:
            if _unpack(buffer, position + _COUNT_AT)[0]:
                return [memoryview(buffer)[position:] if position else buffer, *buffers[at + 1 :]], None
            end = position + _LOG_OVERHEAD + _unpack(buffer, position + _LENGTH_AT)[0]
            passed += 1
            if passed == AT_ONCE or (end == size and at == len(buffers) - 1):
                shell = memoryview(buffer)[position:end]
                return [shell], Offset(read_header(shell).last_offset + 1)
            position = end
    return [], None


def as_control(shell: Buffer) -> Buffer:
    """A shell as it goes to a consumer that gets nothing else: as a control batch.

    librdkafka takes an answer without any record for one that was too small for the next record. It asks for ever more, and
    in the end tells its application of an error. A control record counts as one, and nobody is shown it.
    """
    header = read_header(shell)
    record = Record(header.last_offset, max(0, header.max_timestamp), _NO_KIND, b"")
    return build_batch([record], base_offset=header.base_offset, leader_epoch=header.leader_epoch, is_control=True)
