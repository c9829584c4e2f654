"""The events of a record in order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kompat.extensions.tracing.events import RANKS, Kind, Place, TraceEvent

_FIRST: Final = (Kind.PRODUCED, Kind.REPLICATED, Kind.PARKED, Kind.FIRED)
_LAST_RANK: Final = len(RANKS)


@dataclass(frozen=True, slots=True)
class Step:
    event: TraceEvent
    since_start_ms: int
    since_previous_ms: int

    def to_json(self) -> dict[str, Any]:
        times = {"since_start_ms": self.since_start_ms, "since_previous_ms": self.since_previous_ms}
        return {**self.event.to_json(), **times}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Of one record."""

    trace_id: str
    record: str
    message_id: str | None
    steps: Sequence[Step]

    @property
    def total_ms(self) -> int:
        return self.steps[-1].since_start_ms

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"trace_id": self.trace_id, "record": self.record}
        if self.message_id is not None:
            found["message_id"] = self.message_id
        return {**found, "total_ms": self.total_ms, "events": [step.to_json() for step in self.steps]}


def timelines(events: Iterable[TraceEvent]) -> list[Timeline]:
    """One for each record, in the order in which they began. Events come in the order in which they were written."""
    by_record: dict[tuple[str, str], list[TraceEvent]] = {}
    for event in events:
        by_record.setdefault((event.trace_id, event.record), []).append(event)
    found = [_timeline(*key, each) for key, each in by_record.items()]
    return sorted(found, key=lambda timeline: timeline.steps[0].event.timestamp)


def _timeline(trace_id: str, record: str, events: list[TraceEvent]) -> Timeline:
    events.sort(key=_order)
    start = previous = events[0].timestamp
    steps = []
    for event in events:
        steps.append(Step(event, event.timestamp - start, event.timestamp - previous))
        previous = event.timestamp
    message_id = next((event.message_id for event in events if event.message_id is not None), None)
    return Timeline(trace_id=trace_id, record=record, message_id=message_id, steps=steps)


def _order(event: TraceEvent) -> tuple[int, int]:
    """By time. In one millisecond, the first events of a record come first, and the rest stays in the order of writing."""
    is_first_place = event.record == str(Place(event.topic, event.partition, event.offset))
    return event.timestamp, RANKS[Kind(event.event)] if is_first_place and event.event in _FIRST else _LAST_RANK
