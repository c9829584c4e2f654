"""DescribeShareGroupOffsets (key 90, v0-1): where share groups stand, and from v1 on how much is still before them.

Without topics: all that the group has a state for. What it has none for, be it that the topic does not exist, has offset -1.
"""

from __future__ import annotations

from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.share.requests import DescribedOffset, TopicIdPartition
from kompat.types import ZERO_UUID

GroupAnswer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
TopicAnswer = GroupAnswer.DescribeShareGroupOffsetsResponseTopic
PartitionAnswer = TopicAnswer.DescribeShareGroupOffsetsResponsePartition


async def handle(ctx: Context, req: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[await _group(ctx, group) for group in req.groups])


async def _group(ctx: Context, group: Any) -> Any:
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.GROUP, group.group_id)
        topics = await (_all_topics(ctx, group.group_id) if group.topics is None else _topics(ctx, group))
    except KafkaError as error:
        return _refused(group, error)
    return GroupAnswer(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE, error_message=None)


async def _all_topics(ctx: Context, group_id: str) -> list[Any]:
    answers: dict[object, Any] = {}
    for partition in await ctx.services.shares.offsets.partitions_of(group_id):
        topic = ctx.services.cluster.topic_by_id(partition.topic_id)
        if topic is None or not _is_visible(ctx, topic.name):
            continue
        if topic.id not in answers:
            answers[topic.id] = TopicAnswer(topic_name=topic.name, topic_id=topic.id, partitions=[])
        answers[topic.id].partitions.append(_answer(await ctx.services.shares.offsets.describe(group_id, partition)))
    return list(answers.values())


async def _topics(ctx: Context, group: Any) -> list[Any]:
    answers = []
    for asked in group.topics:
        if not _is_visible(ctx, asked.topic_name):
            answers.append(_hidden(asked))
            continue
        topic = ctx.services.cluster.topic(asked.topic_name)
        partitions = [
            _answer(await _describe(ctx, group.group_id, topic.id if topic is not None else None, index))
            for index in asked.partitions
        ]
        topic_id = topic.id if topic is not None else ZERO_UUID
        answers.append(TopicAnswer(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions))
    return answers


def _is_visible(ctx: Context, topic: str) -> bool:
    return ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)


def _hidden(asked: Any) -> Any:
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return TopicAnswer(
        topic_name=asked.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            PartitionAnswer(partition_index=index, error_code=error.code, error_message=describe(error))
            for index in asked.partitions
        ],
    )


async def _describe(ctx: Context, group_id: str, topic_id: Any, index: int) -> DescribedOffset:
    if topic_id is None:
        return DescribedOffset(partition=index, start_offset=-1, leader_epoch=0, lag=-1)
    return await ctx.services.shares.offsets.describe(group_id, TopicIdPartition(topic_id, index))


def _answer(described: DescribedOffset) -> Any:
    return PartitionAnswer(
        partition_index=described.partition,
        start_offset=described.start_offset,
        leader_epoch=described.leader_epoch,
        lag=described.lag,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _refused(group: Any, error: KafkaError) -> Any:
    return GroupAnswer(group_id=group.group_id, topics=[], error_code=error.code, error_message=describe(error))


def failure(req: DescribeShareGroupOffsetsRequest, error: KafkaError) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_refused(group, error) for group in req.groups])


API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=Versions(0, 1),
    request=DescribeShareGroupOffsetsRequest,
    response=DescribeShareGroupOffsetsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("groups", "groups", Cut("topics", "topics", Cut("partitions", "partitions"))),),
)
