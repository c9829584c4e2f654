"""AlterShareGroupOffsets: set the start offsets of a share group without members."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

TopicRequest: TypeAlias = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
TopicAnswer: TypeAlias = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
PartitionAnswer: TypeAlias = (
    AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic.AlterShareGroupOffsetsResponsePartition
)


async def handle(ctx: Context, req: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    offsets: dict[UUID, dict[int, int]] = {}
    answers = [_take_offsets(ctx, topic, offsets) for topic in req.topics]
    await ctx.services.share_groups.alter_offsets(req.group_id, offsets)
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, error_message=None, responses=answers)


def _take_offsets(ctx: Context, requested: TopicRequest, offsets: dict[UUID, dict[int, int]]) -> TopicAnswer:
    """Take the offsets of the partitions that exist; the others are refused."""
    if not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, requested.topic_name):
        error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        hidden = [_answer(partition.partition_index, error) for partition in requested.partitions]
        return TopicAnswer(topic_name=requested.topic_name, topic_id=ZERO_UUID, partitions=hidden)
    topic = ctx.services.cluster.topic(requested.topic_name)
    answers = []
    for partition in requested.partitions:
        if topic is not None and 0 <= partition.partition_index < len(topic.partitions):
            offsets.setdefault(topic.id, {})[partition.partition_index] = partition.start_offset
            answers.append(_answer(partition.partition_index, None))
        else:
            answers.append(_answer(partition.partition_index, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    topic_id = topic.id if topic is not None else ZERO_UUID
    return TopicAnswer(topic_name=requested.topic_name, topic_id=topic_id, partitions=answers)


def _answer(index: int, error: KafkaError | None) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
    )


def failure(_: AlterShareGroupOffsetsRequest, error: KafkaError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=describe(error), responses=[])


HANDLER = Handler(
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    handle,
    failure,
    parts=(Cut("topics", "responses", Cut("partitions", "partitions")),),
)
