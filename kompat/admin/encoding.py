"""Encodes what a route returns to JSON in slices, so that a long response does not hold the event loop. It is sent in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from kompat.common.slices import Slice

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

STEP_CHARACTERS = 32 * 1024  # of a string that are encoded at a time: each may become six bytes
SHORT_STRING = 2048  # characters
SHORT_LIST = STEP_ITEMS = 32
PART_BYTES = 256 * 1024  # that are sent at a time
SCALARS = (int, float, bool, type(None), msgspec.UnsetType)

_encode = msgspec.json.encode


class Parts(Response):
    """A response whose body is in parts. They are never joined, because copying them takes time, too."""

    def __init__(self, parts: list[bytes], status: int, headers: dict[str, str], media_type: str) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        super().__init__(None, status, {**headers, "content-length": str(self.size)}, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        turn = Slice()
        for part in self.parts[:-1]:
            if turn.is_over:
                await turn.pause()
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": self.parts[-1], "more_body": False})


async def encoded(value: Any) -> AsyncIterator[bytes]:
    """The JSON of a value, in parts."""
    part = bytearray()
    turn = Slice()
    for step in _steps(value):
        if len(part) >= PART_BYTES:
            yield bytes(part)
            part.clear()
        if turn.is_over:
            await turn.pause()
        part += step
    yield bytes(part)


def _steps(value: Any) -> Iterator[bytes]:
    """The JSON of a value, in small steps. A short value is encoded in one step."""
    if isinstance(value, str):
        yield from _string(value)
    elif isinstance(value, msgspec.Struct):
        if _is_short(value):
            yield _encode(value)
        else:
            yield from _struct(value)
    elif isinstance(value, (list, tuple)):
        yield from _list(value)
    elif isinstance(value, dict):
        yield from _dict(value)
    else:
        yield _encode(value)


def _is_short(value: Any) -> bool:
    """Whether the value has nothing in it that may be long."""
    kind = type(value)
    if kind in SCALARS:
        return True
    if kind is str:
        return len(value) <= SHORT_STRING
    if isinstance(value, msgspec.Struct):
        return all(_is_short(getattr(value, name)) for name in kind.__struct_fields__)
    if kind is list:
        return len(value) <= SHORT_LIST and all(map(_is_short, value))
    return not value


def _string(value: str) -> Iterator[bytes]:
    if len(value) <= STEP_CHARACTERS:
        yield _encode(value)
        return
    yield b'"'
    for start in range(0, len(value), STEP_CHARACTERS):
        yield _encode(value[start : start + STEP_CHARACTERS])[1:-1]
    yield b'"'


def _list(items: list[Any] | tuple[Any, ...]) -> Iterator[bytes]:
    separator = b"["
    for item in items:
        yield separator
        yield from _steps(item)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def _dict(items: dict[Any, Any]) -> Iterator[bytes]:
    """Encode a dict. msgspec encodes the keys, because it has a form for each type of key."""
    rest, separator = iter(items.items()), b"{"
    while some := dict(islice(rest, STEP_ITEMS)):
        if all(map(_is_short, some.values())):
            yield separator + _encode(some)[1:-1]
        else:
            yield from _long_values(some, separator)
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def _long_values(items: dict[Any, Any], separator: bytes) -> Iterator[bytes]:
    for key, value in items.items():
        yield separator + _encode({key: None})[1:-5]
        yield from _steps(value)
        separator = b","


def _struct(value: msgspec.Struct) -> Iterator[bytes]:
    separator = b"{"
    defaults = _defaults(type(value))
    for name, encoded_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        field = getattr(value, name)
        if field is msgspec.UNSET or (name in defaults and field == defaults[name]):
            continue
        yield separator + _encode(encoded_name) + b":"
        yield from _steps(field)
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The defaults of fields that are omitted if they have them."""
    if not kind.__struct_config__.omit_defaults:
        return {}
    found = {each.name: each.default for each in msgspec.structs.fields(kind) if each.default is not msgspec.NODEFAULT}
    empty = {each.name: each.default_factory for each in msgspec.structs.fields(kind)}
    return {**found, **{name: make() for name, make in empty.items() if make in (list, dict)}}
