"""Cursors of lists, as opaque text: rows of numbers."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from typing import Final

from kompat.errors import ErrorCode, KafkaError

LONGEST: Final = 8192  # characters: it has to fit into an address
_MOST_BYTES: Final = 1 << 16  # uncompressed
_MOST: Final = 2**63 - 1
Row = Sequence[int]


def encode(rows: Sequence[Row]) -> str:
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode(cursor: str, width: int) -> list[list[int]]:
    """At least one row of this many numbers, none of them negative. Raises KafkaError if it is not such a cursor."""
    try:
        packed = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        rows = json.loads(zlib.decompressobj().decompress(packed, _MOST_BYTES))
    except (ValueError, binascii.Error, zlib.error, RecursionError):
        rows = None
    if not isinstance(rows, list) or not rows or not all(_is_row(row, width) for row in rows):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor is not one of this list")
    return rows


def _is_row(row: object, width: int) -> bool:
    return isinstance(row, list) and len(row) == width and all(type(each) is int and 0 <= each <= _MOST for each in row)
