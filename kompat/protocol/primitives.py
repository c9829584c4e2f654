"""Kafka's primitive types, as the records of internal topics and the embedded consumer protocol use them.

A cursor, for codecs that are written by hand; wire.py has the functions that compiled codecs of requests are made of. ADR 28 has
why both are there.
"""

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from kompat.types import Buffer

T = TypeVar("T")

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


@lru_cache(maxsize=4_096)
def shared_uuid(data: bytes) -> UUID:
    """Logs hold the same few topic ids again and again: one object each is enough."""
    return UUID(bytes=data)


class MalformedBytesError(ValueError):
    """The bytes do not follow the format."""


class Writer:
    """Appends primitives to one buffer; `compact` strings and arrays are those of the flexible versions."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def finish(self) -> bytes:
        return bytes(self._out)

    def int8(self, value: int) -> None:
        self._out += value.to_bytes(1, "big", signed=True)

    def int16(self, value: int) -> None:
        self._out += _I16.pack(value)

    def int32(self, value: int) -> None:
        self._out += _I32.pack(value)

    def int64(self, value: int) -> None:
        self._out += _I64.pack(value)

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)

    def uuid(self, value: UUID) -> None:
        self._out += value.bytes

    def raw(self, value: Buffer) -> None:
        self._out += value

    def string(self, value: str) -> None:
        encoded = value.encode()
        self.int16(len(encoded))
        self._out += encoded

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.int16(-1)
        else:
            self.string(value)

    def nullable_bytes(self, value: bytes | None) -> None:
        if value is None:
            self.int32(-1)
        else:
            self.int32(len(value))
            self._out += value

    def compact_string(self, value: str | None) -> None:
        if value is None:
            self.uvarint(0)
        else:
            self.compact_bytes(value.encode())

    def compact_bytes(self, value: bytes) -> None:
        self.uvarint(len(value) + 1)
        self._out += value

    def compact_ints(self, values: Iterable[int]) -> None:
        numbers = tuple(values)
        self.uvarint(len(numbers) + 1)
        self._out += struct.pack(f">{len(numbers)}i", *numbers)

    def tags(self, fields: Iterable[tuple[int, bytes]] = ()) -> None:
        """Tagged fields: only those that differ from their default are written."""
        present = tuple(fields)
        self.uvarint(len(present))
        for tag, data in present:
            self.uvarint(tag)
            self.uvarint(len(data))
            self._out += data


class Reader:
    """Reads primitives from a buffer; malformed bytes raise MalformedBytesError, and never cause an out-of-bounds allocation."""

    __slots__ = ("_data", "_end", "_pos")

    def __init__(self, data: Buffer) -> None:
        self._data = bytes(data)
        self._end = len(self._data)
        self._pos = 0

    def _take(self, size: int) -> int:
        start = self._pos
        if size < 0 or start + size > self._end:
            raise MalformedBytesError(f"{size} bytes wanted at {start} of {self._end}")
        self._pos = start + size
        return start

    def int8(self) -> int:
        return int.from_bytes(self.raw(1), "big", signed=True)

    def int16(self) -> int:
        value: int = _I16.unpack_from(self._data, self._take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _I32.unpack_from(self._data, self._take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _I64.unpack_from(self._data, self._take(8))[0]
        return value

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._data[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedBytesError("a varint of more than five bytes")

    def uuid(self) -> UUID:
        return shared_uuid(self.raw(16))

    def raw(self, size: int) -> bytes:
        start = self._take(size)
        return self._data[start : start + size]

    def _text(self, size: int) -> str:
        try:
            return self.raw(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedBytesError(str(error)) from error

    def string(self) -> str:
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self._text(size)

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self.raw(size)

    def compact_string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self._text(size - 1)

    def compact_text(self) -> str:
        return self.compact_string() or ""

    def compact_bytes(self) -> bytes:
        return self.raw(self.uvarint() - 1)

    def array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return self._elements(self.int32(), element)

    def compact_array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return self._elements(self.uvarint() - 1, element)

    def _elements(self, count: int, element: Callable[[], T]) -> tuple[T, ...]:
        if count > self._end - self._pos:  # every element takes a byte at least
            raise MalformedBytesError(f"an array of {count} elements in {self._end - self._pos} bytes")
        return tuple(element() for _ in range(count))

    def tags(self) -> dict[int, bytes]:
        return {self.uvarint(): self.raw(self.uvarint()) for _ in range(self.uvarint())}

    def rest(self) -> bytes:
        return self.raw(self._end - self._pos)
