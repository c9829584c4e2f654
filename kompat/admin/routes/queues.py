"""Queues: acquire records and acknowledge them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from kompat.admin import groups, queueing
from kompat.admin.access import may_take
from kompat.admin.fan_out import together
from kompat.admin.group_offsets import delete_offsets
from kompat.admin.messages import Duration, PartitionNumber, duration
from kompat.admin.problems import CONFLICT, Problem, invalid
from kompat.admin.queueing import Delivered, LockMs, QueueFigures, QueueName, Reason, Receipts, Results
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.state import Topic
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Kind, Operation


class Acquire(Body):
    max: Annotated[int, Meta(ge=1, le=queueing.MOST_DELIVERED)] = 1
    wait_ms: Annotated[
        int, Meta(ge=0, le=queueing.MOST_WAIT_MS, description="time to wait for records if there are none")
    ] = 0
    partition: PartitionNumber | None = None
    lock_ms: LockMs | None = None
    start_at: Annotated[
        Literal["earliest", "latest"],
        Meta(description="start offset of a new group without share.auto.offset.reset"),
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
    search: Annotated[str, Meta(max_length=1024, description="only topics or groups whose names contain this text")] = (
        ""
    )


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
    return Deliveries(deliveries=[await queueing.delivered(call, each) async for each in sliced(found)])


async def ack(call: Call) -> Results:
    return await _acknowledge(call, call.services.queues.accept)


async def nack(call: Call) -> Results:
    delay = None if call.body.delay is None else duration(call.body.delay, "delay")
    if delay is not None and delay > queueing.MOST_LOCK_MS:
        raise invalid("The redelivery delay is one day at most.")
    return await _acknowledge(call, partial(call.services.queues.release, delay_ms=delay))


async def reject(call: Call) -> Results:
    return await _acknowledge(call, partial(call.services.queues.reject, reason=call.body.reason))


async def extend(call: Call) -> Results:
    return await _acknowledge(call, partial(call.services.queues.extend, lock_ms=call.body.lock_ms))


async def _acknowledge(call: Call, action: queueing.Acknowledge) -> Results:
    given = call.body.receipts
    outcomes = await queueing.acknowledge(call, given, action, call.path["group"], call.path["topic"])
    return queueing.results(given, outcomes)


async def list_queues(call: Call) -> Page[QueueFigures]:
    query: QueuesQuery = call.query
    found = [each for each in await queueing.names(call) if query.search in each.topic or query.search in each.group]
    chosen = await page(found, lambda each: f"{each.topic}\0{each.group}", query.limit, query.cursor)
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
    if members.kind == "share":  # its own API checks whether it is in use
        await delete_offsets(call, members, topic, None)
        return
    offsets = call.services.shares.offsets
    begun = [each for each in await offsets.partitions_of(group) if each.topic_id == topic_id]
    if not begun:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} has no state for {topic}.")
    await offsets.delete(group, begun)


def _topic(call: Call) -> Topic:
    found = call.services.cluster.topic(call.path["topic"])
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {call.path['topic']} does not exist.")
    return found


def _is_queue_topic(call: Call) -> bool:
    queue = call.services.cluster.topic(call.path["group"])
    return queue is not None and queue.configs.get(SOURCE) == call.path["topic"]


_GROUP = "/v1/queues/{topic}/groups/{group}"
ROUTES = [
    Route(
        method="GET", path="/v1/queues", handle=list_queues,
        summary="List queues (share groups and their topics) with their depths", tag="queues", query=QueuesQuery,
        answer=Page[QueueFigures],
    ),
    Route(
        method="GET", path=_GROUP, handle=get_queue, summary="Show the depth of a queue", tag="queues",
        answer=QueueFigures,
    ),
    Route(
        method="DELETE", path=_GROUP, handle=forget, summary="Delete the state of a share group for a topic",
        description="Acquired records are released. A group that uses the topic again starts as a new group.",
        tag="queues", problems=(409,),
    ),
    Route(
        method="POST", path=f"{_GROUP}/acquire", handle=acquire, summary="Acquire records; wait for them if there are none",
        description="A record is locked for the consumer until it is acknowledged or the acquisition lock times out. The first acquisition creates the group.",
        tag="queues", body=Acquire, is_body_optional=True, answer=Deliveries,
    ),
    Route(
        method="POST", path=f"{_GROUP}/ack", handle=ack, summary="Acknowledge records", tag="queues",
        body=Ack, answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/nack", handle=nack, summary="Release records for redelivery, at once or after a delay",
        tag="queues", body=Nack, answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/reject", handle=reject,
        summary="Reject records: send them to the dead-letter topic", tag="queues", body=Reject,
        answer=Results,
    ),
    Route(
        method="POST", path=f"{_GROUP}/extend", handle=extend, summary="Renew the acquisition locks of records", tag="queues",
        body=Extend, answer=Results,
    ),
]  # fmt: skip
