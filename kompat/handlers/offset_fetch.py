"""OffsetFetch (key 9, v1-10): how far groups have read.

v8+ asks for many groups at once, each answered by itself. Null topics (v2+) ask for all that the group has; what is not
known is offset -1 without an error. v7+ may insist on stable offsets: UNSTABLE_OFFSET_COMMIT where a transaction is about
to change one. v9+ checks the epoch of a consumer group's member. v10 names topics by id.
A group's own error stands at its partitions in v1, at the top in v2-7, and with the group in v8+.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import FetchedOffset, FetchedTopic, FetchRequest, TopicOffsets
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import OffsetFetchRequest, OffsetFetchResponse

FIRST_VERSION_WITH_TOP_LEVEL_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8
FIRST_VERSION_WITH_IDS = 10

AskedGroup: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup
AskedTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
# v1-7 have one group and its own structs, v8+ the others.
OldTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopic
OldPartition: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition
Group: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup
Topic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics
Partition: TypeAlias = (
    OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
)


async def handle(ctx: Context, req: OffsetFetchRequest) -> OffsetFetchResponse:
    if ctx.api_version >= FIRST_VERSION_WITH_MANY_GROUPS:
        groups = await asyncio.gather(*(_group(ctx, group, req.require_stable) for group in req.groups))
        return OffsetFetchResponse(groups=groups)
    wanted = None if req.topics is None else [_by_name(topic) for topic in req.topics]
    try:
        fetched = await ctx.services.groups.fetch_offsets(
            FetchRequest(
                group_id=req.group_id,
                topics=None if wanted is None else tuple(wanted),
                require_stable=req.require_stable,
            )
        )
    except KafkaError as error:
        if ctx.api_version >= FIRST_VERSION_WITH_TOP_LEVEL_ERROR:
            return OffsetFetchResponse(error_code=error.code, topics=[])
        raise
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=[_old_topic(topic) for topic in fetched])


def _by_name(topic: OffsetFetchRequest.OffsetFetchRequestTopic) -> FetchedTopic:
    return FetchedTopic(name=topic.name, partitions=tuple(topic.partition_indexes))


def _old_topic(topic: TopicOffsets) -> OldTopic:
    return OldTopic(name=topic.name, partitions=[_partition(OldPartition, each) for each in topic.partitions])


def _partition(kind: type[Any], offset: FetchedOffset) -> Any:
    return kind(
        partition_index=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


# -- many groups -------------------------------------------------------------------------------------------------------
async def _group(ctx: Context, group: AskedGroup, require_stable: bool) -> Group:
    by_id = ctx.api_version >= FIRST_VERSION_WITH_IDS
    wanted = None
    if group.topics is not None:
        wanted = [_by_id(ctx, topic) if by_id else _by_name(topic) for topic in group.topics]
    try:
        fetched = await ctx.services.groups.fetch_offsets(
            FetchRequest(
                group_id=group.group_id,
                member_id=group.member_id,
                member_epoch=group.member_epoch,
                topics=None if wanted is None else tuple(each for each in wanted if each is not None),
                require_stable=require_stable,
            )
        )
    except KafkaError as error:
        return Group(group_id=group.group_id, topics=[], error_code=error.code)
    if wanted is None:
        topics = _all_topics(ctx, fetched, by_id)
    else:
        found = iter(fetched)
        topics = [
            _unknown_id(asked) if each is None else _topic(next(found), asked.topic_id)
            for each, asked in zip(wanted, group.topics, strict=True)
        ]
    return Group(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE)


def _by_id(ctx: Context, topic: AskedTopic) -> FetchedTopic | None:
    known = ctx.services.cluster.topic_by_id(topic.topic_id)
    if known is None:
        return None
    return FetchedTopic(name=known.name, topic_id=known.id, partitions=tuple(topic.partition_indexes))


def _all_topics(ctx: Context, fetched: Sequence[TopicOffsets], by_id: bool) -> list[Topic]:
    """A topic that has no id any more cannot be named to those who only know ids."""
    if not by_id:
        return [_topic(each, None) for each in fetched]
    known = ((each, ctx.services.cluster.topic(each.name)) for each in fetched)
    return [_topic(each, topic.id) for each, topic in known if topic is not None]


def _topic(topic: TopicOffsets, topic_id: UUID | None) -> Topic:
    partitions = [_partition(Partition, each) for each in topic.partitions]
    return Topic(name=topic.name, topic_id=topic_id, partitions=partitions)


def _unknown_id(asked: AskedTopic) -> Topic:
    failed = (FetchedOffset(partition=index, error=ErrorCode.UNKNOWN_TOPIC_ID) for index in asked.partition_indexes)
    return Topic(topic_id=asked.topic_id, partitions=[_partition(Partition, each) for each in failed])


def failure(req: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    topics = [
        TopicOffsets(
            name=topic.name,
            partitions=tuple(FetchedOffset(partition=index, error=error.code) for index in topic.partition_indexes),
        )
        for topic in req.topics or []
    ]
    return OffsetFetchResponse(
        error_code=error.code,
        topics=[_old_topic(topic) for topic in topics],
        groups=[Group(group_id=group.group_id, topics=[], error_code=error.code) for group in req.groups],
    )


API = Api(
    key=9,
    name="OffsetFetch",
    versions=Versions(1, 10),
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    handle=handle,
    failure=failure,
)
