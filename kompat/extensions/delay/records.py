"""A delayed record, and how it is stored. Pure.

| state's name | value |
| --- | --- |
| `d/s` | how many wait, their bytes, and a position in their order before which there is none |
| `d/t`, due, slot | a parked record |
| `d/x`, producer, slot | one of an open transaction |
| `d/p`, slot | its due time, and its producer while its transaction is open |
| `d/i`, schedule id | slot of the record that waits under this id |

A parked record is a head with its due time and schedule id, and the record as it was sent; a large one is compressed as it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from kompat.log.packing import ADDED_BYTES, size_of
from kompat.protocol.compression import compress, decompress
from kompat.protocol.records import Record
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
_HEAD = Struct(">BBBQH")  # version, codec, codec of what follows, due, length of the schedule id
_RECORD = Struct(">qiii")  # timestamp, lengths of key and value, how many headers
_LENGTHS = Struct(">ii")
NULL: Final = -1  # as a length
_SUMMARY = Struct(">BQQQQQ")
_VERSION = 1


class Packed(NamedTuple):
    codec: int
    body: bytes


@dataclass(slots=True)
class DelayedRecord:
    slot: Offset
    due: Millis
    codec: int  # of the batch it came in
    schedule_id: str | None
    record: Record | None  # None: it only cancels another one with its schedule id
    packed: Packed | None = None  # the encoded record, if it is at hand

    @property
    def plain_size(self) -> int:
        """Its size in a batch, before compression."""
        return 0 if self.record is None else size_of(self.record) + ADDED_BYTES

    def encode(self) -> bytes:
        schedule_id = self.schedule_id.encode() if self.schedule_id is not None else b""
        codec, body = self.packed or pack(self.record, self.codec)
        return b"".join((_HEAD.pack(_VERSION, self.codec, codec, self.due, len(schedule_id)), schedule_id, body))


def pack(record: Record | None, codec: int) -> Packed:
    """The encoded record: the most expensive part of parking it."""
    body = _encode_record(record) if record is not None else b""
    return Packed(codec, compress(codec, body)) if codec and len(body) >= COMPRESSED_FROM else Packed(0, body)


class Head(NamedTuple):
    """What can be read of a parked record without decoding it."""

    codec: int
    packed: int  # the codec of what follows
    due: Millis
    schedule_id: str | None
    size: int  # of the head itself


def head(value: bytes) -> Head:
    _, codec, packed, due, length = _HEAD.unpack_from(value)
    end = _HEAD.size + length
    return Head(codec, packed, Millis(due), value[_HEAD.size : end].decode() if length else None, end)


def decode(slot: Offset, value: bytes) -> DelayedRecord:
    codec, packed, due, schedule_id, end = head(value)
    body = value[end:]
    if packed:
        body = decompress(packed, body)
    return DelayedRecord(slot, due, codec, schedule_id, _decode_record(slot, body) if body else None)


def _encode_record(record: Record) -> bytes:
    key, value = record.key, record.value
    parts = [
        _RECORD.pack(record.timestamp, _length(key), _length(value), len(record.headers)),
        key or b"",
        value or b"",
    ]
    for name, text in record.headers:
        encoded = name.encode()
        parts += (_LENGTHS.pack(len(encoded), _length(text)), encoded, text or b"")
    return b"".join(parts)


def _decode_record(slot: Offset, body: bytes) -> Record:
    timestamp, key_length, value_length, count = _RECORD.unpack_from(body)
    key, at = _take(body, _RECORD.size, key_length)
    value, at = _take(body, at, value_length)
    headers = []
    for _ in range(count):
        name_length, text_length = _LENGTHS.unpack_from(body, at)
        name, at = _take(body, at + _LENGTHS.size, name_length)
        text, at = _take(body, at, text_length)
        headers.append(((name or b"").decode(), text))
    return Record(slot, timestamp, key, value, tuple(headers))


def _length(part: bytes | None) -> int:
    return NULL if part is None else len(part)


def _take(body: bytes, at: int, length: int) -> tuple[bytes | None, int]:
    return (None, at) if length == NULL else (body[at : at + length], at + length)


@dataclass(slots=True)
class Summary:
    """The totals of a partition's parked records."""

    waiting: int = 0
    undecided: int = 0  # in open transactions
    size: int = 0  # in bytes, of both
    none_before: Millis = NEVER  # no record is due earlier than this, but the first may be later
    from_slot: Offset = Offset(0)  # noqa: RUF009 - nor has one of those due then an earlier slot

    def begin_with(self, due: Millis, slot: Offset) -> None:
        self.none_before, self.from_slot = due, slot

    def encode(self) -> bytes:
        return _SUMMARY.pack(_VERSION, self.waiting, self.undecided, self.size, self.none_before, self.from_slot)

    @classmethod
    def decode(cls, value: bytes | None) -> Summary:
        if value is None:
            return cls()
        _, waiting, undecided, size, none_before, from_slot = _SUMMARY.unpack(value)
        return cls(waiting, undecided, size, Millis(none_before), Offset(from_slot))


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
