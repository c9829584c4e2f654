"""Dead-letter records: their headers, the record that is redriven, and which were redriven. Pure.

Which dead-letter records of a partition were redriven is stored in its states, as runs of offsets:

| state's name | value |
| --- | --- |
| `r/d`, first offset | the last one |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import Final, NamedTuple

from kompat.extensions.dead_letters.share_groups import KAFKA, SPRING
from kompat.log.interceptor import StateWrite
from kompat.protocol.records import Record
from kompat.types import Millis, Offset

REDRIVE_COUNT: Final = "kompat-redrive-count"
MARK: Final = b"r/d"
AFTER_MARKS: Final = b"r/e"
_OFFSET, _INT, _LONG = Struct(">Q"), Struct(">i"), Struct(">q")


class DeadLetterOrigin(NamedTuple):
    """Where the original record was, and why it was rejected."""

    topic: str
    partition: int
    offset: int
    group_id: str
    deliveries: int | None  # None: Spring's headers do not have it
    cause: str

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """The same for two dead-letter records of one original record."""
        return self.topic, self.partition, self.offset, self.group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    topic: str  # the dead-letter topic
    partition: int
    offset: Offset
    timestamp: Millis  # when it was written
    origin: DeadLetterOrigin | None  # None: it is not a dead-letter record, but was produced by a client
    record: Record  # the original record, but for its position and time
    redrives: int  # how many times it had been redriven before
    is_redriven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects the dead-letter records that meet all of these conditions."""

    offsets: Mapping[int, frozenset[int]] | None = None  # by partition of the dead-letter topic
    topic: str | None = None  # of the original record
    group_id: str | None = None
    cause: str | None = None  # a part of the cause
    since: Millis | None = None  # when they were written
    until: Millis | None = None  # before this
    with_redriven: bool = False  # also those that were redriven already

    def takes(self, dead_letter: DeadLetterRecord) -> bool:
        origin = dead_letter.origin
        return (
            (self.with_redriven or not dead_letter.is_redriven)
            and (self.offsets is None or dead_letter.offset in self.offsets.get(dead_letter.partition, ()))
            and (self.topic is None or (origin is not None and origin.topic == self.topic))
            and (self.group_id is None or (origin is not None and origin.group_id == self.group_id))
            and (self.cause is None or (origin is not None and self.cause.lower() in origin.cause.lower()))
            and (self.since is None or dead_letter.timestamp >= self.since)
            and (self.until is None or dead_letter.timestamp < self.until)
        )


def read_dead_letter(topic: str, partition: int, record: Record, marks: Marks) -> DeadLetterRecord:
    return DeadLetterRecord(
        topic=topic,
        partition=partition,
        offset=Offset(record.offset),
        timestamp=Millis(record.timestamp),
        origin=_origin(dict(record.headers)),
        record=Record(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            [h for h in record.headers if not _is_origin_header(h[0])],
        ),
        redrives=_count(record),
        is_redriven=record.offset in marks,
    )


def redriven(dead_letter: DeadLetterRecord, place: int, now: Millis) -> Record:
    """The redriven record: the original with a new timestamp, because retention might delete it at once by the old one."""
    headers = [each for each in dead_letter.record.headers if each[0] != REDRIVE_COUNT]
    headers.append((REDRIVE_COUNT, b"%d" % (dead_letter.redrives + 1)))
    return Record(place, now, dead_letter.record.key, dead_letter.record.value, headers)


def _is_origin_header(name: str) -> bool:
    return name.startswith((KAFKA, SPRING))


def _origin(headers: Mapping[str, bytes | None]) -> DeadLetterOrigin | None:
    try:
        if KAFKA + "topic" in headers:
            return DeadLetterOrigin(
                _text(headers, KAFKA + "topic"),
                int(_text(headers, KAFKA + "partition")),
                int(_text(headers, KAFKA + "offset")),
                _text(headers, KAFKA + "group"),
                int(_text(headers, KAFKA + "delivery.count")),
                _text(headers, KAFKA + "message"),
            )
        if SPRING + "original-topic" in headers:
            return DeadLetterOrigin(
                _text(headers, SPRING + "original-topic"),
                _INT.unpack(headers[SPRING + "original-partition"] or b"")[0],
                _LONG.unpack(headers[SPRING + "original-offset"] or b"")[0],
                (headers.get(SPRING + "original-consumer-group") or b"").decode(),
                None,
                (headers.get(SPRING + "exception-message") or b"").decode(),
            )
    except (KeyError, ValueError, StructError):
        pass  # not a dead-letter record's, though it looks like one
    return None


def _text(headers: Mapping[str, bytes | None], name: str) -> str:
    return (headers[name] or b"").decode()


def _count(record: Record) -> int:
    text = (dict(record.headers).get(REDRIVE_COUNT) or b"").decode(errors="replace")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


@dataclass(slots=True)
class Marks:
    """The dead-letter records of a partition that were redriven."""

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
        """The end of the run that contains the offset; the offset itself if there is none."""
        at = bisect_right(self._firsts, offset) - 1
        return self._lasts[at] + 1 if at >= 0 and self._lasts[at] >= offset else offset

    def add(self, offsets: Sequence[int], log_start: int) -> list[StateWrite]:
        """Mark these, in ascending order, and remove marks before the log start; returns the state writes."""
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
