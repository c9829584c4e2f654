"""OffsetDelete (key 47, v0): forget a group's offsets for topics that it is not subscribed to."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import FetchedTopic
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.groups import NamedTopic, judged
from kompat.handlers.parts import Cut
from kompat.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from kompat.security.acls import Kind, Operation

TopicAnswer = OffsetDeleteResponse.OffsetDeleteResponseTopic
PartitionAnswer = TopicAnswer.OffsetDeleteResponsePartition


async def handle(ctx: Context, req: OffsetDeleteRequest) -> OffsetDeleteResponse:
    ctx.services.authorizer.require(ctx, Operation.DELETE, Kind.GROUP, req.group_id)
    named = [NamedTopic(ctx, topic) for topic in req.topics]
    wanted = [
        FetchedTopic(name=each.asked.name, partitions=tuple(p.partition_index for p in each.existing))
        for each in named
        if each.existing
    ]
    outcome = await ctx.services.groups.delete_offsets(req.group_id, wanted)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            TopicAnswer(
                name=each.asked.name,
                partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in partitions],
            )
            for each, partitions in judged(named, outcome)
        ],
    )


def failure(_: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code, topics=[])


API = Api(
    key=47,
    name="OffsetDelete",
    versions=Versions(0, 0),
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
