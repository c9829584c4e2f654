"""Events as spans: how long each stage of a record took. Pure.

A stage begins with one event of a record and ends with another; a stage without a beginning, or without a duration, is a span
without a length. Spans of one record have the producer's span as their parent if the record named one. Else their parent is
a span of the record itself: that of its append to the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from kompat.extensions.tracing.events import Kind, TraceEvent

MOST_OPEN: Final = 50_000  # stages that have begun
MILLION: Final = 1_000_000

# The name of a stage, by the event that ends it, and the events that begin it.
STAGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    Kind.REPLICATED: ("publish", (Kind.PRODUCED,)),
    Kind.FIRED: ("park", (Kind.PARKED,)),
    Kind.CANCELLED: ("park", (Kind.PARKED,)),
    Kind.DELIVERED: ("wait", (Kind.REPLICATED, Kind.FIRED, Kind.DEAD_LETTERED)),
    Kind.REDELIVERED: ("wait", (Kind.RELEASED, Kind.LOCK_EXPIRED)),
    Kind.ACKNOWLEDGED: ("process", (Kind.DELIVERED, Kind.REDELIVERED)),
    Kind.RELEASED: ("process", (Kind.DELIVERED, Kind.REDELIVERED)),
    Kind.REJECTED: ("process", (Kind.DELIVERED, Kind.REDELIVERED)),
    Kind.LOCK_EXPIRED: ("process", (Kind.DELIVERED, Kind.REDELIVERED)),
    Kind.DEAD_LETTERED: ("dead letter", (Kind.REJECTED, Kind.RELEASED, Kind.LOCK_EXPIRED)),
    Kind.COMMITTED_PAST: ("commit", (Kind.DELIVERED,)),
    Kind.EXPIRED: ("expire", (Kind.REPLICATED, Kind.FIRED)),
}
_FAILED: Final = (Kind.REJECTED, Kind.LOCK_EXPIRED, Kind.DEAD_LETTERED, Kind.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    name: str
    trace_id: int
    span_id: int | None  # None: any
    parent_id: int | None
    start_ns: int
    end_ns: int
    is_failed: bool
    attributes: Mapping[str, str | int]


@dataclass(slots=True)
class Stages:
    """Turns events into spans, one after the other. A stage whose beginning is not in memory any more has no length."""

    _open: OrderedDict[tuple[str, str, str | None], int] = field(default_factory=OrderedDict)

    def take(self, event: TraceEvent) -> StageSpan | None:
        """The span of the stage that the event ends; None: it only begins one."""
        self._remember(event)
        stage = STAGES.get(event.event)
        if stage is None:
            return None
        name, begins = stage
        found = [at for kind in begins if (at := self._began(event, kind)) is not None]
        root = _root_id(event)
        parent = int(event.parent_span_id, 16) if event.parent_span_id else None
        is_root = parent is None and event.event == Kind.REPLICATED
        return StageSpan(
            name=f"{event.topic} {name}",
            trace_id=int(event.trace_id, 16),
            span_id=root if is_root else None,
            parent_id=None if is_root else parent or root,
            start_ns=max(found, default=event.timestamp) * MILLION,
            end_ns=event.timestamp * MILLION,
            is_failed=event.event in _FAILED,
            attributes=_attributes(event),
        )

    def _remember(self, event: TraceEvent) -> None:
        key = event.record, event.event, event.group
        self._open[key] = event.timestamp
        self._open.move_to_end(key)
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def _began(self, event: TraceEvent, kind: str) -> int | None:
        """When this last happened to the record: in the event's group, or in all."""
        at = self._open.get((event.record, kind, event.group))
        at = self._open.get((event.record, kind, None)) if at is None else at
        return at if at is not None and at <= event.timestamp else None


def _root_id(event: TraceEvent) -> int:
    digest = blake2b(f"{event.trace_id} {event.record}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def _attributes(event: TraceEvent) -> dict[str, str | int]:
    found: dict[str, str | int | None] = {
        "messaging.system": "kafka",
        "messaging.destination.name": event.topic,
        "messaging.destination.partition.id": str(event.partition),
        "messaging.kafka.offset": event.offset,
        "messaging.message.id": event.message_id,
        "messaging.client.id": event.client_id,
        "messaging.consumer.group.name": event.group,
        "kompat.event": event.event,
        "kompat.record": event.record,
        "kompat.member.id": event.member_id,
        "kompat.delivery.count": event.delivery_count,
        "kompat.reason": event.reason,
        "kompat.to.topic": event.to_topic,
        "kompat.to.partition": event.to_partition,
        "kompat.to.offset": event.to_offset,
    }
    return {name: value for name, value in found.items() if value is not None}
