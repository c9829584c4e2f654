"""Delayed records: list, describe, cancel, reschedule, count."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, structs

from kompat.admin.access import may_read, may_write
from kompat.admin.messages import Duration, HeaderShape, PartitionNumber, content, duration
from kompat.admin.problems import invalid
from kompat.admin.producing import partitions_of
from kompat.admin.route import Call, Route
from kompat.admin.routes.messages import PageCursor
from kompat.admin.shapes import (
    DEFAULT_LIMIT,
    Answer,
    Body,
    Encoding,
    Limit,
    Page,
    PageQuery,
    Query,
    Time,
    millis,
    page,
    rfc3339,
)
from kompat.admin.turns import turn_of
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay.requests import DelayStatistics, Scheduled
from kompat.security.acls import Kind, Operation
from kompat.types import Millis, Offset

DAY = 86_400_000


class DelayedQuery(Query, rename={"from_": "from", "to": "to"}):
    partition: PartitionNumber | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: PageCursor | None = None
    from_: Annotated[Time | None, Meta(description="due at this time or later")] = None
    to: Annotated[Time | None, Meta(description="due before")] = None


class TimelineQuery(Query, rename={"from_": "from"}):
    buckets: Annotated[int, Meta(ge=1, le=1000)] = 60
    from_: Time | None = None
    to: Time | None = None


class StatisticsQuery(Query):
    topic: Annotated[str, Meta(max_length=249)] | None = None


class DelayedMessage(Answer):
    """Identified by the offset that its producer got."""

    topic: str
    partition: int
    offset: int
    deliver_at: str
    due_timestamp: int
    state: Literal["waiting", "undecided"]  # undecided: its transaction has not ended
    schedule_id: str | None
    timestamp: int
    key: str | None
    value: str | None
    headers: list[HeaderShape]
    key_encoding: Encoding | UnsetType = UNSET
    encoding: Encoding | UnsetType = UNSET


class NewTime(Body):
    """Give one of these."""

    deliver_at: Time | None = None
    delay: Duration | None = None


class Bucket(Answer, rename={"from_": "from"}):
    from_: int
    to: int
    count: int


class DueTimeline(Answer):
    items: list[Bucket]
    is_whole: bool  # false: there are more records than were counted


class DelayFigures(Answer):
    waiting: int
    undecided: int
    bytes: int
    next_due: str | None
    next_due_timestamp: int | None


class DelayedTopic(DelayFigures, kw_only=True):
    topic: str


async def _shape(each: Scheduled) -> DelayedMessage:
    return DelayedMessage(
        topic=each.topic,
        partition=each.partition,
        offset=each.slot,
        deliver_at=rfc3339(each.due),
        due_timestamp=each.due,
        state="undecided" if each.is_undecided else "waiting",
        schedule_id=each.schedule_id,
        timestamp=each.record.timestamp,
        **await content(each.record),
    )


async def list_delayed(call: Call) -> Page[DelayedMessage]:
    query: DelayedQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    turn = turn_of(await partitions_of(call, topic), query.partition, query.cursor)
    found = await call.services.delays.list(
        topic,
        partitions=turn.partitions,
        since=None if query.from_ is None else Millis(millis(query.from_, "from")),
        until=None if query.to is None else Millis(millis(query.to, "to")),
        limit=query.limit,
        cursor=turn.cursor,
    )
    return Page(
        items=[await _shape(each) async for each in sliced(found.items)], next_cursor=turn.cursor_after(found.cursor)
    )


async def get_delayed(call: Call) -> DelayedMessage:
    topic, partition, offset = _place(call)
    may_read(call, topic)
    found = await call.services.delays.find(topic, partition, offset)
    if found is None:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"There is no delayed record at offset {offset}. It may have been delivered or cancelled.",
        )
    return await _shape(found)


async def cancel(call: Call) -> DelayedMessage:
    topic, partition, offset = _place(call)
    may_read(call, topic)
    may_write(call, topic)
    return await _shape(await call.services.delays.cancel(topic, partition, offset))


async def reschedule(call: Call) -> DelayedMessage:
    topic, partition, offset = _place(call)
    may_read(call, topic)
    may_write(call, topic)
    body: NewTime = call.body
    if body.delay is not None and body.deliver_at is None:
        due = call.services.clock.now() + duration(body.delay, "delay")
    elif body.deliver_at is not None and body.delay is None:
        due = millis(body.deliver_at, "deliverAt")
    else:
        raise invalid("Give exactly one of `deliverAt` and `delay`.")
    return await _shape(await call.services.delays.reschedule(topic, partition, offset, Millis(due)))


def _place(call: Call) -> tuple[str, int, Offset]:
    return call.path["topic"], call.path["partition"], Offset(call.path["offset"])


async def timeline(call: Call) -> DueTimeline:
    query: TimelineQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    since = call.services.clock.now() if query.from_ is None else millis(query.from_, "from")
    until = since + DAY if query.to is None else millis(query.to, "to")
    found = await call.services.delays.timeline(topic, Millis(since), Millis(until), query.buckets)
    return DueTimeline(
        items=[Bucket(from_=each.since, to=each.until, count=each.count) for each in found.buckets],
        is_whole=found.is_whole,
    )


async def statistics(call: Call) -> DelayFigures:
    topic = call.query.topic
    if topic is None:
        call.require(Operation.DESCRIBE, Kind.CLUSTER)
    else:
        call.require(Operation.DESCRIBE, Kind.TOPIC, topic)
    return figures(await call.services.delays.statistics(topic))


async def list_topics(call: Call) -> Page[DelayedTopic]:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    found = await call.services.delays.topics()
    chosen = await page(found.items(), lambda each: each[0], call.query.limit, call.query.cursor)
    items = [DelayedTopic(topic=topic, **structs.asdict(figures(each))) for topic, each in chosen.items]
    return Page(items=items, next_cursor=chosen.next_cursor)


def figures(found: DelayStatistics) -> DelayFigures:
    return DelayFigures(
        waiting=found.waiting,
        undecided=found.undecided,
        bytes=found.size,
        next_due=None if found.next_due is None else rfc3339(found.next_due),
        next_due_timestamp=found.next_due,
    )


ROUTES = [
    Route(
        method="GET", path="/v1/delayed", handle=list_topics, summary="List topics with delayed records",
        tag="delayed", query=PageQuery, answer=Page[DelayedTopic],
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/delayed", handle=list_delayed,
        summary="List delayed records in the order of their due times", tag="delayed", query=DelayedQuery,
        answer=Page[DelayedMessage],
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/delayed/timeline", handle=timeline, summary="Count delayed records by due time",
        tag="delayed", query=TimelineQuery, answer=DueTimeline,
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/delayed/{partition}/{offset}", handle=get_delayed,
        summary="Describe a delayed record", tag="delayed", answer=DelayedMessage,
    ),
    Route(
        method="DELETE", path="/v1/topics/{topic}/delayed/{partition}/{offset}", handle=cancel,
        summary="Cancel a delayed record", tag="delayed", answer=DelayedMessage,
        problems=(507,),
    ),
    Route(
        method="PATCH", path="/v1/topics/{topic}/delayed/{partition}/{offset}", handle=reschedule,
        summary="Change the due time of a delayed record", tag="delayed", body=NewTime, answer=DelayedMessage,
        problems=(507,),
    ),
    Route(
        method="GET", path="/v1/delayed/statistics", handle=statistics,
        summary="Count delayed records of one topic or of all topics", tag="delayed", query=StatisticsQuery, answer=DelayFigures,
        problems=(404,),
    ),
]  # fmt: skip
