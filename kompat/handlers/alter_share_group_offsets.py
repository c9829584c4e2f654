"""AlterShareGroupOffsets (key 91, v0): let a share group without members begin anew at given offsets."""

from __future__ import annotations

from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kompat.share.requests import TopicIdPartition
from kompat.types import ZERO_UUID, Offset

TopicAnswer = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
PartitionAnswer = TopicAnswer.AlterShareGroupOffsetsResponsePartition


async def handle(ctx: Context, req: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    offsets: dict[TopicIdPartition, Offset] = {}
    answers = [_judge(ctx, topic, offsets) for topic in req.topics]
    await ctx.services.shares.members.check_empty(req.group_id, must_exist=False)
    await ctx.services.shares.offsets.alter(req.group_id, offsets)
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, error_message=None, responses=answers)


def _judge(ctx: Context, asked: Any, offsets: dict[TopicIdPartition, Offset]) -> Any:
    """Take the offsets of the partitions that exist; the others are refused."""
    topic = ctx.services.cluster.topic(asked.topic_name)
    answers = []
    for partition in asked.partitions:
        if topic is not None and 0 <= partition.partition_index < len(topic.partitions):
            offsets[TopicIdPartition(topic.id, partition.partition_index)] = Offset(partition.start_offset)
            answers.append(_answer(partition.partition_index, None))
        else:
            answers.append(_answer(partition.partition_index, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    topic_id = topic.id if topic is not None else ZERO_UUID
    return TopicAnswer(topic_name=asked.topic_name, topic_id=topic_id, partitions=answers)


def _answer(index: int, error: KafkaError | None) -> Any:
    return PartitionAnswer(
        partition_index=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
    )


def failure(_: AlterShareGroupOffsetsRequest, error: KafkaError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=describe(error), responses=[])


API = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions=Versions(0, 0),
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
    handle=handle,
    failure=failure,
)
