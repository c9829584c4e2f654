"""Queues: acquire records, and say of each what became of it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from kompat.admin import groups, queueing
from kompat.admin.access import may_take
from kompat.admin.group_offsets import delete_offsets
from kompat.admin.messages import Duration, PartitionNumber, duration
from kompat.admin.problems import CONFLICT, Problem, invalid
from kompat.admin.queueing import Delivered, LockMs, QueueFigures, QueueName, Reason, Receipts, Results
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page
from kompat.admin.spread import together
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Kind, Operation
from kompat.slices import sliced


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
    return Deliveries(deliveries=[queueing.delivered(call, each) async for each in sliced(found)])


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
    _topic(call)
    return await queueing.figures(call, QueueName(topic, group, group if _is_queue_topic(call) else None))


async def forget(call: Call) -> None:
    topic, group = call.path["topic"], call.path["group"]
    call.require(Operation.DELETE, Kind.GROUP, group)
    may_take(call, topic, group)
    topic_id = _topic(call).id
    if _is_queue_topic(call):
        raise Problem(CONFLICT, f"{group} is a queue topic of {topic}. Delete that topic instead.")
    members = await groups.find_or_begin(call, group)
    if members.kind == "share":  # its own API knows whether somebody uses it
        await delete_offsets(call, members, topic, None)
        return
    offsets = call.services.shares.offsets
    begun = [each for each in await offsets.partitions_of(group) if each.topic_id == topic_id]
    if not begun:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} has nothing of {topic}.")
    await offsets.delete(group, begun)


def _topic(call: Call) -> Topic:
    found = call.services.cluster.topic(call.path["topic"])
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {call.path['topic']}.")
    return found


def _is_queue_topic(call: Call) -> bool:
    queue = call.services.cluster.topic(call.path["group"])
    return queue is not None and queue.configs.get(SOURCE) == call.path["topic"]


_GROUP = "/v1/queues/{topic}/groups/{group}"
ROUTES = [
    Route(
        method="GET", path="/v1/queues", handle=list_queues,
        summary="List the groups that share topics, and how deep their queues are", tag="queues", query=QueuesQuery,
        answer=Page[QueueFigures],
    ),
    Route(
        method="GET", path=_GROUP, handle=get_queue, summary="Tell how deep a queue is", tag="queues",
        answer=QueueFigures,
    ),
    Route(
        method="DELETE", path=_GROUP, handle=forget, summary="Forget where a group stands in a topic",
        description="What somebody holds is free then. Should the group come again, it begins anew.",
        tag="queues", problems=(409,),
    ),
    Route(
        method="POST", path=f"{_GROUP}/acquire", handle=acquire, summary="Acquire records, waiting for them if need be",
        description="Each is the receiver's until it is acknowledged, or its lock ends. A group begins with its first acquisition.",
        tag="queues", body=Acquire, is_body_optional=True, answer=Deliveries,
    ),
    Route(
        method="POST", path=f"{_GROUP}/ack", handle=ack, summary="Say that records are done with", tag="queues",
        body=Ack, answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/nack", handle=nack, summary="Let others have records, at once or later",
        tag="queues", body=Nack, answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/reject", handle=reject,
        summary="Say that nobody can do anything with records: they become dead letters", tag="queues", body=Reject,
        answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/extend", handle=extend, summary="Keep records for longer", tag="queues",
        body=Extend, answer=Results,
    ),
]  # fmt: skip
