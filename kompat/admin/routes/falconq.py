"""FalconQ's routes, in its own JSON. A consumer id is a share group, which keeps what its consumer has consumed, and delivers high
priorities first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin import queueing
from kompat.admin.access import may_read, may_take
from kompat.admin.broker_info import RaftPeer
from kompat.admin.fan_out import EARLIEST, LATEST, offsets
from kompat.admin.problems import check
from kompat.admin.producing import partitions_of, produce
from kompat.admin.raft import raft_of
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Encoding
from kompat.admin.texts import shown_in_slices
from kompat.admin.turns import AT_A_TIME
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.headers import PRIORITY, priority_of
from kompat.extensions.queues.service import Delivery
from kompat.extensions.reads.service import ReadRange, ReadRecord
from kompat.protocol.messages import CreateTopicsRequest, MetadataRequest
from kompat.protocol.records import Record
from kompat.security.acls import Kind, Operation
from kompat.share.records import UNINITIALIZED
from kompat.types import LogId

TAG: Final = "FalconQ compatibility"
GROUPS: Final = "falconq-"  # prefix of the groups of consumers
HIGH_FROM: Final = 5  # priorities: a message without one is low
CLASSES: Final = {"high": "9", "low": "0"}
CREATED_WITHIN_MS: Final = 10_000
MOST_TOPICS: Final = 10_000

Level = Literal["high", "low"]
Batch = Annotated[int, Meta(ge=1, le=queueing.MOST_DELIVERED)]
PartitionId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Publish(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    message: str
    priority: Level
    partition_key: str | None = None


class Published(msgspec.Struct, kw_only=True):
    status: str
    topic: str
    partitionID: int  # noqa: N815 - FalconQ's name
    offset: int
    message: str
    priority: Level


class ConsumeQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    consumerID: Annotated[str, Meta(min_length=1, max_length=200)]  # noqa: N815 - FalconQ's name, as the next
    partitionID: PartitionId | None = None  # noqa: N815
    batch: Batch = 1


class PeekQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=2**62)] = 0
    partitionID: PartitionId | None = None  # noqa: N815 - FalconQ's name
    batch: Batch = 1


class Value(msgspec.Struct, kw_only=True):
    """v: the message, p: its priority."""

    v: str | None
    p: Level
    offset: int
    partitionID: int  # noqa: N815 - FalconQ's name
    encoding: Encoding | UnsetType = UNSET


class Consumed(msgspec.Struct, kw_only=True):
    """Offsets are those of the partition; of the first one if there are several."""

    topic: str
    partitionID: int | None  # noqa: N815 - FalconQ's name, as the following
    messages: list[Value]
    startOffset: int  # noqa: N815
    count: int
    nextOffset: int  # noqa: N815
    consumerID: str | UnsetType = UNSET  # noqa: N815


class Topics(msgspec.Struct, kw_only=True):
    topics: list[str]


class PartitionCount(msgspec.Struct, kw_only=True):
    id: int
    totalCount: int | None  # noqa: N815 - FalconQ's name


class Partitions(msgspec.Struct, kw_only=True):
    topic: str
    partitions: list[PartitionCount]


class RaftQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    partitionID: PartitionId = 0  # noqa: N815 - FalconQ's name


class RaftFigures(msgspec.Struct, kw_only=True):
    topic: str
    partitionID: int  # noqa: N815 - FalconQ's name
    state: str
    term: int
    leader: int | None
    commit_index: int
    applied_index: int
    last_log_index: int
    peers: list[RaftPeer]


# -- messages ----------------------------------------------------------------------------------------------------------
async def publish(call: Call) -> Published:
    body: Publish = call.body
    topic = call.path["topic"]
    count = await _ensured(call, topic)
    headers = [(PRIORITY, CLASSES[body.priority].encode())]
    key = None if body.partition_key is None else body.partition_key.encode("utf-8", "surrogatepass")
    value = body.message.encode("utf-8", "surrogatepass")
    [sent] = await produce(call, topic, [Record(0, call.services.clock.now(), key, value, headers)], [None], count)
    if sent.error is not None:
        raise sent.error
    return Published(
        status="message received",
        topic=topic,
        partitionID=sent.partition,
        offset=sent.offset,
        message=body.message,
        priority=body.priority,
    )


async def _ensured(call: Call, topic: str) -> int:
    """Create the topic with its first message. Without aging, low messages wait as long as there are high ones."""
    if call.services.cluster.topic(topic) is None:
        config = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name="kompat.priority.aging.ms", value="0")
        new = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=[], configs=[config]
        )
        [made] = (await call.send(CreateTopicsRequest(topics=[new], timeout_ms=CREATED_WITHIN_MS))).topics
        if made.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(made.error_code, made.error_message)
    return await partitions_of(call, topic)


async def consume(call: Call) -> Consumed:
    query: ConsumeQuery = call.query
    topic, group = call.path["topic"], GROUPS + query.consumerID
    may_take(call, topic, group)
    count = await partitions_of(call, topic)
    _check_partition(topic, query.partitionID, count)
    given = await _urgent_first(call, topic, group, query.batch, query.partitionID)
    refused = await call.services.queues.accept([each.receipt for each in given]) if given else []
    taken = [each for each, error in zip(given, refused, strict=True) if error is None]
    only = query.partitionID if query.partitionID is not None else 0 if count == 1 else None
    consumed = await _consumed(topic, only, ((each.partition, each.record) for each in taken))
    consumed.consumerID = query.consumerID
    if not taken and only is not None:
        consumed.startOffset = consumed.nextOffset = await _position(call, topic, group, only)
    return consumed


async def _urgent_first(call: Call, topic: str, group: str, batch: int, partition: int | None) -> list[Delivery]:
    """Acquire from partitions with high messages first. Within a partition, the share group orders by priority."""
    queues = call.services.queues
    depths = await queues.by_partition(group, topic, begin="earliest")
    found: list[Delivery] = []
    urgent = {
        number: sum(n for level, n in each.classes.items() if level >= HIGH_FROM) for number, each in depths.items()
    }
    rounds = [(number, most) for number, most in urgent.items() if most] + [(number, batch) for number in depths]
    for number, most in rounds:
        left = min(most, batch - len(found))
        if left > 0 and partition in (None, number):
            found += await queueing.acquire(call, group, topic, most=left, wait_ms=0, partition=number)
    return found


async def _position(call: Call, topic: str, group: str, partition: int) -> int:
    found = call.services.cluster.topic(topic)
    if found is None:
        return 0
    start = (await call.services.shares.offsets.describe(group, LogId(found.id, partition))).start_offset
    return 0 if start == UNINITIALIZED else start


async def peek(call: Call) -> Consumed:
    query: PeekQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    count = await partitions_of(call, topic)
    _check_partition(topic, query.partitionID, count)
    only = query.partitionID if query.partitionID is not None else 0 if count == 1 else None
    found = await _peeked(call, range(count) if query.partitionID is None else [query.partitionID])
    consumed = await _consumed(topic, only, ((each.partition, each.record) for each in found))
    if not found:
        consumed.startOffset = consumed.nextOffset = query.offset
    return consumed


async def _peeked(call: Call, partitions: Sequence[int]) -> list[ReadRecord]:
    """Some partitions at a time, until there is as much as was asked for."""
    query: PeekQuery = call.query
    left = call.room.reserve(queueing.MOST_BYTES)
    found: list[ReadRecord] = []
    for first in range(0, len(partitions), AT_A_TIME):
        these = partitions[first : first + AT_A_TIME]
        wanted = ReadRange(topic=call.path["topic"], partitions=these, from_offset=query.offset, read_committed=True)
        page = await call.services.reads.read(wanted, limit=query.batch - len(found), max_bytes=left)
        found += page.records
        left -= sum(len(each.record.key or b"") + len(each.record.value or b"") for each in page.records)
        if len(found) >= query.batch or left <= 0:
            break
    return found


def _check_partition(topic: str, partition: int | None, count: int) -> None:
    if partition is not None and partition >= count:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {partition} of {topic} does not exist.")


async def _consumed(topic: str, partition: int | None, placed: Iterable[tuple[int, Record]]) -> Consumed:
    ordered = sorted(placed, key=lambda each: (priority_of(each[1].headers) < HIGH_FROM, each[0], each[1].offset))
    shown_of = ordered[0][0] if ordered else 0
    own: Sequence[int] = [record.offset for index, record in ordered if index == shown_of]
    return Consumed(
        topic=topic,
        partitionID=partition,
        messages=[await _value(index, record) async for index, record in sliced(ordered)],
        startOffset=min(own, default=0),
        count=len(ordered),
        nextOffset=max(own, default=-1) + 1,
    )


async def _value(partition: int, record: Record) -> Value:
    text, encoding = await shown_in_slices(record.value)
    level: Level = "high" if priority_of(record.headers) >= HIGH_FROM else "low"
    return Value(v=text, p=level, offset=record.offset, partitionID=partition, encoding=encoding)


# -- topics and Raft ---------------------------------------------------------------------------------------------------
async def list_topics(call: Call) -> Topics:
    response = await call.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    check(response.error_code)
    return Topics(topics=sorted(topic.name for topic in response.topics if not topic.is_internal)[:MOST_TOPICS])


async def list_partitions(call: Call) -> Partitions:
    topic = call.path["topic"]
    wanted = {topic: range(await partitions_of(call, topic))}
    starts, ends = await offsets(call, wanted, EARLIEST), await offsets(call, wanted, LATEST)
    found = []
    async for number in sliced(wanted[topic]):
        start, end = starts.get((topic, number)), ends.get((topic, number))
        found.append(PartitionCount(id=number, totalCount=None if start is None or end is None else end - start))
    return Partitions(topic=topic, partitions=found)


async def raft(call: Call) -> RaftFigures:
    query: RaftQuery = call.query
    _check_partition(query.topic, query.partitionID, await partitions_of(call, query.topic))
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    found = await raft_of(call, [(query.topic, query.partitionID)])
    if not found:
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE,
            f"Partition {query.partitionID} of {query.topic} has no leader at the moment.",
        )
    group = found[0]
    return RaftFigures(
        topic=query.topic,
        partitionID=query.partitionID,
        state=group.role,
        term=group.term,
        leader=group.leader,
        commit_index=group.commit_index,
        applied_index=group.applied_index,
        last_log_index=group.last_index,
        peers=group.peers,
    )


ROUTES = [
    Route(
        method="POST", path="/topic/{topic}/publish", handle=publish,
        summary="Publish a message with high or low priority; the first message creates the topic", tag=TAG, body=Publish,
        answer=Published, problems=(429, 507),
    ),
    Route(
        method="GET", path="/topic/{topic}/consume", handle=consume,
        summary="Consume the next messages of a consumer, high priority first", tag=TAG, query=ConsumeQuery,
        answer=Consumed, problems=(409,), has_effects=True,
    ),
    Route(
        method="GET", path="/topic/{topic}/peek", handle=peek,
        summary="Read messages from an offset on, without moving the consumer", tag=TAG, query=PeekQuery, answer=Consumed,
    ),
    Route(
        method="GET", path="/topics", handle=list_topics, summary="List topics", tag=TAG, answer=Topics,
    ),
    Route(
        method="GET", path="/topics/{topic}/partitions", handle=list_partitions, summary="List a topic's partitions",
        tag=TAG, answer=Partitions,
    ),
    Route(
        method="GET", path="/raft/stats", handle=raft, summary="Show the Raft state of a partition", tag=TAG,
        query=RaftQuery, answer=RaftFigures, problems=(404,),
    ),
]  # fmt: skip
