"""Data points of OpenTelemetry's MetricsData that are numbers: gauges, sums, and counts and sums of histograms.

It reads the protocol buffers' fields that it needs by their numbers, and skips the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

from kompat.errors import ErrorCode, KafkaError
from kompat.types import Buffer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DELTA = 1  # an aggregation temporality
LONGEST_TEXT = 200  # characters of a name, or of all attributes together

_DOUBLE = Struct("<d")
_SIGNED = Struct("<q")
_UNSIGNED = Struct("<Q")

Field = tuple[int, int, int, memoryview]  # number, wire type, the varint, the bytes


class Point(NamedTuple):
    metric: str
    attributes: str  # name=value, in the order of their names
    value: float
    is_delta: bool  # since the last push, not since the client's start


def points(payload: Buffer) -> Iterator[Point]:
    """The data points. Raises KafkaError if the payload is not MetricsData."""
    try:
        for resource in _messages(memoryview(payload), 1):
            for scope in _messages(resource, 2):
                for metric in _messages(scope, 2):
                    yield from _of_metric(metric)
    except (IndexError, ValueError, error) as reason:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the metrics cannot be read: {reason}") from None


def _of_metric(metric: memoryview) -> Iterator[Point]:
    name = ""
    for number, _, _, value in _fields(metric):
        if number == 1:
            name = bytes(value).decode()[:LONGEST_TEXT]
        elif number in (5, 7):  # a gauge, a sum
            is_delta = any(kind == DELTA for field, _, kind, _ in _fields(value) if field == 2)
            for point in _messages(value, 1):
                yield Point(name, _attributes(point, 7), _number(point), is_delta and number == 7)
        elif number == 9:  # a histogram
            is_delta = any(kind == DELTA for field, _, kind, _ in _fields(value) if field == 2)
            for point in _messages(value, 1):
                attributes, (count, total) = _attributes(point, 9), _totals(point)
                yield Point(f"{name}.count", attributes, count, is_delta)
                yield Point(f"{name}.sum", attributes, total, is_delta)


def _number(point: memoryview) -> float:
    for number, _, _, value in _fields(point):
        if number == 4:
            return float(_DOUBLE.unpack(value)[0])
        if number == 6:
            return int(_SIGNED.unpack(value)[0])
    return 0


def _totals(point: memoryview) -> tuple[float, float]:
    found = {number: value for number, wire, _, value in _fields(point) if number in (4, 5) and wire == FIXED64}
    count = _UNSIGNED.unpack(found[4])[0] if 4 in found else 0
    return count, _DOUBLE.unpack(found[5])[0] if 5 in found else 0.0


def _attributes(point: memoryview, field: int) -> str:
    pairs = []
    for each in _messages(point, field):
        parts = {number: value for number, _, _, value in _fields(each)}
        pairs.append(f"{bytes(parts.get(1, b'')).decode()}={_text(parts.get(2, memoryview(b'')))}")
    return ",".join(sorted(pairs))[:LONGEST_TEXT]


def _text(value: memoryview) -> str:
    for number, _, varint, content in _fields(value):
        if number == 1:
            return bytes(content).decode()
        if number == 2:
            return "true" if varint else "false"
        if number == 3:
            return str(varint)
        if number == 4:
            return repr(_DOUBLE.unpack(content)[0])
    return ""


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (value for number, wire, _, value in _fields(data) if number == wanted and wire == BYTES)


def _fields(data: memoryview) -> Iterator[Field]:
    place, end = 0, len(data)
    empty = data[:0]
    while place < end:
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        varint, content = 0, empty
        if wire == VARINT:
            varint, place = _varint(data, place)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if wire == BYTES:
                size, place = _varint(data, place)
            if size is None or place + size > end:
                raise ValueError(f"field {number} does not end")
            content, place = data[place : place + size], place + size
        yield number, wire, varint, content


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number does not end")
