"""OffsetCommit: store a group's offsets; answered when they are committed.

v9+ is for members of consumer groups too: their epoch is in the field of the generation. v10 names topics by id. A partition
that does not exist gets an error of its own, and its offset is not stored; v2-4 may have a retention time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeAlias

from kompat.errors import KafkaError
from kompat.groups.machine.messages import CommitRequest, CommittedTopic, TopicErrors
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.offset_topics import PartitionErrors, RequestedTopic, commit_existing
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

FIRST_VERSION_WITH_IDS = 10

TopicRequest: TypeAlias = OffsetCommitRequest.OffsetCommitRequestTopic
TopicAnswer: TypeAlias = OffsetCommitResponse.OffsetCommitResponseTopic
PartitionAnswer: TypeAlias = OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition


async def handle(ctx: Context, req: OffsetCommitRequest) -> OffsetCommitResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    by_id = ctx.api_version >= FIRST_VERSION_WITH_IDS
    topics = [
        RequestedTopic(ctx, each.name, each.partitions, (each.topic_id or ZERO_UUID) if by_id else None)
        for each in req.topics
    ]

    def commit(existing: tuple[CommittedTopic, ...]) -> Awaitable[Sequence[TopicErrors]]:
        return ctx.services.groups.commit_offsets(
            CommitRequest(
                group_id=req.group_id,
                member_id=req.member_id,
                group_instance_id=req.group_instance_id,
                generation_id=req.generation_id_or_member_epoch,
                retention_time_ms=req.retention_time_ms,
                topics=existing,
                api_version=ctx.api_version,
            )
        )

    errors = await commit_existing(topics, commit)
    return OffsetCommitResponse(topics=[_answer(*each) for each in zip(req.topics, errors, strict=True)])


def _answer(topic: TopicRequest, errors: PartitionErrors) -> TopicAnswer:
    return TopicAnswer(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in errors],
    )


def failure(req: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[_answer(each, [(p.partition_index, error.code) for p in each.partitions]) for each in req.topics]
    )


HANDLER = Handler(
    OffsetCommitRequest,
    OffsetCommitResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
