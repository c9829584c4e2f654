"""Traces of records, by trace id, message id or offset; and trace events by time."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin.access import may_read
from kompat.admin.problems import missing
from kompat.admin.route import Call, Route
from kompat.admin.routes.messages import PageCursor
from kompat.admin.shapes import DEFAULT_LIMIT, Answer, Limit, Page, Query, Time, millis, rfc3339
from kompat.common.slices import sliced
from kompat.extensions.tracing.events import TraceEvent
from kompat.extensions.tracing.recorder import TRACE_TOPIC
from kompat.extensions.tracing.timeline import Step, Timeline
from kompat.types import Millis


class TracesQuery(Query, rename={"from_": "from"}):
    topic: Annotated[str, Meta(max_length=249)] | None = None
    group: Annotated[str, Meta(max_length=1024)] | None = None
    event: Annotated[str, Meta(max_length=32, description="such as DELIVERED or DEAD_LETTERED")] | None = None
    from_: Time | None = None
    to: Time | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: PageCursor | None = None


class Place(Answer):
    topic: str
    partition: int
    offset: int


class Event(Answer):
    """Fields that the event does not have are left out: docs/traces.md says which has which."""

    kind: str
    timestamp: int
    at: str
    topic: str
    partition: int
    offset: int
    parent_span_id: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    member_id: str | UnsetType = UNSET
    delivery_count: int | UnsetType = UNSET
    due: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    to_topic: str | UnsetType = UNSET
    to_partition: int | UnsetType = UNSET
    to_offset: int | UnsetType = UNSET


class FoundEvent(Event, kw_only=True):
    trace_id: str
    record: str
    message_id: str | UnsetType = UNSET


class TimelineEvent(Event, kw_only=True):
    since_start: int  # ms
    since_previous: int


class RecordTrace(Answer):
    trace_id: str
    record: Place
    message_id: str | None
    total: int  # ms from the first event to the last
    events: list[TimelineEvent]


class Traces(Answer):
    traces: list[RecordTrace]


_DETAILS = frozenset(field.name for field in msgspec.structs.fields(Event)) - {"kind", "at"}


def _fields(event: TraceEvent) -> dict[str, Any]:
    details = {name: value for name, value in event.to_json().items() if name in _DETAILS}
    return {**details, "kind": event.event, "at": rfc3339(event.timestamp)}


def _record_trace(timeline: Timeline) -> RecordTrace:
    topic, partition, offset = timeline.record.rsplit("/", 2)
    return RecordTrace(
        trace_id=timeline.trace_id,
        record=Place(topic=topic, partition=int(partition), offset=int(offset)),
        message_id=timeline.message_id,
        total=timeline.total_ms,
        events=[_step(step) for step in timeline.steps],
    )


def _step(step: Step) -> TimelineEvent:
    return TimelineEvent(since_start=step.since_start_ms, since_previous=step.since_previous_ms, **_fields(step.event))


async def search(call: Call) -> Page[FoundEvent]:
    query: TracesQuery = call.query
    may_read(call, TRACE_TOPIC)
    found = await call.services.traces.search(
        topic=query.topic,
        group=query.group,
        event=query.event,
        from_time=None if query.from_ is None else Millis(millis(query.from_, "from")),
        to_time=None if query.to is None else Millis(millis(query.to, "to")),
        limit=query.limit,
        cursor=query.cursor,
    )
    items = [
        FoundEvent(trace_id=e.trace_id, record=e.record, message_id=_or_unset(e.message_id), **_fields(e))
        async for e in sliced(found.events)
    ]
    return Page(items=items, next_cursor=found.cursor)


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text


async def by_id(call: Call) -> Traces:
    given = call.path["id"]
    may_read(call, TRACE_TOPIC)
    found = await call.services.traces.by_id(given) if _is_trace_id(given) else []
    if not found:
        found = await call.services.traces.by_message_id(given)
    if not found:
        raise missing(
            f"There is no trace with the trace id or message id {given!r}. docs/traces.md describes which records are traced."
        )
    return Traces(traces=[_record_trace(each) async for each in sliced(found)])


def _is_trace_id(text: str) -> bool:
    return len(text) == 32 and all(digit in "0123456789abcdefABCDEF" for digit in text)


async def of_message(call: Call) -> RecordTrace:
    topic, partition, offset = call.path["topic"], call.path["partition"], call.path["offset"]
    may_read(call, topic)
    found = await call.services.traces.by_record(topic, partition, offset)
    if found is None:
        raise missing(f"The record at offset {offset} of partition {partition} of {topic} is not traced.")
    return _record_trace(found)


ROUTES = [
    *(
        Route(
            method="GET",
            path=path,
            handle=search,
            summary="Search trace events by topic, group, type and time",
            tag="traces",
            query=TracesQuery,
            answer=Page[FoundEvent],
        )
        for path in ("/v1/traces", "/v1/traces/search")
    ),
    Route(
        method="GET",
        path="/v1/traces/{id}",
        handle=by_id,
        summary="Show a trace, by its trace id or by a message id",
        tag="traces",
        answer=Traces,
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/partitions/{partition}/messages/{offset}/trace",
        handle=of_message,
        summary="Show the trace of a message",
        tag="traces",
        answer=RecordTrace,
    ),
]
