"""Messages to bytes: one compiled function per message class and version."""

from itertools import groupby
from struct import Struct as Packing
from typing import Any

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
_NO_OPERATIONS = b"\x80\0\0\0"  # a bitfield that was not asked for


class Encoder:
    """Makes the writers of one version."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

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
                    function.line(f"{function.use(self._writer(field))}(out, message.{field.name})")
        if self._flexible:
            self._emit_tags(function, [field for field in fields if self._version in field.tagged])
        # A struct may have no field at all in a version.
        function.line("return None")
        return function.compile()

    def _emit_tags(self, function: Function, tagged: list[Field]) -> None:
        if not tagged:
            function.line("out.append(0)")
            return
        function.line("tags = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            function.line(f"if message.{field.name} != {function.use(field.default)}:")
            function.line("    data = bytearray()")
            function.line(f"    {function.use(self._writer(field))}(data, message.{field.name})")
            function.line(f"    tags.append(({field.tag}, data))")
        function.line(f"{function.use(wire.write_tags)}(out, tags)")

    def _writer(self, field: Field) -> Writer:
        is_nullable = self._version in field.nullable
        if not field.is_array:
            return self._item(field, is_nullable=is_nullable)
        return _array(self._item(field, is_nullable=False), compact=self._flexible, is_nullable=is_nullable)

    def _item(self, field: Field, *, is_nullable: bool) -> Writer:
        if field.struct is not None:
            writer = self.struct(field.struct)
            return _nullable_struct(writer) if is_nullable else writer
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
