"""FalconQ's routes, in its own shapes. A consumer id is a share group of its own: it remembers what its consumer has had, and gives
out what is urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin import queueing
from kompat.admin.access import may_read, may_take
from kompat.admin.problems import check
from kompat.admin.producing import partitions_of, produce
from kompat.admin.raft import RaftPeer, raft_of
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Encoding, shown
from kompat.admin.spread import EARLIEST, LATEST, offsets
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.headers import PRIORITY, priority_of
from kompat.extensions.queues import Delivery
from kompat.extensions.reading import ReadRange
from kompat.protocol.messages import CreateTopicsRequest, MetadataRequest
from kompat.protocol.records import Record
from kompat.security.acls import Kind, Operation
from kompat.share.records import UNINITIALIZED
from kompat.share.requests import TopicIdPartition

TAG: Final = "FalconQ"
GROUPS: Final = "falconq-"  # of consumers
HIGH_FROM: Final = 5  # classes: what says nothing is low
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
    """Offsets are of the one partition; of the first, where there are several."""

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
    """A topic begins with its first message. What is low waits as long as there is anything high."""
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
    told = _consumed(topic, only, ((each.partition, each.record) for each in taken))
    told.consumerID = query.consumerID
    if not taken and only is not None:
        told.startOffset = told.nextOffset = await _position(call, topic, group, only)
    return told


async def _urgent_first(call: Call, topic: str, group: str, batch: int, partition: int | None) -> list[Delivery]:
    """Within a partition the queue sees to it. Of several those come first that have something urgent."""
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
    start = (await call.services.shares.offsets.describe(group, TopicIdPartition(found.id, partition))).start_offset
    return 0 if start == UNINITIALIZED else start


async def peek(call: Call) -> Consumed:
    query: PeekQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    count = await partitions_of(call, topic)
    _check_partition(topic, query.partitionID, count)
    only = query.partitionID if query.partitionID is not None else 0 if count == 1 else None
    wanted = ReadRange(
        topic=topic,
        partitions=None if query.partitionID is None else [query.partitionID],
        from_offset=query.offset,
        read_committed=True,
    )
    found = await call.services.reads.read(wanted, limit=query.batch, max_bytes=call.room.reserve(queueing.MOST_BYTES))
    told = _consumed(topic, only, ((each.partition, each.record) for each in found.records))
    if not found.records:
        told.startOffset = told.nextOffset = query.offset
    return told


def _check_partition(topic: str, partition: int | None, count: int) -> None:
    if partition is not None and partition >= count:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition} of {topic}.")


def _consumed(topic: str, partition: int | None, placed: Iterable[tuple[int, Record]]) -> Consumed:
    ordered = sorted(placed, key=lambda each: (priority_of(each[1].headers) < HIGH_FROM, each[0], each[1].offset))
    shown_of = ordered[0][0] if ordered else 0
    own: Sequence[int] = [record.offset for index, record in ordered if index == shown_of]
    return Consumed(
        topic=topic,
        partitionID=partition,
        messages=[_value(index, record) for index, record in ordered],
        startOffset=min(own, default=0),
        count=len(ordered),
        nextOffset=max(own, default=-1) + 1,
    )


def _value(partition: int, record: Record) -> Value:
    text, encoding = shown(record.value)
    level: Level = "high" if priority_of(record.headers) >= HIGH_FROM else "low"
    return Value(v=text, p=level, offset=record.offset, partitionID=partition, encoding=encoding)


# -- looking -----------------------------------------------------------------------------------------------------------
async def list_topics(call: Call) -> Topics:
    response = await call.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    check(response.error_code)
    return Topics(topics=sorted(topic.name for topic in response.topics if not topic.is_internal)[:MOST_TOPICS])


async def list_partitions(call: Call) -> Partitions:
    topic = call.path["topic"]
    wanted = {topic: range(await partitions_of(call, topic))}
    starts, ends = await offsets(call, wanted, EARLIEST), await offsets(call, wanted, LATEST)
    counts = {number: ends[topic, number] - starts[topic, number] for _, number in ends.keys() & starts.keys()}
    found = [PartitionCount(id=number, totalCount=counts.get(number)) for number in wanted[topic]]
    return Partitions(topic=topic, partitions=found)


async def raft(call: Call) -> RaftFigures:
    query: RaftQuery = call.query
    _check_partition(query.topic, query.partitionID, await partitions_of(call, query.topic))
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    found = await raft_of(call, [(query.topic, query.partitionID)])
    if not found:
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE, f"Nobody leads partition {query.partitionID} of {query.topic} now."
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
        summary="Publish a message of high or low priority; the topic begins with its first one", tag=TAG, body=Publish,
        answer=Published, problems=(429, 507),
    ),
    Route(
        method="GET", path="/topic/{topic}/consume", handle=consume,
        summary="Consume the next messages of a consumer, high before low", tag=TAG, query=ConsumeQuery,
        answer=Consumed, problems=(409,), has_effects=True,
    ),
    Route(
        method="GET", path="/topic/{topic}/peek", handle=peek,
        summary="Look at messages from an offset on; nothing moves", tag=TAG, query=PeekQuery, answer=Consumed,
    ),
    Route(
        method="GET", path="/topics", handle=list_topics, summary="List topics", tag=TAG, answer=Topics,
    ),
    Route(
        method="GET", path="/topics/{topic}/partitions", handle=list_partitions, summary="List a topic's partitions",
        tag=TAG, answer=Partitions,
    ),
    Route(
        method="GET", path="/raft/stats", handle=raft, summary="Raft's figures of a partition", tag=TAG,
        query=RaftQuery, answer=RaftFigures, problems=(404,),
    ),
]  # fmt: skip
