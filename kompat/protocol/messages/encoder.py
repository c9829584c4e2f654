"""Messages to bytes: one compiled function per message class and version."""

from collections.abc import Generator
from itertools import groupby
from struct import Struct as Packing
from typing import Any, cast

from kompat.protocol import wire
from kompat.protocol.messages.schema import Field, Struct
from kompat.protocol.messages.source import FORMATS, Function, packed
from kompat.protocol.wire import Writer

# (compact, nullable) → writer, by type
_BYTES: dict[tuple[bool, bool], Writer] = {
    (False, False): wire.write_bytes,
    (False, True): wire.write_nullable_bytes,
    (True, False): wire.write_compact_bytes,
    (True, True): wire.write_nullable_compact_bytes,
}
_WRITERS: dict[str, dict[tuple[bool, bool], Writer]] = {
    "string": {
        (False, False): wire.write_string,
        (False, True): wire.write_nullable_string,
        (True, False): wire.write_compact_string,
        (True, True): wire.write_nullable_compact_string,
    },
    "bytes": _BYTES,
    "records": _BYTES,
}
ITEMS_A_STEP = 32
_NO_OPERATIONS = b"\x80\0\0\0"  # a bitfield that was not requested


class Encoder:
    """Makes the writers of one version.

    Where they are to write in steps, writers of arrays, and of structs that have any, are generators, which yield from time to time.
    """

    def __init__(self, version: int, *, flexible: bool, in_steps: bool = False) -> None:
        self._version = version
        self._flexible = flexible
        self._in_steps = in_steps

    def struct(self, struct: Struct) -> Writer:
        function = Function("write", "out, message")
        fields = [field for field in struct.fields if self._version in field.versions]
        for is_fixed, run in groupby(
            (field for field in fields if self._version not in field.tagged),
            key=lambda field: field.type in FORMATS and not field.is_array,
        ):
            if is_fixed:
                _emit_run(function, list(run))
            else:
                for field in run:
                    steps = "yield from " if self._has_steps(field) else ""
                    function.line(f"{steps}{function.use(self._writer(field))}(out, message.{field.name})")
        if self._flexible:
            self._emit_tags(function, [field for field in fields if self._version in field.tagged])
        # A struct may have no field at all in a version.
        function.line("return None")
        return function.compile()

    def _emit_tags(self, function: Function, tagged: list[Field]) -> None:
        if not tagged:
            function.line("out.append(0)")
            return
        plain = Encoder(self._version, flexible=True)
        function.line("tags = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            function.line(f"if message.{field.name} != {function.use(field.default)}:")
            function.line("    data = bytearray()")
            function.line(f"    {function.use(plain._writer(field))}(data, message.{field.name})")
            function.line(f"    tags.append(({field.tag}, data))")
        function.line(f"{function.use(wire.write_tags)}(out, tags)")

    def _writer(self, field: Field) -> Writer:
        is_nullable = self._version in field.nullable
        if not field.is_array:
            return self._item(field, is_nullable=is_nullable)
        item = self._item(field, is_nullable=False)
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

    def _item(self, field: Field, *, is_nullable: bool) -> Writer:
        if field.struct is not None:
            writer = self.struct(field.struct)
            if not is_nullable:
                return writer
            return _nullable_in_steps(writer) if self._has_steps(field) else _nullable_struct(writer)
        if field.type == "uuid":
            return wire.write_uuid
        if field.type == "bitfield":
            return _write_bitfield
        if field.type in FORMATS:
            return _fixed(packed([field.type]))
        return _WRITERS[field.type][self._flexible, is_nullable]


def _emit_run(function: Function, run: list[Field]) -> None:
    pack = function.use(packed([field.type for field in run]).pack)
    function.line(f"out += {pack}({', '.join(f'message.{field.name}' for field in run)})")


def _fixed(packing: Packing) -> Writer:
    pack = packing.pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _array(item: Writer, *, compact: bool, is_nullable: bool) -> Writer:
    write_count = wire.write_compact_count if compact else wire.write_count
    null = b"\0" if compact else b"\xff\xff\xff\xff"

    def write(out: bytearray, items: Any) -> None:
        if items is None and is_nullable:
            out += null
            return
        write_count(out, items)
        for value in items:
            item(out, value)

    return write


def _array_in_steps(item: Any, *, compact: bool, is_nullable: bool, is_plain: bool) -> Writer:
    write_count = wire.write_compact_count if compact else wire.write_count
    null = b"\0" if compact else b"\xff\xff\xff\xff"

    def write(out: bytearray, items: Any) -> Generator[None, None, None]:
        if items is None and is_nullable:
            out += null
            return
        write_count(out, items)
        for number, value in enumerate(items):
            if is_plain:
                item(out, value)
            else:
                yield from item(out, value)
            if not number % ITEMS_A_STEP:
                yield

    return cast("Writer", write)


def _nullable_in_steps(writer: Any) -> Writer:
    def write(out: bytearray, value: Any) -> Generator[None, None, None]:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            yield from writer(out, value)

    return cast("Writer", write)


def _nullable_struct(writer: Writer) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            writer(out, value)

    return write


def _write_bitfield(out: bytearray, bits: Any) -> None:
    out += _NO_OPERATIONS if bits is None else sum(1 << bit for bit in bits).to_bytes(4, "big")
