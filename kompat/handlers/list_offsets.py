"""ListOffsets (key 2, v1-11): the offset at a moment, or at one of the places that have a name.

Negative timestamps name places: latest, earliest, the record with the highest timestamp (v7+), earliest on local disk
(v8+), latest in tiered storage (v9+), earliest not yet uploaded (v11+). All data is local, so the fourth is the earliest
and the last two do not exist. Nothing beyond what the reader may see is told: the high watermark, or with
`isolation_level` 1 the last stable offset. "Nothing found" is offset -1 without an error. A consumer that asks for the latest
may never read past it, so what is held back for those who ask is released before.
A partition that a topic names twice is INVALID_REQUEST, and answered once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from enum import IntEnum
from types import CoroutineType
from typing import NamedTuple, TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import partitions
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.parts import Cut
from kompat.log.partition import FoundOffset, Isolation, Partition
from kompat.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import LeaderEpoch, Millis, Offset


class Place(IntEnum):
    """Timestamps that name a place."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


FIRST_VERSION = {
    Place.LATEST: 1,
    Place.EARLIEST: 1,
    Place.MAX_TIMESTAMP: 7,
    Place.EARLIEST_LOCAL: 8,
    Place.LATEST_TIERED: 9,
    Place.EARLIEST_PENDING_UPLOAD: 11,
}
NEVER = 1 << 15
UNKNOWN = -1
CONSUMER = -1  # as a replica's id
ISOLATIONS = {int(level): level for level in Isolation}
ONCE: Mapping[int, int] = {}
NOTHING = FoundOffset(Offset(UNKNOWN), Millis(UNKNOWN), LeaderEpoch(UNKNOWN))

Asked: TypeAlias = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
TopicAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
Found: TypeAlias = list[tuple[str, list[PartitionAnswer | Awaitable[PartitionAnswer]]]]


class _Reader(NamedTuple):
    isolation: Isolation
    is_consumer: bool


def handle(ctx: Context, req: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answered at once where nothing has to be looked for: Spark asks twice for every 500 records that it reads."""
    isolation = ISOLATIONS.get(req.isolation_level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    reader = _Reader(isolation, req.replica_id == CONSUMER)
    is_complete = True
    found = []
    for topic in req.topics:
        times = Counter(p.partition_index for p in topic.partitions) if len(topic.partitions) > 1 else ONCE
        answers = {p.partition_index: _answer(ctx, reader, topic.name, p, times) for p in topic.partitions}
        found.append((topic.name, list(answers.values())))
        is_complete = is_complete and not any(isinstance(answer, CoroutineType) for answer in answers.values())
    return _told(found) if is_complete else _waited_for(found)


def _told(found: Found) -> ListOffsetsResponse:
    return ListOffsetsResponse(topics=[TopicAnswer(name=name, partitions=answers) for name, answers in found])


async def _waited_for(found: Found) -> ListOffsetsResponse:
    for _, answers in found:
        for position, answer in enumerate(answers):
            if isinstance(answer, CoroutineType):
                answers[position] = await answer
    return _told(found)


def _answer(
    ctx: Context, reader: _Reader, topic: str, asked: Asked, times: Mapping[int, int]
) -> PartitionAnswer | Awaitable[PartitionAnswer]:
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)
        _check(asked, ctx.api_version, times)
        partition = partitions.find(ctx, topic, asked.partition_index, asked.current_leader_epoch)
    except KafkaError as error:
        return _failed(asked.partition_index, error)
    if asked.timestamp == Place.LATEST and (partition.demand is None or not reader.is_consumer):
        return _found(asked.partition_index, partition.latest(reader.isolation))
    if asked.timestamp == Place.EARLIEST:
        return _found(asked.partition_index, partition.earliest())
    return _looked_for(partition, asked, reader)


async def _looked_for(partition: Partition, asked: Asked, reader: _Reader) -> PartitionAnswer:
    try:
        if asked.timestamp == Place.LATEST and partition.demand is not None:
            await partition.demand.settle().wait()
        return _found(asked.partition_index, await _look_up(partition, asked.timestamp, reader.isolation))
    except KafkaError as error:
        return _failed(asked.partition_index, error)


def _found(index: int, found: FoundOffset) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _check(asked: Asked, version: int, times: Mapping[int, int]) -> None:
    if times.get(asked.partition_index, 1) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.timestamp < 0 and version < FIRST_VERSION.get(asked.timestamp, NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


async def _look_up(partition: Partition, timestamp: int, isolation: Isolation) -> FoundOffset:
    found: FoundOffset | None
    if timestamp == Place.LATEST:
        found = partition.latest(isolation)
    elif timestamp in (Place.EARLIEST, Place.EARLIEST_LOCAL):
        found = partition.earliest()
    elif timestamp == Place.MAX_TIMESTAMP:
        found = await partition.max_timestamp_offset(isolation)
    elif timestamp in (Place.LATEST_TIERED, Place.EARLIEST_PENDING_UPLOAD):
        found = None
    else:
        found = await partition.offset_for_time(Millis(timestamp), isolation)
    return found or NOTHING


def _failed(index: int, error: KafkaError) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=index, error_code=error.code, timestamp=UNKNOWN, offset=UNKNOWN, leader_epoch=UNKNOWN
    )


def failure(req: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            TopicAnswer(name=t.name, partitions=[_failed(p.partition_index, error) for p in t.partitions])
            for t in req.topics
        ]
    )


API = Api(
    key=2,
    name="ListOffsets",
    versions=Versions(1, 11),
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions", key=lambda each: each.partition_index)),),
)
