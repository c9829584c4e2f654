"""A record that waits for its time, and how it is kept. Pure.

| state's name | value |
| --- | --- |
| `d/s` | how many wait, their bytes, and a time before which none is due |
| `d/t`, due, slot | a parked record |
| `d/x`, producer, slot | one of a transaction that has not ended |
| `d/p`, slot | its due time, and its producer while its transaction has not ended |
| `d/i`, schedule id | slot of the record that waits under this id |

A parked record is its codec, due time, schedule id, and a record batch that holds it as it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from kompat.protocol.records import Record, build_batch, iterate
from kompat.types import Millis, Offset, ProducerId

SUMMARY: Final = b"d/s"
TIMER: Final = b"d/t"
UNDECIDED: Final = b"d/x"
PLACE: Final = b"d/p"
SCHEDULE: Final = b"d/i"
AFTER_TIMERS: Final = b"d/u"
NEVER: Final = Millis(2**63 - 1)
COMPRESSED_FROM: Final = 1024  # bytes; a codec gains nothing on less

_PAIR = Struct(">QQ")
_NUMBER = Struct(">Q")
_PLACE = Struct(">Qq")
_HEAD = Struct(">BBQH")  # version, codec, due, length of the schedule id
_SUMMARY = Struct(">BQQQQ")
_VERSION = 1


@dataclass(slots=True)
class Parked:
    slot: Offset
    due: Millis
    codec: int  # of the batch it came in
    schedule_id: str | None
    record: Record | None  # None: it only ends the wait of another with its schedule id

    def encode(self) -> bytes:
        schedule_id = (self.schedule_id or "").encode()
        head = _HEAD.pack(_VERSION, self.codec, self.due, len(schedule_id))
        if self.record is None:
            return head + schedule_id
        record = self.record
        size = len(record.key or b"") + len(record.value or b"")
        codec = self.codec if size >= COMPRESSED_FROM else 0
        return b"".join((head, schedule_id, build_batch([record], base_offset=self.slot, compression=codec)))


class Head(NamedTuple):
    """What is known of a parked record without opening it."""

    codec: int
    due: Millis
    schedule_id: str | None
    size: int  # of the head itself


def head(value: bytes) -> Head:
    _, codec, due, length = _HEAD.unpack_from(value)
    end = _HEAD.size + length
    return Head(codec, Millis(due), value[_HEAD.size : end].decode() or None, end)


def decode(slot: Offset, value: bytes) -> Parked:
    codec, due, schedule_id, end = head(value)
    record = next(iterate(memoryview(value)[end:])) if len(value) > end else None
    return Parked(slot, due, codec, schedule_id, record)


@dataclass(slots=True)
class Summary:
    """What a partition's parked records come to."""

    waiting: int = 0
    undecided: int = 0  # in transactions that have not ended
    size: int = 0  # in bytes, of both
    none_before: Millis = NEVER  # no record is due earlier than this, but the first may be later

    def encode(self) -> bytes:
        return _SUMMARY.pack(_VERSION, self.waiting, self.undecided, self.size, self.none_before)

    @classmethod
    def decode(cls, value: bytes | None) -> Summary:
        if value is None:
            return cls()
        _, waiting, undecided, size, none_before = _SUMMARY.unpack(value)
        return cls(waiting, undecided, size, Millis(none_before))


def timer_name(due: Millis, slot: Offset) -> bytes:
    return TIMER + _PAIR.pack(due, slot)


def timer_of(name: bytes) -> tuple[Millis, Offset]:
    due, slot = _PAIR.unpack_from(name, len(TIMER))
    return Millis(due), Offset(slot)


def undecided_name(producer_id: int, slot: Offset) -> bytes:
    return UNDECIDED + _PAIR.pack(producer_id, slot)


def undecided_slot(name: bytes) -> Offset:
    return Offset(_PAIR.unpack_from(name, len(UNDECIDED))[1])


def place_name(slot: Offset) -> bytes:
    return PLACE + _NUMBER.pack(slot)


def schedule_name(schedule_id: str) -> bytes:
    return SCHEDULE + schedule_id.encode()


def encode_slot(slot: Offset) -> bytes:
    return _NUMBER.pack(slot)


def decode_slot(value: bytes) -> Offset:
    return Offset(_NUMBER.unpack(value)[0])


def encode_place(due: Millis, producer_id: int) -> bytes:
    return _PLACE.pack(due, producer_id)


def decode_place(value: bytes) -> tuple[Millis, ProducerId]:
    due, producer_id = _PLACE.unpack(value)
    return Millis(due), ProducerId(producer_id)
