"""OffsetCommit (key 8, v2-10): remember how far a group has read; answered when the offsets are committed.

v9+ is for members of consumer groups too: their epoch is in the generation's place. v10 names topics by id. A partition
that does not exist is answered by itself, and its offset is not kept; v2-4 may say how long offsets are to be kept.
"""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.groups.machine.messages import CommitRequest, CommittedPartition, CommittedTopic
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.groups import Judged, NamedTopic, judged, refused
from kompat.handlers.parts import Cut
from kompat.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

FIRST_VERSION_WITH_IDS = 10

TopicAnswer = OffsetCommitResponse.OffsetCommitResponseTopic
PartitionAnswer = TopicAnswer.OffsetCommitResponsePartition


async def handle(ctx: Context, req: OffsetCommitRequest) -> OffsetCommitResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    by_id = ctx.api_version >= FIRST_VERSION_WITH_IDS
    named = [NamedTopic(ctx, topic, by_id=by_id) for topic in req.topics]
    return OffsetCommitResponse(
        topics=[
            TopicAnswer(
                name=each.asked.name,
                topic_id=each.asked.topic_id,
                partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in partitions],
            )
            for each, partitions in await _commit(ctx, req, named)
        ]
    )


async def _commit(ctx: Context, req: OffsetCommitRequest, named: list[NamedTopic]) -> Judged:
    topics = tuple(committed(each) for each in named if each.existing)
    if not topics:
        return judged(named, ())
    request = CommitRequest(
        group_id=req.group_id,
        member_id=req.member_id,
        group_instance_id=req.group_instance_id,
        generation_id=req.generation_id_or_member_epoch,
        retention_time_ms=req.retention_time_ms,
        topics=topics,
        api_version=ctx.api_version,
    )
    try:
        return judged(named, await ctx.services.groups.commit_offsets(request))
    except KafkaError as error:
        return refused(named, error.code)


def committed(named: NamedTopic) -> CommittedTopic:
    """What a topic's existing partitions are to commit; for TxnOffsetCommit too."""
    topic = named.topic
    return CommittedTopic(
        name="" if topic is None else topic.name,
        topic_id=ZERO_UUID if topic is None else topic.id,
        partitions=tuple(
            CommittedPartition(
                partition=each.partition_index,
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata,
            )
            for each in named.existing
        ),
    )


def failure(req: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            TopicAnswer(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionAnswer(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in req.topics
        ]
    )


API = Api(
    key=8,
    name="OffsetCommit",
    versions=Versions(2, 10),
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
