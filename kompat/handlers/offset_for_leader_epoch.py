"""OffsetForLeaderEpoch: where a leader's epoch ends, for consumers that check their position.

For an epoch that is not in the log, epoch and offset are -1, without an error.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import partitions
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
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
    ctx: Context, topic: str, requested: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
) -> PartitionAnswer:
    try:
        _need_topic(ctx, topic)
        partition = partitions.find(ctx, topic, requested.partition, requested.current_leader_epoch)
    except KafkaError as error:
        return _failed(requested.partition, error)
    epoch, end = partition.end_offset_for_epoch(requested.leader_epoch)
    return PartitionAnswer(error_code=ErrorCode.NONE, partition=requested.partition, leader_epoch=epoch, end_offset=end)


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


HANDLER = Handler(
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
