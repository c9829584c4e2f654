"""AlterPartitionReassignments (key 45, v0-1): move partitions to other replicas, or cancel a move (null replicas).

The only assignment that one broker can hold is the one each partition has: asking for it is done at once, a cancel
finds nothing to cancel, and anything else names a broker that is not registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kompat.cluster.placement import check_manual
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

TopicAnswer: TypeAlias = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionAnswer: TypeAlias = AlterPartitionReassignmentsResponse.ReassignableTopicResponse.ReassignablePartitionResponse


def handle(ctx: Context, req: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=req.allow_replication_factor_change,
        error_message=None,
        responses=[
            TopicAnswer(name=topic.name, partitions=[_reassign(ctx, topic.name, p) for p in topic.partitions])
            for topic in req.topics
        ],
    )


def _reassign(
    ctx: Context, name: str, asked: AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition
) -> PartitionAnswer:
    try:
        _check(ctx, name, asked.partition_index, asked.replicas)
    except KafkaError as error:
        return PartitionAnswer(
            partition_index=asked.partition_index, error_code=error.code, error_message=error.message or None
        )
    return PartitionAnswer(partition_index=asked.partition_index, error_code=ErrorCode.NONE, error_message=None)


def _check(ctx: Context, name: str, index: int, replicas: Sequence[int] | None) -> None:
    topic = ctx.services.cluster.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_manual(replicas, ctx.services.cluster.brokers)


def failure(_: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=describe(error), responses=[])


API = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=Versions(0, 1),
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    handle=handle,
    failure=failure,
    is_for_controller=lambda _: True,
)
