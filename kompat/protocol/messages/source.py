"""Python functions made from source text, one per struct and version: what a message's codec is compiled to.

A loop over a schema's fields at run time would take four times as long for every request.
"""

import struct
from collections.abc import Callable
from typing import Any

# Types of fixed size, by their struct format: neighbours are packed and unpacked in one call.
FORMATS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}


class Function:
    """The text of one function and the objects that it names."""

    def __init__(self, name: str, parameters: str) -> None:
        self.name = name
        self._lines = [f"def {name}({parameters}):"]
        self._names: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " + text)

    def use(self, value: Any) -> str:
        """A name for `value` in the text."""
        name = f"x{len(self._names)}"
        self._names[name] = value
        return name

    def compile(self) -> Callable[..., Any]:
        # The text comes from schemas in installed packages, never from the wire.
        exec("\n".join(self._lines), self._names)  # noqa: S102
        made: Callable[..., Any] = self._names[self.name]
        return made


def packed(types: list[str]) -> struct.Struct:
    return struct.Struct(">" + "".join(FORMATS[kind] for kind in types))
