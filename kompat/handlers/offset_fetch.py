"""OffsetFetch: the committed offsets of groups.

v8+ has many groups, each answered by itself. Null topics (v2+) mean all that the group has; an unknown one
has offset -1 without an error. v7+ may insist on stable offsets: UNSTABLE_OFFSET_COMMIT where a transaction is about
to change one. v9+ checks the epoch of a consumer group's member. v10 names topics by id.
A group's own error stands at its partitions in v1, at the top in v2-7, and with the group in v8+.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar
from uuid import UUID

from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import FetchedOffset, FetchedTopic, FetchRequest, TopicOffsets
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import OffsetFetchRequest, OffsetFetchResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

FIRST_VERSION_WITH_TOP_LEVEL_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8
FIRST_VERSION_WITH_IDS = 10
OFFSETS_AT_A_TIME = 200

RequestedGroup: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup
RequestedTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
# v1-7 have one group and its own structs, v8+ the others.
OldRequestedTopic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestTopic
OldTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopic
OldPartition: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition
Group: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup
Topic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics
Partition: TypeAlias = (
    OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
)

P = TypeVar("P", OldPartition, Partition)


async def handle(ctx: Context, req: OffsetFetchRequest) -> OffsetFetchResponse:
    if ctx.api_version >= FIRST_VERSION_WITH_MANY_GROUPS:
        groups = await asyncio.gather(*(_group(ctx, group, req.require_stable) for group in req.groups))
        return OffsetFetchResponse(groups=groups)
    wanted = None if req.topics is None else [_by_name(ctx, topic) for topic in req.topics]
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.GROUP, req.group_id)
        fetched = await _fetched(
            ctx,
            FetchRequest(
                group_id=req.group_id,
                topics=_known(wanted),
                require_stable=req.require_stable,
            ),
        )
    except KafkaError as error:
        if ctx.api_version >= FIRST_VERSION_WITH_TOP_LEVEL_ERROR:
            return OffsetFetchResponse(error_code=error.code, topics=[])
        raise
    if wanted is None:
        seen = [_old_topic(each) async for each in sliced(fetched) if _is_visible(ctx, each.name)]
        return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=seen)
    found = iter(fetched)
    topics = [
        _old_topic(_failed(requested.name, requested, each) if isinstance(each, ErrorCode) else next(found))
        for each, requested in zip(wanted, req.topics or (), strict=True)
    ]
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=topics)


async def _fetched(ctx: Context, request: FetchRequest) -> Sequence[TopicOffsets]:
    """All that a group has is taken in parts: it may be much."""
    groups = ctx.services.groups
    if request.topics is not None:
        return await groups.fetch_offsets(request)
    found: list[TopicOffsets] = []
    async for some in sliced(_at_a_time(await groups.committed_topics(request))):
        found += await groups.fetch_offsets(replace(request, topics=some))
    return found


def _at_a_time(topics: Iterable[FetchedTopic]) -> Iterator[tuple[FetchedTopic, ...]]:
    some: list[FetchedTopic] = []
    count = 0
    for topic in topics:
        some.append(topic)
        count += len(topic.partitions)
        if count >= OFFSETS_AT_A_TIME:
            yield tuple(some)
            some, count = [], 0
    if some:
        yield tuple(some)


Wanted = Sequence[FetchedTopic | ErrorCode]  # or the error in place of its offsets


def _known(wanted: Wanted | None) -> tuple[FetchedTopic, ...] | None:
    return None if wanted is None else tuple(each for each in wanted if isinstance(each, FetchedTopic))


def _by_name(ctx: Context, topic: OldRequestedTopic | RequestedTopic) -> FetchedTopic | ErrorCode:
    if not _is_visible(ctx, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchedTopic(name=topic.name, partitions=tuple(topic.partition_indexes))


def _is_visible(ctx: Context, name: str) -> bool:
    return ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name)


def _failed(name: str, requested: OldRequestedTopic | RequestedTopic, code: ErrorCode) -> TopicOffsets:
    partitions = tuple(FetchedOffset(partition=index, error=code) for index in requested.partition_indexes)
    return TopicOffsets(name=name, partitions=partitions)


def _old_topic(topic: TopicOffsets) -> OldTopic:
    return OldTopic(name=topic.name, partitions=[_partition(OldPartition, each) for each in topic.partitions])


def _partition(kind: type[P], offset: FetchedOffset) -> P:
    return kind(
        partition_index=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


# -- many groups -------------------------------------------------------------------------------------------------------
async def _group(ctx: Context, group: RequestedGroup, require_stable: bool) -> Group:
    by_id = ctx.api_version >= FIRST_VERSION_WITH_IDS
    wanted = None
    if group.topics is not None:
        wanted = [_by_id(ctx, topic) if by_id else _by_name(ctx, topic) for topic in group.topics]
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.GROUP, group.group_id)
        fetched = await _fetched(
            ctx,
            FetchRequest(
                group_id=group.group_id,
                member_id=group.member_id,
                member_epoch=group.member_epoch,
                topics=_known(wanted),
                require_stable=require_stable,
            ),
        )
    except KafkaError as error:
        return Group(group_id=group.group_id, topics=[], error_code=error.code)
    if wanted is None:
        topics = await _all_topics(ctx, fetched, by_id)
    else:
        found = iter(fetched)
        topics = [
            _topic(
                _failed(requested.name, requested, each) if isinstance(each, ErrorCode) else next(found),
                requested.topic_id,
            )
            for each, requested in zip(wanted, group.topics or (), strict=True)
        ]
    return Group(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE)


def _by_id(ctx: Context, topic: RequestedTopic) -> FetchedTopic | ErrorCode:
    known = ctx.services.cluster.topic_by_id(topic.topic_id or ZERO_UUID)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not _is_visible(ctx, known.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchedTopic(name=known.name, topic_id=known.id, partitions=tuple(topic.partition_indexes))


async def _all_topics(ctx: Context, fetched: Sequence[TopicOffsets], by_id: bool) -> list[Topic]:
    """A topic that has no id any more cannot be returned where topics are named by id."""
    topics = []
    async for each in sliced(fetched):
        known = ctx.services.cluster.topic(each.name) if by_id else None
        if _is_visible(ctx, each.name) and (known is not None or not by_id):
            topics.append(_topic(each, known.id if known is not None else None))
    return topics


def _topic(topic: TopicOffsets, topic_id: UUID | None) -> Topic:
    partitions = [_partition(Partition, each) for each in topic.partitions]
    return Topic(name=topic.name, topic_id=topic_id, partitions=partitions)


def failure(req: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    topics = [_failed(topic.name, topic, error.code) for topic in req.topics or []]
    return OffsetFetchResponse(
        error_code=error.code,
        topics=[_old_topic(topic) for topic in topics],
        groups=[Group(group_id=group.group_id, topics=[], error_code=error.code) for group in req.groups],
    )


HANDLER = Handler(
    OffsetFetchRequest,
    OffsetFetchResponse,
    handle,
    failure,
    parts=(
        Cut("groups", "groups", Cut("topics", "topics", Cut("partition_indexes", "partitions"))),
        Cut("topics", "topics", Cut("partition_indexes", "partitions")),
    ),
)
