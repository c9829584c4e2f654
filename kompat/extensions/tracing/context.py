"""Which records are traced, and with which id. Pure.

A trace's id is the producer's own if its record has a `traceparent`; else it is computed from the record's position: so it
is the same on every broker and at every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

TRACE_ID_SIZE: Final = 16
SPAN_ID_SIZE: Final = 8
MILLION: Final = 1_000_000  # the finest rate

_MULTIPLIER: Final = 0x9E3779B97F4A7C15  # odd, its bits well distributed
_ALL_BITS: Final = 2**64 - 1
_LENGTH: Final = 55  # of version 00: two, 32, 16 and two digits, and what is between them
_HEX: Final = frozenset(b"0123456789abcdef")
_SAMPLED: Final = 0x01


class Context(NamedTuple):
    """The fields of a `traceparent` (W3C Trace Context)."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool


def parse_traceparent(value: bytes | None) -> Context | None:
    """None if it is not valid: it may be meant for other systems, and is ignored."""
    if value is None or len(value) < _LENGTH or not _has_form(value):
        return None
    version, trace_id, span_id, flags = (bytes.fromhex(part.decode()) for part in value[:_LENGTH].split(b"-"))
    is_known = version == b"\0"
    if version == b"\xff" or not any(trace_id) or not any(span_id):
        return None
    if len(value) > _LENGTH and (is_known or value[_LENGTH : _LENGTH + 1] != b"-"):
        return None
    return Context(trace_id, span_id, bool(flags[0] & _SAMPLED))


def _has_form(value: bytes) -> bool:
    parts = value[:_LENGTH].split(b"-")
    return [len(part) for part in parts] == [2, 32, 16, 2] and all(_HEX.issuperset(part) for part in parts)


def place_id(log: bytes, offset: int) -> bytes:
    """An id for the record at a position; `log` identifies the partition, and is never reused after a delete."""
    mixed = (offset + 1) * _MULTIPLIER & _ALL_BITS  # no two offsets have the same
    return _first_half(log) + (mixed ^ mixed >> 32).to_bytes(8, "big")


@lru_cache(4096)
def _first_half(log: bytes) -> bytes:
    return blake2b(log, digest_size=8).digest()


def per_million(rate: float) -> int:
    return round(rate * MILLION)


def sampled(first: int, end: int, parts: int) -> Iterator[int]:
    """The offsets in [first, end) that are traced at a rate per million: evenly distributed, and always the same."""
    if parts <= 0:
        return
    number = first * parts // MILLION + 1  # of the next one, counted from the log's beginning
    while (offset := -(-number * MILLION // parts) - 1) < end:
        yield offset
        number += 1


def is_sampled(offset: int, parts: int) -> bool:
    return next(sampled(offset, offset + 1, parts), None) is not None
