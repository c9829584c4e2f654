"""Converts long bytes to text or base64, and back, in slices: a value of some megabytes does not hold the event loop."""

from __future__ import annotations

import base64
import binascii
import codecs
from typing import Literal

from msgspec import UNSET, UnsetType

from kompat.admin.shapes import BASE64, Encoding, not_base64, raw_bytes, shown
from kompat.common.slices import sliced

LONG = 256 * 1024  # bytes, or characters
STEP_BYTES = 192 * 1024  # a multiple of three: base64 has no padding in between
STEP_CHARACTERS = STEP_BYTES // 3 * 4

_Utf8 = codecs.getincrementaldecoder("utf-8")


async def shown_in_slices(raw: bytes | memoryview | None) -> tuple[str | None, Encoding | UnsetType]:
    """As `shown`, in slices."""
    if raw is None or len(raw) <= LONG:
        return shown(raw)
    view = memoryview(raw)
    try:
        return await _text(view), UNSET
    except UnicodeDecodeError:
        return await in_base64(view), BASE64


async def _text(raw: memoryview) -> str:
    decoder = _Utf8()
    parts = [decoder.decode(raw[at : at + STEP_BYTES]) async for at in sliced(range(0, len(raw), STEP_BYTES))]
    return "".join([*parts, decoder.decode(b"", final=True)])


async def in_base64(raw: bytes | memoryview) -> str:
    steps = sliced(range(0, len(raw), STEP_BYTES))
    return b"".join([base64.b64encode(raw[at : at + STEP_BYTES]) async for at in steps]).decode("ascii")


async def raw_bytes_in_slices(
    text: str | None, encoding: Literal["utf-8", "base64"] | UnsetType | None, field: str
) -> bytes | None:
    """As `raw_bytes`, in slices."""
    if text is None or len(text) <= LONG or encoding != BASE64:
        return raw_bytes(text, encoding, field)
    parts = []
    async for at in sliced(range(0, len(text), STEP_CHARACTERS)):
        part = text[at : at + STEP_CHARACTERS]
        if part.endswith("=") and at + STEP_CHARACTERS < len(text):
            raise not_base64(field)
        try:
            parts.append(base64.b64decode(part, validate=True))
        except (binascii.Error, ValueError):
            raise not_base64(field) from None
    return b"".join(parts)
