"""What can happen to a record, and how it is written down: JSON objects, flat, for Spark and kcat to read. Pure.

docs/traces.md tells what the fields mean.
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


# The order of what happens in the same millisecond.
RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class Story:
    """Whose story it is: what all events of one record have in common, wherever it goes."""

    __slots__ = ("is_own", "key", "message_id", "parent_id", "record", "spread", "text", "trace_id")

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
        self.is_own = is_own  # the id follows from where the record was first
        self.parent_id = parent_id  # the span of the producer, where it told
        self.message_id = message_id
        self.record = record  # where it was first: topic/partition/offset
        # Both are needed for each of its events.
        digits = trace_id.hex()
        self.spread = int.from_bytes(trace_id[-4:], "big")  # the end of an id is random in any case
        self.key = digits.encode()  # of its events' records
        text = f'"trace_id":"{digits}","record":{quoted(record)}'
        if parent_id:
            text += f',"parent_span_id":"{parent_id.hex()}"'
        if message_id is not None:
            text += f',"message_id":{quoted(message_id)}'
        self.text = text  # as its events begin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Story) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<Story {self.text}>"


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Home:
    """A partition as its events name it."""

    __slots__ = ("index", "text", "topic")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.text = f',"topic":{quoted(topic)},"partition":{index},"offset":'

    def place(self, offset: int) -> Place:
        return Place(self.topic, self.index, offset)


class Happening(NamedTuple):
    """The same that happened to some records of a partition, to be written down as one event for each."""

    kind: Kind
    at: Millis
    home: Home
    entries: Sequence[tuple[int, Story]]  # offsets, and whose they are
    more: str = ""  # further fields, as `details` makes them
    new_places: Sequence[Place] | None = None  # where the records are found from now on

    def parts(self, size: int) -> Iterator[Happening]:
        """The same, with no more than so many records in one."""
        for at in range(0, len(self.entries), size):
            places = None if self.new_places is None else self.new_places[at : at + size]
            yield self._replace(entries=self.entries[at : at + size], new_places=places)

    def values(self) -> list[bytes]:
        head, middle, tail = f"{_HEADS[self.kind]}{self.at},", self.home.text, self.more + "}"
        if self.new_places is None:
            return [f"{head}{story.text}{middle}{offset}{tail}".encode() for offset, story in self.entries]
        pairs = zip(self.entries, self.new_places, strict=True)
        return [f"{head}{story.text}{middle}{offset}{_moved(to)}{tail}".encode() for (offset, story), to in pairs]


_HEADS: Final = {kind: f'{{"event":"{kind.value}","timestamp":' for kind in Kind}


def _moved(place: Place) -> str:
    return details(to_topic=place.topic, to_partition=place.partition, to_offset=place.offset)


def details(**given: str | int | None) -> str:
    """Further fields as text, made once for all events that share them."""
    return "".join(f",{quoted(name)}:{json.dumps(value)}" for name, value in given.items() if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One that was read back."""

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
    """None for what is no event: older versions let anybody write to the topic who may write."""
    try:
        found = json.loads(value or b"")
        told = {name: each for name, each in found.items() if name in _FIELDS}
        return TraceEvent(**told) if told["event"] in RANKS and all(map(_fits, told.items())) else None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _fits(told: tuple[str, object]) -> bool:
    kind, default = _FIELDS[told[0]]
    return type(told[1]) is kind or (told[1] is None and default is None)
