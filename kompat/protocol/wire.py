"""The protocol's primitive types: readers take (data, pos) and give (value, next pos), writers append to a bytearray.

Readers trust nothing: lengths are checked against the bytes that are there before anything is allocated. They raise
ProtocolError, and where a fixed-size value is cut off, struct.error or IndexError: see MALFORMED.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from kompat.errors import ProtocolError
from kompat.types import ZERO_UUID, Buffer

T = TypeVar("T")
Reader = Callable[[memoryview, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]

# What reading malformed bytes may raise; the callers of the readers turn it into a ProtocolError.
MALFORMED = (struct.error, IndexError, UnicodeDecodeError)

_unpack_int16 = struct.Struct(">h").unpack_from
_unpack_int32 = struct.Struct(">i").unpack_from
_pack_int16 = struct.Struct(">h").pack
_pack_int32 = struct.Struct(">i").pack

UUID_SIZE = 16
MORE = 0x80  # in a byte of a varint: others follow
MAX_VARINT_SHIFT = 28
MOST_TAGS_OF_ITEMS = 10_000  # of all structures in the lists of a body that is read at once
MOST_TAGS = 64  # of one structure; no message has more than a few, and each costs time even if it is empty
NULL_STRUCT = -1

# Topic ids come with every request of a client: looking one up is ten times cheaper than building it.
_known_uuids: dict[bytes, UUID] = {}
MAX_KNOWN_UUIDS = 20_000


def _too_long(count: int, data: memoryview, pos: int) -> ProtocolError:
    return ProtocolError(f"a length of {count} at byte {pos}, where {len(data) - pos} are left")


# -- reading ---------------------------------------------------------------------------------------------------------
def read_uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    value = data[pos]
    pos += 1
    if value < MORE:
        return value, pos
    value &= 0x7F
    for shift in range(7, MAX_VARINT_SHIFT + 1, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < MORE:
            return value, pos
    raise ProtocolError("a varint of more than five bytes")


def _text(data: memoryview, pos: int, length: int) -> tuple[str, int]:
    end = pos + length
    if length < 0:
        raise ProtocolError("null where a string has to be")
    if end > len(data):
        raise _too_long(length, data, pos)
    return str(data[pos:end], "utf-8"), end


def read_string(data: memoryview, pos: int) -> tuple[str, int]:
    return _text(data, pos + 2, _unpack_int16(data, pos)[0])


def read_nullable_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    length = _unpack_int16(data, pos)[0]
    return (None, pos + 2) if length == -1 else _text(data, pos + 2, length)


def read_compact_string(data: memoryview, pos: int) -> tuple[str, int]:
    length = data[pos]
    if 0 < length < MORE and pos + length < len(data):  # nearly always: spares two calls
        return str(data[pos + 1 : pos + length], "utf-8"), pos + length
    length, pos = read_uvarint(data, pos)
    return _text(data, pos, length - 1)


def read_nullable_compact_string(data: memoryview, pos: int) -> tuple[str | None, int]:
    if data[pos] == 0:
        return None, pos + 1
    return read_compact_string(data, pos)


def _slice(data: memoryview, pos: int, length: int) -> tuple[memoryview, int]:
    end = pos + length
    if length < 0:
        raise ProtocolError("null where bytes have to be")
    if end > len(data):
        raise _too_long(length, data, pos)
    return data[pos:end], end


def read_records(data: memoryview, pos: int) -> tuple[memoryview | None, int]:
    """A slice of the data itself, not a copy."""
    length = _unpack_int32(data, pos)[0]
    return (None, pos + 4) if length == -1 else _slice(data, pos + 4, length)


def read_compact_records(data: memoryview, pos: int) -> tuple[memoryview | None, int]:
    length, pos = read_uvarint(data, pos)
    end = pos + length - 1
    if length > 0 and end <= len(data):
        return data[pos:end], end
    return (None, pos) if length == 0 else _slice(data, pos, length - 1)


def read_bytes(data: memoryview, pos: int) -> tuple[bytes, int]:
    view, pos = _slice(data, pos + 4, _unpack_int32(data, pos)[0])
    return bytes(view), pos


def read_nullable_bytes(data: memoryview, pos: int) -> tuple[bytes | None, int]:
    view, pos = read_records(data, pos)
    return (None if view is None else bytes(view)), pos


def read_compact_bytes(data: memoryview, pos: int) -> tuple[bytes, int]:
    length, pos = read_uvarint(data, pos)
    view, pos = _slice(data, pos, length - 1)
    return bytes(view), pos


def read_nullable_compact_bytes(data: memoryview, pos: int) -> tuple[bytes | None, int]:
    view, pos = read_compact_records(data, pos)
    return (None if view is None else bytes(view)), pos


def read_uuid(data: memoryview, pos: int) -> tuple[UUID, int]:
    raw, pos = _slice(data, pos, UUID_SIZE)
    key = bytes(raw)
    known = _known_uuids.get(key)
    if known is None:
        if len(_known_uuids) >= MAX_KNOWN_UUIDS:
            _known_uuids.clear()
        known = _known_uuids[key] = UUID(bytes=key) if any(key) else ZERO_UUID
    return known, pos


def read_optional_uuid(data: memoryview, pos: int) -> tuple[UUID | None, int]:
    """The zero UUID stands for none."""
    value, pos = read_uuid(data, pos)
    return (None if value is ZERO_UUID else value), pos


def read_count(data: memoryview, pos: int) -> tuple[int, int]:
    """An array's length; -1 for null. Every element takes at least a byte, so there cannot be more than bytes."""
    count: int = _unpack_int32(data, pos)[0]
    pos += 4
    if count < -1 or count > len(data) - pos:
        raise _too_long(count, data, pos)
    return count, pos


def read_compact_count(data: memoryview, pos: int) -> tuple[int, int]:
    count = data[pos]
    if count < MORE:
        pos += 1
    else:
        count, pos = read_uvarint(data, pos)
    if count - 1 > len(data) - pos:
        raise _too_long(count - 1, data, pos)
    return count - 1, pos


def skip_tags(data: memoryview, pos: int) -> int:
    """Past tagged fields that mean nothing here."""
    if data[pos] == 0:
        return pos + 1
    return read_tags(data, pos, {})[1]


class ItemTags:
    """Passes over the tagged fields of a body's items. Each costs time even if it is empty, so all of them are counted."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_TAGS_OF_ITEMS

    def skip(self, data: memoryview, pos: int) -> int:
        if data[pos] == 0:
            return pos + 1
        self._left -= read_uvarint(data, pos)[0]
        if self._left < 0:
            raise ProtocolError(f"more than {MOST_TAGS_OF_ITEMS} tagged fields")
        return read_tags(data, pos, {})[1]


def read_tags(data: memoryview, pos: int, readers: dict[int, tuple[str, Reader]]) -> tuple[dict[str, Any], int]:
    """The tagged fields that `readers` names, by name; unknown ones are passed over."""
    found: dict[str, Any] = {}
    count, pos = read_uvarint(data, pos)
    if count > len(data) - pos:
        raise _too_long(count, data, pos)
    if count > MOST_TAGS:
        raise ProtocolError(f"{count} tagged fields, where {MOST_TAGS} are the most that is read")
    for _ in range(count):
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        field, end = _slice(data, pos, size)
        if tag in readers:
            name, reader = readers[tag]
            found[name] = reader(field, 0)[0]
        pos = end
    return found, pos


# -- writing ---------------------------------------------------------------------------------------------------------
def write_uvarint(out: bytearray, value: int) -> None:
    while value >= MORE:
        out.append(value & 0x7F | MORE)
        value >>= 7
    out.append(value)


def write_string(out: bytearray, value: str) -> None:
    encoded = value.encode()
    out += _pack_int16(len(encoded))
    out += encoded


def write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    encoded = value.encode()
    write_uvarint(out, len(encoded) + 1)
    out += encoded


def write_nullable_compact_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: bytearray, value: Buffer) -> None:
    out += _pack_int32(len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Buffer) -> None:
    write_uvarint(out, len(value) + 1)
    out += value


def write_nullable_compact_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_uuid(out: bytearray, value: UUID | None) -> None:
    out += ZERO_UUID.bytes if value is None else value.bytes


def write_count(out: bytearray, items: Sequence[Any]) -> None:
    out += _pack_int32(len(items))


def write_compact_count(out: bytearray, items: Sequence[Any]) -> None:
    write_uvarint(out, len(items) + 1)


def write_tags(out: bytearray, fields: Sequence[tuple[int, Buffer]]) -> None:
    """Tagged fields, in the order of their tags."""
    write_uvarint(out, len(fields))
    for tag, data in fields:
        write_uvarint(out, tag)
        write_uvarint(out, len(data))
        out += data
