"""ListOffsets: the offset at a timestamp, or at a named position.

Negative timestamps name positions: latest, earliest, the record with the highest timestamp (v7+), earliest on local disk
(v8+), latest in tiered storage (v9+), earliest not yet uploaded (v11+). All data is local, so the fourth is the earliest
and the last two do not exist. Offsets end where the reader's view ends: at the high watermark, or with
`isolation_level` 1 at the last stable offset. "Nothing found" is offset -1 without an error. A consumer that requests the latest
offset may never read past it, so records that an extension holds back are released before.
A partition that a topic names twice is INVALID_REQUEST, and answered once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import partitions
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.log.partition import FoundOffset, Isolation, Partition
from kompat.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import Millis


class Place(IntEnum):
    """Timestamps that name a place."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


FIRST_VERSION: Mapping[int, int] = {
    Place.LATEST: 1,
    Place.EARLIEST: 1,
    Place.MAX_TIMESTAMP: 7,
    Place.EARLIEST_LOCAL: 8,
    Place.LATEST_TIERED: 9,
    Place.EARLIEST_PENDING_UPLOAD: 11,
}
NEVER = 1 << 15
CONSUMER = -1  # as a replica's id
ISOLATIONS = {int(level): level for level in Isolation}

TopicRequest: TypeAlias = ListOffsetsRequest.ListOffsetsTopic
PartitionRequest: TypeAlias = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
TopicAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionAnswer: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse


class Reader(NamedTuple):
    isolation: Isolation
    is_consumer: bool


class Search(NamedTuple):
    """An offset that the log has to be read for, and the answer that it goes into."""

    partition: Partition
    timestamp: int
    answer: PartitionAnswer


def handle(ctx: Context, req: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answered at once where no log has to be read: Spark sends two of these for every 500 records that it reads."""
    isolation = ISOLATIONS.get(req.isolation_level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    reader = Reader(isolation, req.replica_id == CONSUMER)
    searches: list[Search] = []
    response = ListOffsetsResponse(topics=[_topic(ctx, reader, topic, searches) for topic in req.topics])
    return _search_all(response, searches, isolation) if searches else response


def _topic(ctx: Context, reader: Reader, topic: TopicRequest, searches: list[Search]) -> TopicAnswer:
    answers: dict[int, PartitionAnswer] = {}
    for requested in topic.partitions:
        is_duplicate = requested.partition_index in answers
        answer = answers[requested.partition_index] = PartitionAnswer(partition_index=requested.partition_index)
        try:
            partition = _find(ctx, topic.name, requested, is_duplicate=is_duplicate)
        except KafkaError as error:
            answer.error_code = error.code
            continue
        if not _answer_at_once(partition, requested.timestamp, reader, answer):
            searches.append(Search(partition, requested.timestamp, answer))
    return TopicAnswer(name=topic.name, partitions=list(answers.values()))


def _find(ctx: Context, topic: str, requested: PartitionRequest, *, is_duplicate: bool) -> Partition:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)
    if is_duplicate:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if requested.timestamp < 0 and ctx.api_version < FIRST_VERSION.get(requested.timestamp, NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return partitions.find(ctx, topic, requested.partition_index, requested.current_leader_epoch)


def _answer_at_once(partition: Partition, timestamp: int, reader: Reader, answer: PartitionAnswer) -> bool:
    """Whether that is possible: the log does not have to be read, and no record be released."""
    if timestamp == Place.LATEST and (partition.fetch_listener is None or not reader.is_consumer):
        _fill(answer, partition.latest(reader.isolation))
    elif timestamp in (Place.EARLIEST, Place.EARLIEST_LOCAL):
        _fill(answer, partition.earliest())
    else:
        return timestamp in (Place.LATEST_TIERED, Place.EARLIEST_PENDING_UPLOAD)  # there is none
    return True


async def _search_all(
    response: ListOffsetsResponse, searches: list[Search], isolation: Isolation
) -> ListOffsetsResponse:
    for partition, timestamp, answer in searches:
        try:
            _fill(answer, await _search(partition, timestamp, isolation))
        except KafkaError as error:
            answer.error_code = error.code
    return response


async def _search(partition: Partition, timestamp: int, isolation: Isolation) -> FoundOffset | None:
    if timestamp == Place.LATEST:
        if partition.fetch_listener is not None:
            await partition.fetch_listener.release_all()
        return partition.latest(isolation)
    if timestamp == Place.MAX_TIMESTAMP:
        return await partition.max_timestamp_offset(isolation)
    return await partition.offset_for_time(Millis(timestamp), isolation)


def _fill(answer: PartitionAnswer, found: FoundOffset | None) -> None:
    """Fields without a value are -1."""
    if found is not None:
        answer.timestamp, answer.offset, answer.leader_epoch = found.timestamp, found.offset, found.leader_epoch


def failure(req: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[
                    PartitionAnswer(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in req.topics
        ]
    )


HANDLER = Handler(
    ListOffsetsRequest,
    ListOffsetsResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions", key=lambda each: each.partition_index)),),
)
