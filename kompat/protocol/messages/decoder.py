"""Bytes to messages: one compiled function per message class and version."""

from collections.abc import Generator
from itertools import groupby
from struct import Struct as Packing
from typing import Any, cast

from kompat.errors import ProtocolError
from kompat.protocol import wire
from kompat.protocol.messages.schema import Field, Struct
from kompat.protocol.messages.source import FORMATS, Function, packed
from kompat.protocol.wire import Reader

# (compact, nullable) → reader, by type
_READERS: dict[str, dict[tuple[bool, bool], Reader]] = {
    "string": {
        (False, False): wire.read_string,
        (False, True): wire.read_nullable_string,
        (True, False): wire.read_compact_string,
        (True, True): wire.read_nullable_compact_string,
    },
    "bytes": {
        (False, False): wire.read_bytes,
        (False, True): wire.read_nullable_bytes,
        (True, False): wire.read_compact_bytes,
        (True, True): wire.read_nullable_compact_bytes,
    },
}
_RECORDS: dict[bool, Reader] = {False: wire.read_records, True: wire.read_compact_records}
ITEMS_A_STEP = 32
_NO_OPERATIONS = -(2**31)  # a bitfield that was not requested


class Decoder:
    """Makes the readers of one version.

    Where they are to read in steps, readers of arrays, and of structs that have any, are generators: they yield the number of
    items when an array begins, before anything is made of it, and 0 from time to time.
    """

    def __init__(self, version: int, *, flexible: bool, in_steps: bool = False) -> None:
        self._version = version
        self._flexible = flexible
        self._in_steps = in_steps

    def struct(self, made: Any, struct: Struct) -> Reader:
        """A reader of `struct` that gives an instance of `made`."""
        function = Function("read", "data, pos")
        fields = [field for field in struct.fields if self._version in field.versions]
        plain = [field for field in fields if self._version not in field.tagged]
        for is_fixed, run in groupby(plain, key=_is_fixed):
            if is_fixed:
                self._emit_run(function, list(run))
            else:
                for field in run:
                    reader = function.use(self._reader(made, field))
                    steps = "yield from " if self._has_steps(field) else ""
                    function.line(f"{field.name}, pos = {steps}{reader}(data, pos)")
        arguments = [f"{field.name}={field.name}" for field in plain]
        if self._flexible:
            arguments += self._emit_tags(function, made, [field for field in fields if self._version in field.tagged])
        function.line(f"return {function.use(made)}({', '.join(arguments)}), pos")
        return function.compile()

    def _emit_run(self, function: Function, run: list[Field]) -> None:
        packing = packed([field.type for field in run])
        names = "".join(f"{field.name}, " for field in run)
        function.line(f"{names} = {function.use(packing.unpack_from)}(data, pos)")
        function.line(f"pos += {packing.size}")

    def _emit_tags(self, function: Function, made: Any, tagged: list[Field]) -> list[str]:
        if not tagged:
            function.line(f"pos = {function.use(wire.skip_tags)}(data, pos)")
            return []
        plain = Decoder(self._version, flexible=True)  # they come by their size, and are small
        readers = {field.tag: (field.name, plain._reader(made, field)) for field in tagged}
        function.line(f"tags, pos = {function.use(wire.read_tags)}(data, pos, {function.use(readers)})")
        return ["**tags"]

    def _reader(self, made: Any, field: Field) -> Reader:
        is_nullable = self._version in field.nullable
        if not field.is_array:
            return self._item(made, field, is_nullable=is_nullable)
        item = self._item(made, field, is_nullable=False)
        if not self._in_steps:
            return _array(item, compact=self._flexible, is_nullable=is_nullable)
        is_plain = field.struct is None or not self._has_arrays(field.struct)
        return _array_in_steps(item, compact=self._flexible, is_nullable=is_nullable, is_plain=is_plain)

    def _has_steps(self, field: Field) -> bool:
        return self._in_steps and (field.is_array or (field.struct is not None and self._has_arrays(field.struct)))

    def _has_arrays(self, struct: Struct) -> bool:
        return any(
            self._has_steps(field)
            for field in struct.fields
            if self._version in field.versions and self._version not in field.tagged
        )

    def _item(self, made: Any, field: Field, *, is_nullable: bool) -> Reader:
        if field.struct is not None:
            reader = self.struct(getattr(made, field.struct.name), field.struct)
            if not is_nullable:
                return reader
            return _nullable_in_steps(reader) if self._has_steps(field) else _nullable_struct(reader)
        if field.type == "uuid":
            return wire.read_optional_uuid
        if field.type == "records":
            return _RECORDS[self._flexible]
        if field.type == "bitfield":
            return _read_bitfield
        if field.type in FORMATS:
            return _fixed(packed([field.type]))
        return _READERS[field.type][self._flexible, is_nullable]


def _is_fixed(field: Field) -> bool:
    return field.type in FORMATS and not field.is_array


def _fixed(packing: Packing) -> Reader:
    unpack, size = packing.unpack_from, packing.size

    def read(data: memoryview, pos: int) -> tuple[Any, int]:
        return unpack(data, pos)[0], pos + size

    return read


def _array(item: Reader, *, compact: bool, is_nullable: bool) -> Reader:
    read_count = wire.read_compact_count if compact else wire.read_count

    def read(data: memoryview, pos: int) -> tuple[list[Any] | None, int]:
        count, pos = read_count(data, pos)
        if count < 0:
            if not is_nullable:
                raise ProtocolError("null where an array has to be")
            return None, pos
        items = []
        for _ in range(count):
            value, pos = item(data, pos)
            items.append(value)
        return items, pos

    return read


def _array_in_steps(item: Any, *, compact: bool, is_nullable: bool, is_plain: bool) -> Reader:
    read_count = wire.read_compact_count if compact else wire.read_count

    def read(data: memoryview, pos: int) -> Generator[int, None, tuple[list[Any] | None, int]]:
        count, pos = read_count(data, pos)
        if count < 0:
            if not is_nullable:
                raise ProtocolError("null where an array has to be")
            return None, pos
        yield count
        items = []
        for number in range(count):
            value, pos = item(data, pos) if is_plain else (yield from item(data, pos))
            items.append(value)
            if not number % ITEMS_A_STEP:
                yield 0
        return items, pos

    return cast("Reader", read)


def _nullable_in_steps(reader: Any) -> Reader:
    def read(data: memoryview, pos: int) -> Generator[int, None, tuple[Any, int]]:
        if data[pos] == 0xFF:  # -1
            return None, pos + 1
        value, pos = yield from reader(data, pos + 1)
        return value, pos

    return cast("Reader", read)


def _nullable_struct(reader: Reader) -> Reader:
    def read(data: memoryview, pos: int) -> tuple[Any, int]:
        if data[pos] == 0xFF:  # -1
            return None, pos + 1
        return reader(data, pos + 1)

    return read


def _read_bitfield(data: memoryview, pos: int) -> tuple[set[int] | None, int]:
    value = int.from_bytes(data[pos : pos + 4], "big", signed=True)
    if value == _NO_OPERATIONS:
        return None, pos + 4
    return {bit for bit in range(32) if value & (1 << bit)}, pos + 4
