"""What can happen to a record, and how it is written down: JSON objects, flat, for Spark and kcat to read. Pure.

docs/traces.md tells what the fields mean.
"""

from __future__ import annotations

import json
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

    __slots__ = ("_text", "message_id", "parent_id", "record", "trace_id")

    def __init__(self, trace_id: bytes, record: str, parent_id: bytes = b"", message_id: str | None = None) -> None:
        self.trace_id = trace_id
        self.parent_id = parent_id  # the span of the producer, where it told
        self.message_id = message_id
        self.record = record  # where it was first: topic/partition/offset
        self._text: str | None = None

    @property
    def text(self) -> str:
        """As its events begin."""
        if self._text is None:
            text = f'"trace_id":"{self.trace_id.hex()}","record":{quoted(self.record)}'
            if self.parent_id:
                text += f',"parent_span_id":"{self.parent_id.hex()}"'
            if self.message_id is not None:
                text += f',"message_id":{quoted(self.message_id)}'
            self._text = text
        return self._text

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


class Event(NamedTuple):
    """One that is to be written down."""

    kind: Kind
    at: Millis
    story: Story
    place: Place
    more: str = ""  # further fields, as `details` makes them
    new_place: Place | None = None  # where the record is found from now on, too

    def encode(self) -> bytes:
        topic, partition, offset = self.place
        return (
            f'{{"event":"{self.kind.value}","timestamp":{self.at},{self.story.text},'
            f'"topic":{quoted(topic)},"partition":{partition},"offset":{offset}{self.more}}}'
        ).encode()


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


_FIELDS: Final = frozenset(field.name for field in fields(TraceEvent))


def decode(value: bytes | None) -> TraceEvent | None:
    """None for what is no event: the topic can be written to by anybody who may."""
    try:
        found = json.loads(value or b"")
        return TraceEvent(**{name: each for name, each in found.items() if name in _FIELDS})
    except (ValueError, TypeError, AttributeError):
        return None
