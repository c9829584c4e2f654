"""Queues: acquire records, and say of each what became of it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from kompat.admin import queueing
from kompat.admin.access import may_take
from kompat.admin.messages import Duration, PartitionNumber, duration
from kompat.admin.problems import invalid
from kompat.admin.queueing import Delivered, LockMs, QueueFigures, QueueName, Reason, Receipts, Results
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page
from kompat.admin.spread import together
from kompat.cluster.queue_rules import SOURCE
from kompat.errors import ErrorCode, KafkaError


class Acquire(Body):
    max: Annotated[int, Meta(ge=1, le=queueing.MOST_DELIVERED)] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=queueing.MOST_WAIT_MS, description="for records, where there are none")] = 0
    partition: PartitionNumber | None = None
    lock_ms: LockMs | None = None
    start_at: Annotated[
        Literal["earliest", "latest"],
        Meta(description="where a group begins that has not yet and has no setting for it"),
    ] = "earliest"


class Ack(Body):
    receipts: Receipts


class Nack(Body):
    receipts: Receipts
    delay: Duration | None = None


class Reject(Body):
    receipts: Receipts
    reason: Reason | None = None


class Extend(Body):
    receipts: Receipts
    lock_ms: LockMs | None = None


class Deliveries(Answer):
    deliveries: list[Delivered]


class QueuesQuery(PageQuery):
    search: Annotated[str, Meta(max_length=1024, description="a part of the topic's or the group's name")] = ""


async def acquire(call: Call) -> Deliveries:
    body: Acquire = call.body or Acquire()
    found = await queueing.acquire(
        call,
        call.path["group"],
        call.path["topic"],
        most=body.max,
        wait_ms=body.wait_ms,
        partition=body.partition,
        lock_ms=body.lock_ms,
        begin=body.start_at,
    )
    return Deliveries(deliveries=[queueing.delivered(call, each) for each in found])


async def ack(call: Call) -> Results:
    return await _settle(call, call.services.queues.accept)


async def nack(call: Call) -> Results:
    delay = None if call.body.delay is None else duration(call.body.delay, "delay")
    if delay is not None and delay > queueing.MOST_LOCK_MS:
        raise invalid("A record can be held back for a day at most.")
    return await _settle(call, partial(call.services.queues.release, delay_ms=delay))


async def reject(call: Call) -> Results:
    return await _settle(call, partial(call.services.queues.reject, reason=call.body.reason))


async def extend(call: Call) -> Results:
    return await _settle(call, partial(call.services.queues.extend, lock_ms=call.body.lock_ms))


async def _settle(call: Call, word: queueing.Settle) -> Results:
    given = call.body.receipts
    outcomes = await queueing.settle(call, given, word, call.path["group"], call.path["topic"])
    return queueing.results(given, outcomes)


async def list_queues(call: Call) -> Page[QueueFigures]:
    query: QueuesQuery = call.query
    found = [each for each in await queueing.names(call) if query.search in each.topic or query.search in each.group]
    chosen = page(found, lambda each: f"{each.topic}\0{each.group}", query.limit, query.cursor)
    items = await together(queueing.figures(call, each) for each in chosen.items)
    return Page(items=items, next_cursor=chosen.next_cursor)


async def get_queue(call: Call) -> QueueFigures:
    topic, group = call.path["topic"], call.path["group"]
    may_take(call, topic, group)
    if call.services.cluster.topic(topic) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
    queue = call.services.cluster.topic(group)
    is_queue = queue is not None and queue.configs.get(SOURCE) == topic
    return await queueing.figures(call, QueueName(topic, group, group if is_queue else None))


_GROUP = "/v1/queues/{topic}/groups/{group}"
ROUTES = [
    Route(
        method="GET",
        path="/v1/queues",
        handle=list_queues,
        summary="List the groups that share topics, and how deep their queues are",
        tag="queues",
        query=QueuesQuery,
        answer=Page[QueueFigures],
    ),
    Route(
        method="GET",
        path=_GROUP,
        handle=get_queue,
        summary="Tell how deep a queue is",
        tag="queues",
        answer=QueueFigures,
    ),
    Route(
        method="POST",
        path=f"{_GROUP}/acquire",
        handle=acquire,
        summary="Acquire records, waiting for them if need be",
        description="Each is the receiver's until it is acknowledged, or its lock ends. A group begins with its first acquisition.",
        tag="queues",
        body=Acquire,
        is_body_optional=True,
        answer=Deliveries,
    ),
    Route(
        method="POST",
        path=f"{_GROUP}/ack",
        handle=ack,
        summary="Say that records are done with",
        tag="queues",
        body=Ack,
        answer=Results,
    ),
    Route(
        method="POST",
        path=f"{_GROUP}/nack",
        handle=nack,
        summary="Let others have records, at once or later",
        tag="queues",
        body=Nack,
        answer=Results,
    ),
    Route(
        method="POST",
        path=f"{_GROUP}/reject",
        handle=reject,
        summary="Say that nobody can do anything with records: they become dead letters",
        tag="queues",
        body=Reject,
        answer=Results,
    ),
    Route(
        method="POST",
        path=f"{_GROUP}/extend",
        handle=extend,
        summary="Keep records for longer",
        tag="queues",
        body=Extend,
        answer=Results,
    ),
]
