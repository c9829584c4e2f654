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
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import partitions
from kompat.handlers.base import Api, Context, Versions
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
NOTHING = FoundOffset(Offset(UNKNOWN), Millis(UNKNOWN), LeaderEpoch(UNKNOWN))

Asked: TypeAlias = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
TopicAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse


class _Reader(NamedTuple):
    isolation: Isolation
    is_consumer: bool


async def handle(ctx: Context, req: ListOffsetsRequest) -> ListOffsetsResponse:
    if req.isolation_level not in set(Isolation):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    reader = _Reader(Isolation(req.isolation_level), req.replica_id == CONSUMER)
    response = ListOffsetsResponse(topics=[])
    for topic in req.topics:
        times = Counter(p.partition_index for p in topic.partitions)
        answers = {p.partition_index: await _answer(ctx, reader, topic.name, p, times) for p in topic.partitions}
        response.topics.append(TopicAnswer(name=topic.name, partitions=list(answers.values())))
    return response


async def _answer(ctx: Context, reader: _Reader, topic: str, asked: Asked, times: Counter[int]) -> PartitionAnswer:
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)
        _check(asked, ctx.api_version, times)
        partition = partitions.find(ctx, topic, asked.partition_index, asked.current_leader_epoch)
        if asked.timestamp == Place.LATEST and partition.demand is not None and reader.is_consumer:
            await partition.demand.settle().wait()
        found = await _look_up(partition, asked.timestamp, reader.isolation)
    except KafkaError as error:
        return _failed(asked.partition_index, error)
    return PartitionAnswer(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _check(asked: Asked, version: int, times: Counter[int]) -> None:
    if times[asked.partition_index] > 1:
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
)
