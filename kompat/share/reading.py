"""The batches of a read of the log that a share group can get, and their bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from struct import Struct

from kompat.log.aborted import Aborted
from kompat.log.partition import ReadResult
from kompat.protocol.batch import CONTROL, LOG_OVERHEAD, TRANSACTIONAL
from kompat.share.machine.messages import AcquiredSpan, Found, Span
from kompat.share.requests import FetchedPartition
from kompat.types import Buffer, Offset

# Only the fields of the batch header (see protocol/batch.py) that are needed here: there may be many small batches.
_HEADER = Struct(">qi9xhi16xq6xi")  # base offset, length, attributes, last offset delta, producer id, record count


class Chunk:
    """Whole batches from the log, of which only the headers are read."""

    __slots__ = ("_begins", "_buffers", "_ends", "_indices", "found")

    def __init__(self, first: Offset, read: ReadResult) -> None:
        self._buffers = read.buffers
        self._indices: list[int] = []  # of each batch: its buffer, and its position there
        self._begins: list[int] = []
        self._ends: list[int] = []
        firsts: list[int] = []
        lasts: list[int] = []
        holes: list[Span] = []
        offset: int = first  # all offsets before it are accounted for
        unpack = _HEADER.unpack_from
        for index, buffer in enumerate(read.buffers):
            begin, size = 0, len(buffer)
            while begin < size:
                base, length, attributes, delta, producer_id, count = unpack(buffer, begin)
                end = begin + LOG_OVERHEAD + length
                if count and not (attributes and _is_hollow(attributes, base, producer_id, read.aborted)):
                    if base > offset:
                        holes.append(Span(offset, base - 1))
                    offset = base + delta + 1
                    firsts.append(base)
                    lasts.append(base + delta)
                    self._indices.append(index)
                    self._begins.append(begin)
                    self._ends.append(end)
                begin = end
        if offset < read.next_offset:
            holes.append(Span(offset, read.next_offset - 1))
        self.found = Found(first, read.next_offset, firsts, lasts, holes)

    @classmethod
    def whole(cls, offset: Offset, read: ReadResult) -> Chunk:
        """The chunk from the start of the batch with the offset, so that it includes the batch's earlier records."""
        if read.buffers:
            offset = min(offset, Offset(_HEADER.unpack_from(read.buffers[0])[0]))
        return cls(offset, read)

    def sizes(self, span: Span) -> Iterator[tuple[int, int]]:
        """The batches that hold records of a span: first offset and size."""
        firsts, lasts = self.found.firsts, self.found.lasts
        for batch in range(bisect_left(lasts, span.first), bisect_right(firsts, span.last)):
            yield firsts[batch], self._ends[batch] - self._begins[batch]

    def take(self, spans: Sequence[AcquiredSpan], into: FetchedPartition) -> int:
        """Add the batches with records of the spans, each once; returns their size. Adjacent batches stay in one piece."""
        firsts, lasts = self.found.firsts, self.found.lasts
        pieces: list[tuple[int, int, int]] = []  # buffer, from, to
        for span in spans:
            after = max(span.first, into.last_offset + 1)
            for batch in range(bisect_left(lasts, after), bisect_right(firsts, span.last)):
                index, begin, end = self._indices[batch], self._begins[batch], self._ends[batch]
                if pieces and pieces[-1][0] == index and pieces[-1][2] == begin:
                    pieces[-1] = (index, pieces[-1][1], end)
                else:
                    pieces.append((index, begin, end))
                into.last_offset = lasts[batch]
        into.buffers += [self._piece(*piece) for piece in pieces]
        size = sum(end - begin for _, begin, end in pieces)
        into.size += size
        return size

    def _piece(self, index: int, begin: int, end: int) -> Buffer:
        buffer = self._buffers[index]
        return buffer if begin == 0 and end == len(buffer) else memoryview(buffer)[begin:end]


class Picked:
    """Records from several chunks, as long as the batches that contain them fit into one response."""

    def __init__(self, max_bytes: int) -> None:
        self._room = max_bytes
        self._batches: set[int] = set()  # by their first offsets
        self._chunks: list[Chunk] = []  # by offset
        self._spans: list[Span] = []
        self.is_full = False

    def holding(self, offset: int) -> Chunk | None:
        index = bisect_right(self._chunks, offset, key=_first)
        chunk = self._chunks[index - 1] if index else None
        return chunk if chunk is not None and offset < chunk.found.end else None

    def add(self, chunk: Chunk) -> Chunk:
        insort(self._chunks, chunk, key=_first)
        return chunk

    def pick(self, chunk: Chunk, span: Span) -> int:
        """Pick the chunk's records of a span, unless they are too many; returns the offset after them."""
        part = Span(span.first, min(span.last, chunk.found.end - 1))
        new = {first: size for first, size in chunk.sizes(part) if first not in self._batches}
        size = sum(new.values())
        if self._batches and size > self._room:
            self.is_full = True
        else:
            self._room -= size
            self._batches.update(new)
            self._spans.append(part)
        return part.last + 1

    def ascending(self) -> Iterator[tuple[Chunk, list[Span]]]:
        """The picked batches by chunks and offsets; none occurs twice, though chunks may overlap."""
        spans = sorted(self._spans)
        begin = 0
        for chunk in self._chunks:
            begin = max(begin, chunk.found.first)
            low = bisect_left(spans, begin, key=_last)
            end: int = chunk.found.end
            high = bisect_left(spans, end, key=_first_of)
            yield chunk, [Span(max(each.first, begin), min(each.last, end - 1)) for each in spans[low:high]]
            begin = max(begin, end)


def _first(chunk: Chunk) -> int:
    return chunk.found.first


def _first_of(span: Span) -> int:
    return span.first


def _last(span: Span) -> int:
    return span.last


def _is_hollow(attributes: int, base_offset: int, producer_id: int, aborted: Sequence[Aborted] | None) -> bool:
    """Whether no record in it is for consumers: it is a control batch, or of an aborted transaction."""
    if attributes & CONTROL:
        return True
    if not aborted or not attributes & TRANSACTIONAL:
        return False
    return any(
        each.producer_id == producer_id and each.first_offset <= base_offset <= each.last_offset for each in aborted
    )
