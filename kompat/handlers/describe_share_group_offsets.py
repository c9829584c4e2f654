"""DescribeShareGroupOffsets: where share groups stand, and from v1 on how much is still before them.

Without topics: all partitions that the group has a state for. A partition without one, or of an unknown topic, has offset -1.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.share.requests import DescribedOffset
from kompat.types import ZERO_UUID, LogId

GroupRequest: TypeAlias = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
TopicRequest: TypeAlias = (
    DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup.DescribeShareGroupOffsetsRequestTopic
)
GroupAnswer: TypeAlias = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
TopicAnswer: TypeAlias = (
    DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup.DescribeShareGroupOffsetsResponseTopic
)
PartitionAnswer: TypeAlias = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup.DescribeShareGroupOffsetsResponseTopic.DescribeShareGroupOffsetsResponsePartition


async def handle(ctx: Context, req: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[await _group(ctx, group) for group in req.groups])


async def _group(ctx: Context, group: GroupRequest) -> GroupAnswer:
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.GROUP, group.group_id)
        if group.topics is None:
            topics = await _all_topics(ctx, group.group_id)
        else:
            topics = await _topics(ctx, group.group_id, group.topics)
    except KafkaError as error:
        return _refused(group, error)
    return GroupAnswer(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE, error_message=None)


async def _all_topics(ctx: Context, group_id: str) -> list[TopicAnswer]:
    answers: dict[UUID, TopicAnswer] = {}
    for partition in await ctx.services.shares.offsets.partitions_of(group_id):
        topic = ctx.services.cluster.topic_by_id(partition.topic_id)
        if topic is None or not _is_visible(ctx, topic.name):
            continue
        if topic.id not in answers:
            answers[topic.id] = TopicAnswer(topic_name=topic.name, topic_id=topic.id, partitions=[])
        answers[topic.id].partitions.append(_answer(await ctx.services.shares.offsets.describe(group_id, partition)))
    return list(answers.values())


async def _topics(ctx: Context, group_id: str, topics: list[TopicRequest]) -> list[TopicAnswer]:
    answers = []
    for requested in topics:
        if not _is_visible(ctx, requested.topic_name):
            answers.append(_hidden(requested))
            continue
        topic = ctx.services.cluster.topic(requested.topic_name)
        partitions = [
            _answer(await _describe(ctx, group_id, topic.id if topic is not None else None, index))
            for index in requested.partitions
        ]
        topic_id = topic.id if topic is not None else ZERO_UUID
        answers.append(TopicAnswer(topic_name=requested.topic_name, topic_id=topic_id, partitions=partitions))
    return answers


def _is_visible(ctx: Context, topic: str) -> bool:
    return ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, topic)


def _hidden(requested: TopicRequest) -> TopicAnswer:
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return TopicAnswer(
        topic_name=requested.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            PartitionAnswer(partition_index=index, error_code=error.code, error_message=describe(error))
            for index in requested.partitions
        ],
    )


async def _describe(ctx: Context, group_id: str, topic_id: UUID | None, index: int) -> DescribedOffset:
    if topic_id is None:
        return DescribedOffset(partition=index, start_offset=-1, leader_epoch=0, lag=-1)
    return await ctx.services.shares.offsets.describe(group_id, LogId(topic_id, index))


def _answer(described: DescribedOffset) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=described.partition,
        start_offset=described.start_offset,
        leader_epoch=described.leader_epoch,
        lag=described.lag,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _refused(group: GroupRequest, error: KafkaError) -> GroupAnswer:
    return GroupAnswer(group_id=group.group_id, topics=[], error_code=error.code, error_message=describe(error))


def failure(req: DescribeShareGroupOffsetsRequest, error: KafkaError) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_refused(group, error) for group in req.groups])


HANDLER = Handler(
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    handle,
    failure,
    parts=(Cut("groups", "groups", Cut("topics", "topics", Cut("partitions", "partitions"))),),
)
