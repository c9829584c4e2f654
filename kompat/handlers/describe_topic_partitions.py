"""DescribeTopicPartitions (key 75, v0): partitions of topics in the order of their names, a page at a time.

No topics asks for all. A page ends at the request's limit or the broker's, and says where the next one starts; a
request that names topics has to name the cursor's as well.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.names import invalid_name
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import authorized, leadership
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kompat.security.acls import Kind, Operation
from kompat.slices import sliced

Described: TypeAlias = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionDescribed: TypeAlias = (
    DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition
)


async def handle(ctx: Context, req: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    names = _names(ctx, req)
    start = req.cursor.partition_index if req.cursor is not None and names[:1] == [req.cursor.topic_name] else 0
    room = max(1, min(req.response_partition_limit, ctx.services.config["max.request.partition.size.limit"]))
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    async for name in sliced(names):
        described, total = _describe(ctx, name, start, room)
        if room > 0:
            response.topics.append(described)
        end = start + len(described.partitions)
        if end < total or room == 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=end)
            break
        room -= len(described.partitions)
        start = 0
    return response


def _names(ctx: Context, req: DescribeTopicPartitionsRequest) -> list[str]:
    """What to describe, in order, from the cursor on."""
    asked = {t.name for t in req.topics}
    if not asked:
        asked = {t.name for t in ctx.services.cluster.topics()}
        asked &= set(ctx.services.authorizer.allowed(ctx, Operation.DESCRIBE, Kind.TOPIC, asked))
    elif req.cursor is not None and req.cursor.topic_name not in asked:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's topic is not among those asked for")
    if req.cursor is None:
        return sorted(asked)
    if req.cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is negative")
    return sorted(name for name in asked if name >= req.cursor.topic_name)


def _describe(ctx: Context, name: str, start: int, room: int) -> tuple[Described, int]:
    """A topic with at most `room` of its partitions from `start` on, and how many it has in all."""
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name):
        return Described(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, partitions=[]), 0
    topic = ctx.services.cluster.topic(name)
    operations = authorized.bits(authorized.operations(ctx, Kind.TOPIC, name))
    if topic is None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Described(error_code=code, name=name, partitions=[], topic_authorized_operations=operations), 0
    states = topic.partitions[start : start + room]
    partitions = [_partition(told) for told in leadership.describe(ctx, topic, states)]
    described = Described(
        name=name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )
    return described, len(topic.partitions)


def _partition(told: leadership.Described) -> PartitionDescribed:
    return PartitionDescribed(
        error_code=told.error_code,
        partition_index=told.index,
        leader_id=told.leader,
        leader_epoch=told.leader_epoch,
        replica_nodes=list(told.replicas),
        isr_nodes=list(told.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(told.offline),
    )


def failure(req: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[Described(error_code=error.code, name=t.name, partitions=[]) for t in req.topics], next_cursor=None
    )


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions=Versions(0, 0),
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    handle=handle,
    failure=failure,
)
