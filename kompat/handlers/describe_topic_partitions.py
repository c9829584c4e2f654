"""DescribeTopicPartitions: partitions of topics in the order of their names, a page at a time.

An empty list means all topics. A page ends at the request's limit or the broker's, with a cursor to the next one; a
request that names topics has to name the cursor's as well.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.names import invalid_name
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import authorized, leadership
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kompat.security.acls import Kind, Operation

AT_A_TIME = 100  # partitions

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
        described, total = await _describe(ctx, name, start, room)
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
    requested = {t.name for t in req.topics}
    if not requested:
        requested = {t.name for t in ctx.services.cluster.topics()}
        requested &= set(ctx.services.authorizer.allowed(ctx, Operation.DESCRIBE, Kind.TOPIC, requested))
    elif req.cursor is not None and req.cursor.topic_name not in requested:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's topic is not among those asked for")
    if req.cursor is None:
        return sorted(requested)
    if req.cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is negative")
    return sorted(name for name in requested if name >= req.cursor.topic_name)


async def _describe(ctx: Context, name: str, start: int, room: int) -> tuple[Described, int]:
    """A topic with at most `room` of its partitions from `start` on, and how many it has in all."""
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name):
        return Described(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, partitions=[]), 0
    topic = ctx.services.cluster.topic(name)
    operations = authorized.bits(authorized.operations(ctx, Kind.TOPIC, name))
    if topic is None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Described(error_code=code, name=name, partitions=[], topic_authorized_operations=operations), 0
    states = topic.partitions[start : start + room]
    partitions: list[PartitionDescribed] = []
    async for first in sliced(range(0, len(states), AT_A_TIME)):
        partitions += map(_partition, leadership.describe(ctx, topic, states[first : first + AT_A_TIME]))
    described = Described(
        name=name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )
    return described, len(topic.partitions)


def _partition(described: leadership.Described) -> PartitionDescribed:
    return PartitionDescribed(
        error_code=described.error_code,
        partition_index=described.index,
        leader_id=described.leader,
        leader_epoch=described.leader_epoch,
        replica_nodes=list(described.replicas),
        isr_nodes=list(described.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(described.offline),
    )


def failure(req: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[Described(error_code=error.code, name=t.name, partitions=[]) for t in req.topics], next_cursor=None
    )


HANDLER = Handler(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, handle, failure)
