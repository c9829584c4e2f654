"""OffsetForLeaderEpoch (key 23, v2-4): where a leader's epoch ends, for consumers that check their position.

An epoch that the log does not know has no end: epoch and offset are -1, without an error.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import partitions
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.parts import Cut
from kompat.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kompat.security.acls import Kind, Operation

TopicAnswer: TypeAlias = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
PartitionAnswer: TypeAlias = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset
UNKNOWN = -1


def handle(ctx: Context, req: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicAnswer(topic=t.topic, partitions=[_end(ctx, t.topic, p) for p in t.partitions]) for t in req.topics
        ]
    )


def _end(
    ctx: Context, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
) -> PartitionAnswer:
    try:
        _need_topic(ctx, topic)
        partition = partitions.find(ctx, topic, asked.partition, asked.current_leader_epoch)
    except KafkaError as error:
        return _failed(asked.partition, error)
    epoch, end = partition.end_offset_for_epoch(asked.leader_epoch)
    return PartitionAnswer(error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end)


def _need_topic(ctx: Context, topic: str) -> None:
    authorizer = ctx.services.authorizer
    if not authorizer.allows(ctx, Operation.CLUSTER_ACTION, Kind.CLUSTER):
        authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)


def _failed(index: int, error: KafkaError) -> PartitionAnswer:
    return PartitionAnswer(error_code=error.code, partition=index, leader_epoch=UNKNOWN, end_offset=UNKNOWN)


def failure(req: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicAnswer(topic=t.topic, partitions=[_failed(p.partition, error) for p in t.partitions])
            for t in req.topics
        ]
    )


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=Versions(2, 4),
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
