"""The offsets of a partition's traced records. Pure.

They are kept in memory, bounded, and as states of the partition: one state for those of some milliseconds, written when their
events are.

| state's name | value |
| --- | --- |
| `t/o`, an offset | the traced records from there on, up to the next such state |
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

from kompat.extensions.tracing.context import SPAN_ID_SIZE, TRACE_ID_SIZE, place_id
from kompat.extensions.tracing.events import PartitionLabel, RecordTrace

PREFIX: Final = b"t/o"
END: Final = b"t/p"

_OFFSET = Struct(">Q")
_ENTRY = Struct(">IB")
_LENGTH = Struct(">H")
_FOREIGN, _PARENT, _MESSAGE, _OTHER_RECORD = 1, 2, 4, 8
_VERSION: Final = b"\1"

Entry = tuple[int, RecordTrace]  # an offset, and its trace


class TracedOffsets:
    """In ascending order; the oldest are removed first."""

    __slots__ = ("_offsets", "_saved", "_traces", "_unsaved")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._traces: list[RecordTrace] = []
        self._saved: deque[tuple[int, int]] = deque()  # first offset, and how many: those in one state
        self._unsaved = 0  # how many follow

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add records after all others."""
        for offset, trace in entries:
            self._offsets.append(offset)
            self._traces.append(trace)
            self._unsaved += 1

    def unsaved(self) -> list[Entry]:
        """The records to be saved, in one state; from here on they count as saved."""
        first, self._unsaved = len(self._offsets) - self._unsaved, 0
        found = list(zip(self._offsets[first:], self._traces[first:], strict=True))
        if found:
            self._saved.append((found[0][0], len(found)))
        return found

    def between(self, first: int, end: int) -> Iterator[Entry]:
        """Those in [first, end)."""
        offsets = self._offsets
        if not offsets or end <= offsets[0] or first > offsets[-1]:
            return iter(())
        low, high = bisect_left(offsets, first), bisect_left(offsets, end)
        return zip(offsets[low:high], self._traces[low:high], strict=True)

    def forget(self, limit: int, log_start: int) -> list[int]:
        """Keep at most `limit`, and no states before the log start; returns the first offsets of the states that are removed.

        Whole states are removed, and a quarter more than necessary, so that it is seldom done.
        """
        gone, count = [], 0
        target = limit - limit // 4 if len(self._offsets) > limit else len(self._offsets)
        while self._saved and (
            len(self._offsets) - count > target or (len(self._saved) > 1 and self._saved[1][0] <= log_start)
        ):
            base, size = self._saved.popleft()
            gone.append(base)
            count += size
        del self._offsets[:count]
        del self._traces[:count]
        return gone

    def cut(self, end: int) -> None:
        """The log was truncated to there: records behind it were never written."""
        kept = bisect_left(self._offsets, end)
        lost = len(self._offsets) - kept
        del self._offsets[kept:]
        del self._traces[kept:]
        self._unsaved -= lost
        while self._unsaved < 0:
            _, size = self._saved.pop()
            self._unsaved += size


def state_name(base: int) -> bytes:
    return PREFIX + _OFFSET.pack(base)


def base_of(name: bytes) -> int:
    base: int = _OFFSET.unpack_from(name, len(PREFIX))[0]
    return base


class TracedPartition(PartitionLabel):
    """The partition of the offsets: most traces are computed from their record's position in it."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes, topic: str, index: int) -> None:
        super().__init__(topic, index)
        self._key = key

    def trace(
        self, offset: int, trace_id: bytes | None = None, parent: bytes = b"", message_id: str | None = None
    ) -> RecordTrace:
        """The trace of a record that begins here."""
        record = f"{self.topic}/{self.index}/{offset}"
        if trace_id is None:
            return RecordTrace(place_id(self._key, offset), record, parent, message_id, is_own=True)
        return RecordTrace(trace_id, record, parent, message_id)

    # -- as a state ------------------------------------------------------------------------------------------------
    def encode(self, base: int, entries: Sequence[Entry]) -> bytes:
        return _VERSION + b"".join(self._encode(base, offset, trace) for offset, trace in entries)

    def _encode(self, base: int, offset: int, trace: RecordTrace) -> bytes:
        record = f"{self.topic}/{self.index}/{offset}"
        is_here = trace.record == record
        if trace.is_own and is_here and trace.message_id is None and not trace.parent_id:
            return _ENTRY.pack(offset - base, 0)
        flags, parts = 0, []
        if not (trace.is_own and is_here):
            flags |= _FOREIGN
            parts.append(trace.trace_id)
        if trace.parent_id:
            flags |= _PARENT
            parts.append(trace.parent_id)
        if trace.message_id is not None:
            flags |= _MESSAGE
            parts.append(_packed(trace.message_id))
        if not is_here:
            flags |= _OTHER_RECORD
            parts.append(_packed(trace.record))
        return _ENTRY.pack(offset - base, flags) + b"".join(parts)

    def decode(self, base: int, value: bytes) -> list[Entry]:
        entries: list[Entry] = []
        at = len(_VERSION)
        while at < len(value):
            delta, flags = _ENTRY.unpack_from(value, at)
            at += _ENTRY.size
            trace_id, at = _take(value, at, TRACE_ID_SIZE if flags & _FOREIGN else 0)
            parent, at = _take(value, at, SPAN_ID_SIZE if flags & _PARENT else 0)
            message_id, at = _text(value, at, flags & _MESSAGE)
            record, at = _text(value, at, flags & _OTHER_RECORD)
            trace = self.trace(base + delta, trace_id or None, parent, message_id)
            if record is not None:
                trace = RecordTrace(trace_id, record, parent, message_id)
            entries.append((base + delta, trace))
        return entries


def _packed(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _take(value: bytes, at: int, size: int) -> tuple[bytes, int]:
    return value[at : at + size], at + size


def _text(value: bytes, at: int, is_there: int) -> tuple[str | None, int]:
    if not is_there:
        return None, at
    (length,) = _LENGTH.unpack_from(value, at)
    encoded, at = _take(value, at + _LENGTH.size, length)
    return encoded.decode(), at
