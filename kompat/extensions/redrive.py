"""Dead letters: what their headers tell, the record that goes back, and which of them went. Pure.

Which letters of a partition were redriven is kept in its states, as runs of offsets:

| state's name | value |
| --- | --- |
| `r/d`, first offset | the last one |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import Any, Final, NamedTuple

from kompat.log.intake import StateWrite
from kompat.protocol.records import Record
from kompat.share.dead_letters import KAFKA, SPRING
from kompat.types import Millis, Offset

REDRIVE_COUNT: Final = "kompat-redrive-count"
MARK: Final = b"r/d"
AFTER_MARKS: Final = b"r/e"
_OFFSET, _INT, _LONG = Struct(">Q"), Struct(">i"), Struct(">q")


class LetterOrigin(NamedTuple):
    """Where a letter's record comes from, and why it is here."""

    topic: str
    partition: int
    offset: int
    group_id: str
    deliveries: int | None  # None: Spring does not tell
    cause: str

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """What two letters of the same record have in common."""
        return self.topic, self.partition, self.offset, self.group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    topic: str  # the dead-letter topic
    partition: int
    offset: Offset
    timestamp: Millis  # when it was written
    origin: LetterOrigin | None  # None: it is no dead letter, but something that somebody put there
    record: Record  # as it was in its topic, but for its place and time
    redrives: int  # how often the record had been redriven before it came here
    is_redriven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters are meant: those to which all of this applies."""

    offsets: Mapping[int, Collection[int]] | None = None  # by partition of the dead-letter topic
    topic: str | None = None  # that they come from
    group_id: str | None = None
    cause: str | None = None  # a part of what is told as the cause
    since: Millis | None = None  # when they were written
    until: Millis | None = None  # before this
    with_redriven: bool = False  # also those that were redriven already

    def takes(self, letter: Letter) -> bool:
        origin = letter.origin
        return (
            (self.with_redriven or not letter.is_redriven)
            and (self.offsets is None or letter.offset in self.offsets.get(letter.partition, ()))
            and (self.topic is None or (origin is not None and origin.topic == self.topic))
            and (self.group_id is None or (origin is not None and origin.group_id == self.group_id))
            and (self.cause is None or (origin is not None and self.cause.lower() in origin.cause.lower()))
            and (self.since is None or letter.timestamp >= self.since)
            and (self.until is None or letter.timestamp < self.until)
        )


def told(selection: Selection) -> list[Any]:
    """As one broker tells another."""
    offsets = selection.offsets
    listed = None if offsets is None else [[partition, list(each)] for partition, each in offsets.items()]
    rest = (selection.topic, selection.group_id, selection.cause, selection.since, selection.until)
    return [listed, *rest, selection.with_redriven]


def read_selection(told: Sequence[Any]) -> Selection:
    listed, topic, group_id, cause, since, until, with_redriven = told
    return Selection(
        offsets=None if listed is None else {partition: set(each) for partition, each in listed},
        topic=topic,
        group_id=group_id,
        cause=cause,
        since=since,
        until=until,
        with_redriven=with_redriven,
    )


def read_letter(topic: str, partition: int, record: Record, marks: Marks) -> Letter:
    return Letter(
        topic=topic,
        partition=partition,
        offset=Offset(record.offset),
        timestamp=Millis(record.timestamp),
        origin=_origin(dict(record.headers)),
        record=Record(
            record.offset, record.timestamp, record.key, record.value, [h for h in record.headers if not _is_told(h[0])]
        ),
        redrives=_count(record),
        is_redriven=record.offset in marks,
    )


def redriven(letter: Letter, place: int, now: Millis) -> Record:
    """What goes back: as it was, at a new time, for retention might take it at once by the old one."""
    headers = [each for each in letter.record.headers if each[0] != REDRIVE_COUNT]
    headers.append((REDRIVE_COUNT, b"%d" % (letter.redrives + 1)))
    return Record(place, now, letter.record.key, letter.record.value, headers)


def _is_told(name: str) -> bool:
    return name.startswith((KAFKA, SPRING))


def _origin(headers: Mapping[str, bytes | None]) -> LetterOrigin | None:
    try:
        if KAFKA + "topic" in headers:
            return LetterOrigin(
                _text(headers, KAFKA + "topic"),
                int(_text(headers, KAFKA + "partition")),
                int(_text(headers, KAFKA + "offset")),
                _text(headers, KAFKA + "group"),
                int(_text(headers, KAFKA + "delivery.count")),
                _text(headers, KAFKA + "message"),
            )
        if SPRING + "original-topic" in headers:
            return LetterOrigin(
                _text(headers, SPRING + "original-topic"),
                _INT.unpack(headers[SPRING + "original-partition"] or b"")[0],
                _LONG.unpack(headers[SPRING + "original-offset"] or b"")[0],
                (headers.get(SPRING + "original-consumer-group") or b"").decode(),
                None,
                (headers.get(SPRING + "exception-message") or b"").decode(),
            )
    except (KeyError, ValueError, StructError):
        pass  # somebody else's, whatever it looks like
    return None


def _text(headers: Mapping[str, bytes | None], name: str) -> str:
    return (headers[name] or b"").decode()


def _count(record: Record) -> int:
    text = (dict(record.headers).get(REDRIVE_COUNT) or b"").decode(errors="replace")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


@dataclass(slots=True)
class Marks:
    """The letters of a partition that were redriven."""

    _firsts: list[int] = field(default_factory=list)
    _lasts: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, states: Iterable[tuple[bytes, bytes]]) -> Marks:
        marks = cls()
        for name, value in states:
            marks._firsts.append(_OFFSET.unpack(name[len(MARK) :])[0])
            marks._lasts.append(_OFFSET.unpack(value)[0])
        return marks

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and self._lasts[at] >= offset

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in zip(self._firsts, self._lasts, strict=True))

    def count(self, start: int) -> int:
        """From an offset on."""
        return sum(max(0, last - max(first, start) + 1) for first, last in zip(self._firsts, self._lasts, strict=True))

    def end_of_run(self, offset: int) -> int:
        """Where those end that begin at the offset without a gap; the offset itself where it is none."""
        at = bisect_right(self._firsts, offset) - 1
        return self._lasts[at] + 1 if at >= 0 and self._lasts[at] >= offset else offset

    def add(self, offsets: Sequence[int], log_start: int) -> list[StateWrite]:
        """Mark these, in ascending order, and forget what the log has forgotten: what is to be written."""
        before = dict(zip(self._firsts, self._lasts, strict=True))
        runs = {first: last for first, last in before.items() if last >= log_start}
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*runs.items(), *((offset, offset) for offset in offsets)]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        after = dict(merged)
        self._firsts, self._lasts = list(after), list(after.values())
        writes: list[StateWrite] = [(_name(first), None) for first in before if first not in after]
        writes += [(_name(first), _OFFSET.pack(last)) for first, last in after.items() if before.get(first) != last]
        return writes


def _name(first: int) -> bytes:
    return MARK + _OFFSET.pack(first)
