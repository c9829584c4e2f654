"""The events of a record, and how they are written: flat JSON objects, for Spark and kcat to read. Pure.

docs/traces.md explains the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, NamedTuple

from kompat.types import Millis


class Kind(StrEnum):
    PRODUCED = "PRODUCED"
    REPLICATED = "REPLICATED"
    PARKED = "PARKED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"
    DELIVERED = "DELIVERED"
    REDELIVERED = "REDELIVERED"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RELEASED = "RELEASED"
    REJECTED = "REJECTED"
    LOCK_EXPIRED = "LOCK_EXPIRED"
    DEAD_LETTERED = "DEAD_LETTERED"
    COMMITTED_PAST = "COMMITTED_PAST"
    EXPIRED = "EXPIRED"


# The order of events in the same millisecond.
RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class RecordTrace:
    """The trace of a record: the fields that all of its events share, in whichever partition."""

    __slots__ = ("is_own", "key", "message_id", "parent_id", "partition_hash", "record", "text", "trace_id")

    def __init__(
        self,
        trace_id: bytes,
        record: str,
        parent_id: bytes = b"",
        message_id: str | None = None,
        *,
        is_own: bool = False,
    ) -> None:
        self.trace_id = trace_id
        self.is_own = is_own  # the id is computed from the record's first position
        self.parent_id = parent_id  # the span of the producer, if it sent one
        self.message_id = message_id
        self.record = record  # its first position: topic/partition/offset
        # Both are needed for each of its events.
        digits = trace_id.hex()
        self.partition_hash = int.from_bytes(trace_id[-4:], "big")  # the end of an id is random in any case
        self.key = digits.encode()  # of its events' records
        text = f'"trace_id":"{digits}","record":{quoted(record)}'
        if parent_id:
            text += f',"parent_span_id":"{parent_id.hex()}"'
        if message_id is not None:
            text += f',"message_id":{quoted(message_id)}'
        self.text = text  # the beginning of its events

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordTrace) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<RecordTrace {self.text}>"


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class PartitionLabel:
    """The name of a partition in its events."""

    __slots__ = ("index", "text", "topic")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.text = f',"topic":{quoted(topic)},"partition":{index},"offset":'

    def place(self, offset: int) -> Place:
        return Place(self.topic, self.index, offset)


class Happening(NamedTuple):
    """The same event for some records of a partition, to be written as one event for each."""

    kind: Kind
    at: Millis
    label: PartitionLabel
    entries: Sequence[tuple[int, RecordTrace]]  # offsets, and their traces
    more: str = ""  # further fields, made by `details`
    new_places: Sequence[Place] | None = None  # the records' new positions

    def parts(self, size: int) -> Iterator[Happening]:
        """The same, in parts of at most this many records."""
        for at in range(0, len(self.entries), size):
            places = None if self.new_places is None else self.new_places[at : at + size]
            yield self._replace(entries=self.entries[at : at + size], new_places=places)

    def values(self) -> list[bytes]:
        head, middle, tail = f"{_HEADS[self.kind]}{self.at},", self.label.text, self.more + "}"
        if self.new_places is None:
            return [f"{head}{trace.text}{middle}{offset}{tail}".encode() for offset, trace in self.entries]
        pairs = zip(self.entries, self.new_places, strict=True)
        return [f"{head}{trace.text}{middle}{offset}{_moved(to)}{tail}".encode() for (offset, trace), to in pairs]


_HEADS: Final = {kind: f'{{"event":"{kind.value}","timestamp":' for kind in Kind}


def _moved(place: Place) -> str:
    return details(to_topic=place.topic, to_partition=place.partition, to_offset=place.offset)


def details(**given: str | int | None) -> str:
    """Further fields as text, made once for all events that share them."""
    return "".join(f",{quoted(name)}:{json.dumps(value)}" for name, value in given.items() if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """An event that was read."""

    event: str
    timestamp: int
    trace_id: str
    record: str
    topic: str
    partition: int
    offset: int
    parent_span_id: str | None = None
    message_id: str | None = None
    client_id: str | None = None
    group: str | None = None
    member_id: str | None = None
    delivery_count: int | None = None
    due: int | None = None
    reason: str | None = None
    to_topic: str | None = None
    to_partition: int | None = None
    to_offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


_FIELDS: Final = {field.name: (str if "str" in str(field.type) else int, field.default) for field in fields(TraceEvent)}


def decode(value: bytes | None) -> TraceEvent | None:
    """None if it is not an event: older versions let every client with the right to write produce to the topic."""
    try:
        found = json.loads(value or b"")
        known = {name: each for name, each in found.items() if name in _FIELDS}
        is_event = known["event"] in RANKS and all(map(_fits, known.items()))
        return TraceEvent(**known) if is_event else None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _fits(item: tuple[str, object]) -> bool:
    name, value = item
    kind, default = _FIELDS[name]
    return type(value) is kind or (value is None and default is None)
