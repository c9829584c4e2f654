"""OffsetDelete: forget a group's offsets for topics that it is not subscribed to."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import FetchedTopic
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.offset_topics import RequestedTopic, errors_by_topic
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from kompat.security.acls import Kind, Operation

TopicAnswer = OffsetDeleteResponse.OffsetDeleteResponseTopic
PartitionAnswer = TopicAnswer.OffsetDeleteResponsePartition


async def handle(ctx: Context, req: OffsetDeleteRequest) -> OffsetDeleteResponse:
    ctx.services.authorizer.require(ctx, Operation.DELETE, Kind.GROUP, req.group_id)
    topics = [RequestedTopic(ctx, each.name, each.partitions) for each in req.topics]
    wanted = [
        FetchedTopic(name=topic.topic.name, partitions=tuple(each.partition_index for each in topic.existing))
        for topic in topics
        if topic.topic is not None and topic.existing
    ]
    errors = errors_by_topic(topics, await ctx.services.groups.delete_offsets(req.group_id, wanted))
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in codes],
            )
            for topic, codes in zip(req.topics, errors, strict=True)
        ],
    )


def failure(_: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code, topics=[])


HANDLER = Handler(
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
