"""The index of events in `__kompat_trace`: states of its partitions, written along with each batch of events. Pure.

| state's name | value |
| --- | --- |
| `e/t`, trace id, first offset of the batch | nothing: the batch has events of the trace |
| `e/r`, topic, partition, offset | trace id, and the record's first position; not if the id is computed from it |
| `e/m`, message id, trace id | nothing |
| `e/o`, first offset of the batch | the names of the others, to be deleted with the batch |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kompat.extensions.tracing.context import TRACE_ID_SIZE
from kompat.extensions.tracing.events import Happening, Kind, Place, RecordTrace
from kompat.log.interceptor import StateWrite

TRACE: Final = b"e/t"
RECORD: Final = b"e/r"
MESSAGE: Final = b"e/m"
BATCH: Final = b"e/o"

_OFFSET = Struct(">Q")
_PLACE = Struct(">IQ")
_LENGTH = Struct(">H")
_LAST = b"\xff" * 8

Row = tuple[Happening, int]  # what happened, and to which of its records


class Names(NamedTuple):
    """The index entries of a batch of events, independent of its offset."""

    trace_ids: Sequence[bytes]
    others: Mapping[bytes, bytes]  # states that do not depend on its offset


def names(rows: Iterable[Row]) -> Names:
    trace_ids: dict[bytes, None] = {}
    found: dict[bytes, bytes] = {}
    for happening, number in rows:
        place, trace = happening.entries[number]
        trace_ids[trace.trace_id] = None
        if happening.new_places is not None:
            found[record_name(happening.new_places[number])] = trace.trace_id + trace.record.encode()
        elif happening.kind is Kind.PRODUCED and not (trace.is_own and trace.message_id is None):
            _add_coming(found, trace, happening.label.place(place))
    return Names(list(trace_ids), found)


def writes(base: int, given: Names) -> list[StateWrite]:
    """What is written with these events, in a batch that begins at `base`."""
    offset = _OFFSET.pack(base)
    found = {TRACE + trace_id + offset: b"" for trace_id in given.trace_ids} | dict(given.others)
    named = b"".join([_LENGTH.pack(len(name)) + name for name in found])
    return [*found.items(), (BATCH + offset, named)]


def _add_coming(found: dict[bytes, bytes], trace: RecordTrace, place: Place) -> None:
    if not trace.is_own:  # else the id is computed from the position
        found[record_name(place)] = trace.trace_id + trace.record.encode()
    if trace.message_id is not None:
        found[message_prefix(trace.message_id) + trace.trace_id] = b""


def removals(batch: bytes, named: bytes) -> Iterator[StateWrite]:
    """The index entries of a batch of events."""
    at = 0
    while at < len(named):
        (length,) = _LENGTH.unpack_from(named, at)
        at += _LENGTH.size
        yield named[at : at + length], None
        at += length
    yield batch, None


def record_name(place: Place) -> bytes:
    return RECORD + place.topic.encode() + b"\0" + _PLACE.pack(place.partition, place.offset)


def record_value(value: bytes) -> tuple[bytes, str]:
    """Trace id, and the record's first position."""
    return value[:TRACE_ID_SIZE], value[TRACE_ID_SIZE:].decode()


def message_prefix(message_id: str) -> bytes:
    return MESSAGE + message_id.encode() + b"\0"


def message_range(message_id: str) -> tuple[bytes, bytes]:
    prefix = message_prefix(message_id)
    return prefix, prefix + b"\xff" * (TRACE_ID_SIZE + 1)


def trace_of(message_name: bytes) -> bytes:
    return message_name[-TRACE_ID_SIZE:]


def trace_range(trace_id: bytes) -> tuple[bytes, bytes]:
    return TRACE + trace_id, TRACE + trace_id + _LAST


def batch_of(trace_name: bytes) -> int:
    base: int = _OFFSET.unpack_from(trace_name, len(TRACE) + TRACE_ID_SIZE)[0]
    return base


def batches_before(offset: int) -> tuple[bytes, bytes]:
    """The range of the names of batches that begin before an offset."""
    return BATCH, BATCH + _OFFSET.pack(offset)
