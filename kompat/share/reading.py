"""What a read of the log holds for a share group: which batches can be delivered, and the bytes of those that are."""

from __future__ import annotations

from collections.abc import Sequence

from kompat.log.aborted import Aborted
from kompat.log.partition import ReadResult
from kompat.protocol.records import BatchHeader, read_header
from kompat.share.machine.messages import AcquiredSpan, Found, Span
from kompat.share.requests import FetchedPartition
from kompat.types import Buffer, Offset


class Chunk:
    """Whole batches from the log, looked at from outside."""

    __slots__ = ("_batches", "_buffers", "found")

    def __init__(self, first: Offset, read: ReadResult) -> None:
        self._buffers = read.buffers
        self._batches: list[tuple[int, int, int, int, int]] = []  # first, last, buffer, from, to
        for index, buffer in enumerate(read.buffers):
            position, end = 0, len(buffer)
            while position < end:
                header = read_header(buffer, position)
                if not _is_hollow(header, read.aborted):
                    self._batches.append(
                        (header.base_offset, header.last_offset, index, position, position + header.size)
                    )
                position += header.size
        self.found = Found(first, read.next_offset, [Span(batch[0], batch[1]) for batch in self._batches])

    def take(self, spans: Sequence[AcquiredSpan], into: FetchedPartition) -> int:
        """Add the batches that hold records of the spans, unless they are there; their size. Neighbours stay in one piece."""
        pieces: list[tuple[int, int, int]] = []  # buffer, from, to
        wanted = iter(spans)
        span = next(wanted, None)
        for first, last, index, begin, end in self._batches:
            while span is not None and span.last < first:
                span = next(wanted, None)
            if span is None:
                break
            if span.first > last or last <= into.last_offset:
                continue
            into.last_offset = last
            if pieces and pieces[-1][0] == index and pieces[-1][2] == begin:
                pieces[-1] = (index, pieces[-1][1], end)
            else:
                pieces.append((index, begin, end))
        into.buffers += [self._piece(*piece) for piece in pieces]
        size = sum(end - begin for _, begin, end in pieces)
        into.size += size
        return size

    def _piece(self, index: int, begin: int, end: int) -> Buffer:
        buffer = self._buffers[index]
        return buffer if begin == 0 and end == len(buffer) else memoryview(buffer)[begin:end]


def _is_hollow(header: BatchHeader, aborted: Sequence[Aborted] | None) -> bool:
    """Nothing in it is for a consumer: an end marker, records that were taken out, a transaction that was aborted."""
    if header.is_control or header.record_count == 0:
        return True
    if not aborted or not header.is_transactional:
        return False
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
