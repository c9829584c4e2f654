"""Which offsets of a partition hold traced records. Pure.

It is kept in memory, bounded, and as states of the partition: one for those of some milliseconds, written when their events
are.

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
from kompat.extensions.tracing.events import Home, Story

PREFIX: Final = b"t/o"
END: Final = b"t/p"

_OFFSET = Struct(">Q")
_ENTRY = Struct(">IB")
_LENGTH = Struct(">H")
_FOREIGN, _PARENT, _MESSAGE, _ELSEWHERE = 1, 2, 4, 8
_VERSION: Final = b"\1"

Entry = tuple[int, Story]  # an offset, and whose it is


class TracedOffsets:
    """In ascending order; the oldest are forgotten first."""

    __slots__ = ("_offsets", "_saved", "_stories", "_unsaved")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._stories: list[Story] = []
        self._saved: deque[tuple[int, int]] = deque()  # first offset, and how many: those in one state
        self._unsaved = 0  # how many follow

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, entries: Iterable[Entry]) -> None:
        """Records that lie after all that are known."""
        for offset, story in entries:
            self._offsets.append(offset)
            self._stories.append(story)
            self._unsaved += 1

    def unsaved(self) -> list[Entry]:
        """What is to be saved, in one state; it counts as saved from here on."""
        first, self._unsaved = len(self._offsets) - self._unsaved, 0
        found = list(zip(self._offsets[first:], self._stories[first:], strict=True))
        if found:
            self._saved.append((found[0][0], len(found)))
        return found

    def between(self, first: int, end: int) -> Iterator[Entry]:
        """Those in [first, end)."""
        offsets = self._offsets
        if not offsets or end <= offsets[0] or first > offsets[-1]:
            return iter(())
        low, high = bisect_left(offsets, first), bisect_left(offsets, end)
        return zip(offsets[low:high], self._stories[low:high], strict=True)

    def forget(self, limit: int, log_start: int) -> list[int]:
        """Keep no more than `limit`, and none of states that end before the log's start: the first offsets of those that go.

        Whole states go, and a quarter more than has to, so that it is seldom done.
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
        del self._stories[:count]
        return gone

    def cut(self, end: int) -> None:
        """The log ends there now: what lay behind was never written."""
        kept = bisect_left(self._offsets, end)
        lost = len(self._offsets) - kept
        del self._offsets[kept:]
        del self._stories[kept:]
        self._unsaved -= lost
        while self._unsaved < 0:
            _, size = self._saved.pop()
            self._unsaved += size


def state_name(base: int) -> bytes:
    return PREFIX + _OFFSET.pack(base)


def base_of(name: bytes) -> int:
    base: int = _OFFSET.unpack_from(name, len(PREFIX))[0]
    return base


class TracedHome(Home):
    """The partition that offsets are of: most stories follow from their record's place there."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes, topic: str, index: int) -> None:
        super().__init__(topic, index)
        self._key = key

    def story(
        self, offset: int, trace_id: bytes | None = None, parent: bytes = b"", message_id: str | None = None
    ) -> Story:
        """That of a record that begins here."""
        record = f"{self.topic}/{self.index}/{offset}"
        if trace_id is None:
            return Story(place_id(self._key, offset), record, parent, message_id, is_own=True)
        return Story(trace_id, record, parent, message_id)

    # -- as a state ------------------------------------------------------------------------------------------------
    def encode(self, base: int, entries: Sequence[Entry]) -> bytes:
        return _VERSION + b"".join(self._encode(base, offset, story) for offset, story in entries)

    def _encode(self, base: int, offset: int, story: Story) -> bytes:
        record = f"{self.topic}/{self.index}/{offset}"
        is_here = story.record == record
        if story.is_own and is_here and story.message_id is None and not story.parent_id:
            return _ENTRY.pack(offset - base, 0)
        flags, parts = 0, []
        if not (story.is_own and is_here):
            flags |= _FOREIGN
            parts.append(story.trace_id)
        if story.parent_id:
            flags |= _PARENT
            parts.append(story.parent_id)
        if story.message_id is not None:
            flags |= _MESSAGE
            parts.append(_packed(story.message_id))
        if not is_here:
            flags |= _ELSEWHERE
            parts.append(_packed(story.record))
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
            record, at = _text(value, at, flags & _ELSEWHERE)
            story = self.story(base + delta, trace_id or None, parent, message_id)
            if record is not None:
                story = Story(trace_id, record, parent, message_id)
            entries.append((base + delta, story))
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
