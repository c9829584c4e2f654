"""Queue's routes, in its own JSON: consumers that connect to a group, receive one message after the other, and acknowledge each."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from kompat.admin.access import may_read
from kompat.admin.consumers import Consumer, Consumers, members_of
from kompat.admin.problems import CONFLICT, Problem, check, invalid
from kompat.admin.producing import partitions_of, produce
from kompat.admin.route import JSON, Call, Route
from kompat.admin.shapes import BASE64
from kompat.admin.texts import in_base64, raw_bytes_in_slices
from kompat.extensions.reads.service import ReadRange
from kompat.protocol.messages import CreateTopicsRequest
from kompat.protocol.records import Record

TAG: Final = "Queue compatibility"
CREATED_WITHIN_MS: Final = 30_000
ID_BYTES: Final = 8
LONGEST_QUESTION: Final = 4096  # bytes of a body

Name = Annotated[str, Meta(min_length=1, max_length=249)]
ConsumerId = Annotated[str, Meta(min_length=1, max_length=200)]
GroupName = Annotated[str, Meta(min_length=1, max_length=200)]
PartitionId = Annotated[str, Meta(min_length=1, max_length=270, description="topic-number", examples=["orders-0"])]


class NewTopic(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    name: Name
    number_of_partitions: Annotated[int, Meta(ge=1, le=100_000)] = 1
    replication_factor: Annotated[int, Meta(ge=-1, le=1000)] = -1


class Topic(msgspec.Struct, kw_only=True, rename="pascal"):
    name: str
    number_of_partitions: int


class Connect(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: ConsumerId  # noqa: N815 - Queue's name, as the next
    consumerGroup: GroupName  # noqa: N815
    topics: Annotated[list[Name], Meta(min_length=1, max_length=100)]


class ConsumerShape(msgspec.Struct, kw_only=True):
    id: str
    partitions: list[str]
    consumer_group: str
    topics: list[str]
    is_active: bool
    last_health_check_at: dict[str, int]


class GroupShape(msgspec.Struct, kw_only=True):
    id: str
    consumers: list[str]
    topics: list[str]


class Connected(msgspec.Struct, kw_only=True):
    consumer: ConsumerShape
    consumerGroup: GroupShape  # noqa: N815 - Queue's name


class NewMessage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`data` is base64."""

    topic: Name | None = None
    data: str | None = None
    partitionKey: str = ""  # noqa: N815 - Queue's name
    # Go accepts a name in any case, and writes these.
    Topic: Name | None = None
    Data: str | None = None
    PartitionKey: str = ""


class Message(msgspec.Struct, kw_only=True):
    """`Data` is base64, and so is `ID`: eight bytes, the most significant first."""

    Topic: str
    PartitionKey: str
    PartitionID: str
    Data: str
    ID: str


class Receive(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: ConsumerId  # noqa: N815 - Queue's name, as the next
    partitionID: PartitionId | None = None  # noqa: N815


class ReceiveQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: ConsumerId | None = None  # noqa: N815 - Queue's name, as the next
    partitionID: PartitionId | None = None  # noqa: N815


class Ack(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: ConsumerId  # noqa: N815 - Queue's name, as the next
    partitionID: PartitionId  # noqa: N815
    ID: Annotated[str, Meta(min_length=1, max_length=24)]


class Acknowledged(msgspec.Struct, kw_only=True):
    acknowledged: bool


class HealthCheck(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: ConsumerId  # noqa: N815 - Queue's name, as the next
    pingAt: Annotated[str, Meta(max_length=64)] | None = None  # noqa: N815


# -- topics and messages -----------------------------------------------------------------------------------------------
async def create_topic(call: Call) -> Topic:
    body: NewTopic = call.body
    new = CreateTopicsRequest.CreatableTopic(
        name=body.name,
        num_partitions=body.number_of_partitions,
        replication_factor=body.replication_factor,
        assignments=[],
        configs=[],
    )
    [made] = (await call.send(CreateTopicsRequest(topics=[new], timeout_ms=CREATED_WITHIN_MS))).topics
    check(made.error_code, made.error_message)
    return Topic(name=body.name, number_of_partitions=body.number_of_partitions)


async def send_message(call: Call) -> Message:
    body: NewMessage = call.body
    topic, data, key = body.topic or body.Topic, body.data or body.Data, body.partitionKey or body.PartitionKey
    if topic is None:
        raise invalid("`topic` is missing.")
    if not data:
        raise invalid("`data` is missing.")
    value = await raw_bytes_in_slices(data, BASE64, "data")
    count = await partitions_of(call, topic)
    record = Record(0, call.services.clock.now(), key.encode("utf-8", "surrogatepass") or None, value)
    [sent] = await produce(call, topic, [record], [None], count)
    if sent.error is not None:
        raise sent.error
    return await _message(topic, sent.partition, Record(sent.offset, sent.timestamp, record.key, value))


async def _message(topic: str, partition: int, record: Record) -> Message:
    return Message(
        Topic=topic,
        PartitionKey=(record.key or b"").decode(errors="replace"),
        PartitionID=f"{topic}-{partition}",
        Data=await in_base64(record.value or b""),
        ID=base64.b64encode(record.offset.to_bytes(ID_BYTES, "big")).decode(),
    )


# -- consumers ---------------------------------------------------------------------------------------------------------
async def connect(call: Call) -> Connected:
    body: Connect = call.body
    for topic in body.topics:
        await partitions_of(call, topic)
    consumers = call.once(Consumers)
    async with consumers.turn_of(call, body.consumerID):
        consumer = await consumers.connect(call, body.consumerID, body.consumerGroup, sorted(set(body.topics)))
    members = await members_of(call, consumer.group)
    topics = sorted({topic for member in members.values() for topic in member.subscribed_topic_names})
    return Connected(
        consumer=_consumer(call, consumer),
        consumerGroup=GroupShape(id=consumer.group, consumers=sorted(members), topics=topics),
    )


def _consumer(call: Call, consumer: Consumer) -> ConsumerShape:
    return ConsumerShape(
        id=consumer.id,
        partitions=[f"{topic}-{partition}" for topic, partition in consumer.partitions],
        consumer_group=consumer.group,
        topics=consumer.topics,
        is_active=True,
        last_health_check_at={"seconds": call.services.clock.now() // 1000},
    )


async def health_check(call: Call) -> ConsumerShape:
    consumers = call.once(Consumers)
    async with consumers.turn_of(call, call.body.consumerID):
        return _consumer(call, await consumers.alive(call, call.body.consumerID))


async def receive_message(call: Call) -> Message | Response:
    given = await _in_body(call)
    consumer_id = given.consumerID if given is not None else call.query.consumerID
    partition_id = given.partitionID if given is not None else call.query.partitionID
    if consumer_id is None:
        raise invalid("`consumerID` is missing.")
    consumers = call.once(Consumers)
    async with consumers.turn_of(call, consumer_id):
        consumer = await consumers.alive(call, consumer_id)
        if partition_id is not None:
            places = [_owned(consumer, partition_id)]
        else:
            turn = consumer.turn % max(1, len(consumer.partitions))
            places = consumer.partitions[turn:] + consumer.partitions[:turn]
            consumer.turn += 1
        for topic, partition in places:
            may_read(call, topic)
            record = await _next(call, consumer, topic, partition)
            if record is not None:
                return await _message(topic, partition, record)
    return Response(b"null", media_type=JSON)


async def _in_body(call: Call) -> Receive | None:
    """The body of a GET, which Queue's own clients send, and which OpenAPI cannot describe."""
    raw = await call.bodies.read(call.request, LONGEST_QUESTION, call.room)
    try:
        return msgspec.json.decode(raw, type=Receive) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"Body: {error}.") from None


def _owned(consumer: Consumer, partition_id: str) -> tuple[str, int]:
    topic, _, number = partition_id.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) < 10 and topic):
        raise invalid(f"{partition_id!r} is not a partition such as orders-0.")
    if not consumer.has(topic, int(number)):
        have = ", ".join(f"{name}-{each}" for name, each in consumer.partitions) or "none"
        raise Problem(
            CONFLICT, f"Consumer {consumer.id} is not assigned partition {partition_id} at the moment, but {have}."
        )
    return topic, int(number)


async def _next(call: Call, consumer: Consumer, topic: str, partition: int) -> Record | None:
    """The first record that the group has not acknowledged."""
    offset = await call.once(Consumers).position(call, consumer, topic, partition)
    cursor: str | None = None
    wanted = ReadRange(topic=topic, partitions=[partition], from_offset=offset, read_committed=True)
    while True:
        page = await call.services.reads.read(wanted, limit=1, cursor=cursor)
        if page.records:
            return page.records[0].record
        cursor = page.cursor
        if cursor is None:
            return None


async def ack_message(call: Call) -> Acknowledged:
    body: Ack = call.body
    offset = _offset(body.ID)
    consumers = call.once(Consumers)
    async with consumers.turn_of(call, body.consumerID):
        consumer = await consumers.alive(call, body.consumerID)
        topic, partition = _owned(consumer, body.partitionID)
        if offset < await consumers.position(call, consumer, topic, partition):
            return Acknowledged(acknowledged=True)  # a repeated acknowledgement
        record = await _next(call, consumer, topic, partition)
        if record is None or record.offset != offset:
            due = (
                "there is no message to acknowledge"
                if record is None
                else f"the next message has offset {record.offset}"
            )
            raise Problem(CONFLICT, f"Messages of a partition must be acknowledged in order: {due}, not {offset}.")
        await consumers.commit(call, consumer, topic, partition, offset + 1)
    return Acknowledged(acknowledged=True)


def _offset(text: str) -> int:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != ID_BYTES or raw[0] > 127:
        raise invalid("`ID` is not a message id: use the id of a received message.")
    return int.from_bytes(raw, "big")


ROUTES = [
    Route(
        method="POST", path="/topics", handle=create_topic, summary="Create a topic", tag=TAG, body=NewTopic,
        answer=Topic, status=201, problems=(409, 429),
    ),
    Route(
        method="POST", path="/connect", handle=connect,
        summary="Make a consumer a member of a group; assignments are sticky", tag=TAG,
        body=Connect, answer=Connected, problems=(404, 409),
    ),
    Route(
        method="POST", path="/sendMessage", handle=send_message, summary="Produce a message", tag=TAG, body=NewMessage,
        answer=Message, problems=(404, 429, 507),
    ),
    Route(
        method="GET", path="/receiveMessage", handle=receive_message,
        summary="Receive the next unacknowledged message; null if there is none",
        description="Every request of a consumer is also a heartbeat. `consumerID` and `partitionID` are query parameters or fields of a JSON body.",
        tag=TAG, query=ReceiveQuery, answer=Message | None, problems=(404, 408, 409, 413),
        has_effects=True,
    ),
    Route(
        method="POST", path="/ackMessage", handle=ack_message, summary="Acknowledge a message",
        tag=TAG, body=Ack, answer=Acknowledged, problems=(404, 409),
    ),
    Route(
        method="POST", path="/healthCheck", handle=health_check, summary="Send a heartbeat of a consumer", tag=TAG,
        body=HealthCheck, answer=ConsumerShape, problems=(404, 409),
    ),
]  # fmt: skip
