"""GoQueue's groups and acknowledgements, in its own JSON: a group is a share group, and polled messages have receipts."""

from __future__ import annotations

import asyncio
import uuid
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin import groups, queueing
from kompat.admin.group_offsets import commit
from kompat.admin.messages import Duration, duration
from kompat.admin.problems import check
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Encoding, rfc3339
from kompat.admin.texts import shown_in_slices
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.headers import priority_of
from kompat.extensions.queues.service import Delivery
from kompat.protocol.messages import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest

TAG = "GoQueue compatibility"
JOIN, LEAVE = 0, -1
SLICE_MS = 500  # wait time of one topic, if a member reads several
LONGEST_WAIT = 60_000
LEVELS = {9: "critical", 8: "critical", 7: "high", 6: "high", 5: "high", 4: "normal", 3: "low", 2: "low", 1: "low"}

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
Generation = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Given(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request's body, with GoQueue's names: with underscores."""


class GoQueueAnswer(msgspec.Struct, kw_only=True):
    """A response's body, with GoQueue's names."""


class Join(Given):
    client_id: Name
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=100)]


class Beat(Given):
    member_id: Name
    generation: Generation = 0


class Leave(Given):
    member_id: Name


class Joined(GoQueueAnswer):
    member_id: str
    generation: int
    leader_id: str
    partitions: list[int]
    members: list[str]


class Status(GoQueueAnswer):
    status: str
    generation: int | UnsetType = UNSET


class PollQuery(Given):
    member_id: Name
    generation: Generation = 0
    timeout: Duration = 30_000
    limit: Annotated[int, Meta(ge=1, le=queueing.MOST_DELIVERED)] = 100


class PolledMessage(GoQueueAnswer, omit_defaults=True):
    topic: str
    offset: int
    timestamp: str
    value: str | None
    priority: str
    receipt_handle: str
    delivery_count: int
    key: str | None = None
    encoding: Encoding | UnsetType = UNSET
    key_encoding: Encoding | UnsetType = UNSET


class Polled(GoQueueAnswer):
    """Messages by partition."""

    messages: dict[int, list[PolledMessage]]
    next_offset: dict[int, int]


class Commit(Given):
    offsets: Annotated[
        dict[TopicName, dict[int, Annotated[int, Meta(ge=0, le=2**63 - 1)]]], Meta(min_length=1, max_length=1000)
    ]
    member_id: str = ""
    generation: int = 0


class Committed(GoQueueAnswer):
    status: str
    group: str
    offsets: dict[str, dict[int, int]]


class Offsets(GoQueueAnswer):
    group_id: str
    topics: dict[str, dict[int, int]]


# -- groups ------------------------------------------------------------------------------------------------------------
async def join(call: Call) -> Joined:
    body: Join = call.body
    for topic in body.topics:
        if call.services.cluster.topic(topic) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic} does not exist.")
    member_id = str(uuid.uuid4())
    beaten = await _beat(call, member_id, JOIN, body.topics)
    members = await _members(call)
    return Joined(
        member_id=member_id,
        generation=beaten.member_epoch,
        leader_id="",
        partitions=sorted(_assigned(members, member_id)),
        members=sorted(members),
    )


async def heartbeat(call: Call) -> Status:
    body: Beat = call.body
    member = await _member(call, body.member_id, body.generation)
    beaten = await _beat(call, body.member_id, member.member_epoch)
    return Status(status="ok", generation=beaten.member_epoch)


async def leave(call: Call) -> Status:
    await _beat(call, call.body.member_id, LEAVE)
    return Status(status="left")


async def _beat(call: Call, member_id: str, epoch: int, topics: list[str] | None = None) -> Any:
    group = call.path["group"]
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
    )
    response = await call.send(request, to=await call.requests.to_coordinator(group))
    check(response.error_code, response.error_message)
    return response


async def _members(call: Call) -> dict[str, Any]:
    group = call.path["group"]
    request = ShareGroupDescribeRequest(group_ids=[group])
    [described] = (await call.send(request, to=await call.requests.to_coordinator(group))).groups
    check(described.error_code, described.error_message)
    return {member.member_id: member for member in described.members}


async def _member(call: Call, member_id: str, generation: int) -> Any:
    found = (await _members(call)).get(member_id)
    if found is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group: join the group again."
        )
    if generation > found.member_epoch:
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, f"Generation {generation} is unknown: join the group again.")
    return found


def _assigned(members: dict[str, Any], member_id: str) -> set[int]:
    member = members.get(member_id)
    assigned = () if member is None else member.assignment.topic_partitions
    return {partition for topic in assigned for partition in topic.partitions}


async def poll(call: Call) -> Polled:
    query: PollQuery = call.query
    member = await _member(call, query.member_id, query.generation)
    await _beat(call, query.member_id, member.member_epoch)
    wait_ms = min(duration(query.timeout, "timeout"), LONGEST_WAIT)
    found = await _acquire(call, sorted(member.subscribed_topic_names), query.limit, wait_ms)
    polled = Polled(messages={}, next_offset={})
    async for delivery in sliced(found):
        polled.messages.setdefault(delivery.partition, []).append(await _message(delivery))
        after = polled.next_offset.get(delivery.partition, 0)
        polled.next_offset[delivery.partition] = max(after, delivery.record.offset + 1)
    return polled


async def _acquire(call: Call, topics: list[str], limit: int, wait_ms: int) -> list[Delivery]:
    """Acquire from one topic after the other, until there are records or the time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    slice_ms = 0  # the first round does not wait
    while not call.stopping.is_set():
        left_ms = max(0, round((deadline - loop.time()) * 1000))
        for topic in topics:
            found = await queueing.acquire(call, call.path["group"], topic, most=limit, wait_ms=min(slice_ms, left_ms))
            if found:
                return found
        if left_ms == 0 or not topics:
            break
        slice_ms = left_ms if len(topics) == 1 else SLICE_MS
    return []


async def _message(delivery: Delivery) -> PolledMessage:
    record = delivery.record
    key, key_encoding = await shown_in_slices(record.key)
    value, encoding = await shown_in_slices(record.value)
    return PolledMessage(
        topic=delivery.topic,
        offset=record.offset,
        timestamp=rfc3339(record.timestamp),
        key=key,
        key_encoding=key_encoding,
        value=value,
        encoding=encoding,
        priority=LEVELS.get(priority_of(record.headers), "background"),
        receipt_handle=delivery.receipt,
        delivery_count=delivery.deliveries,
    )


async def put_offsets(call: Call) -> Committed:
    body: Commit = call.body
    group = await groups.find_or_begin(call, call.path["group"])
    places = ((topic, *place) for topic, each in body.offsets.items() for place in each.items())
    wanted = {(topic, partition): (offset, "") async for topic, partition, offset in sliced(places)}
    await commit(call, group, wanted)
    return Committed(status="committed", group=group.name, offsets=body.offsets)


async def get_offsets(call: Call) -> Offsets:
    group = await groups.find_group(call, call.path["group"])
    topics: dict[str, dict[int, int]] = {}
    async for (topic, partition), each in sliced(sorted(group.offsets.items(), key=lambda item: item[0])):
        topics.setdefault(topic, {})[partition] = each.offset
    return Offsets(group_id=group.name, topics=topics)


_GROUP = "/v1/groups/{group}"
ROUTES = [
    Route(
        method="POST", path=f"{_GROUP}/join", handle=join, summary="Join a group", tag=TAG, body=Join, answer=Joined,
        problems=(409,),
    ),
    Route(
        method="POST", path=f"{_GROUP}/heartbeat", handle=heartbeat, summary="Send a heartbeat of a group member", tag=TAG, body=Beat,
        answer=Status, problems=(409,),
    ),
    Route(
        method="POST", path=f"{_GROUP}/leave", handle=leave, summary="Leave a group", tag=TAG, body=Leave,
        answer=Status, problems=(409,),
    ),
    Route(
        method="GET", path=f"{_GROUP}/poll", handle=poll,
        summary="Poll records with receipts; wait for them if there are none",
        description="Every poll is also a heartbeat.",
        tag=TAG, query=PollQuery, answer=Polled, problems=(409,), has_effects=True,
    ),
    Route(
        method="POST", path=f"{_GROUP}/offsets", handle=put_offsets, summary="Commit offsets of a group", tag=TAG,
        body=Commit, answer=Committed, problems=(409,),
    ),
    Route(
        method="GET", path=f"{_GROUP}/offsets", handle=get_offsets, summary="Show the committed offsets of a group", tag=TAG,
        answer=Offsets,
    ),
]  # fmt: skip
