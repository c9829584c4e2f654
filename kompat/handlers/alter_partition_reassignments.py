"""AlterPartitionReassignments: move partitions to other replicas, or cancel a move (null replicas).

The response is sent when the reassignment is committed; it goes on from there, and ListPartitionReassignments shows it. A cancelled
move is a move back, and is shown until that is done.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.requests import Reassignment
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from kompat.security.acls import Kind, Operation

TopicAnswer: TypeAlias = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionAnswer: TypeAlias = AlterPartitionReassignmentsResponse.ReassignableTopicResponse.ReassignablePartitionResponse


async def handle(ctx: Context, req: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    wanted = [Reassignment(t.name, p.partition_index, p.replicas) for t in req.topics for p in t.partitions]
    outcomes = iter(await ctx.services.cluster.reassign(wanted, may_change_factor=req.allow_replication_factor_change))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=req.allow_replication_factor_change,
        error_message=None,
        responses=[
            TopicAnswer(name=t.name, partitions=[_answer(p.partition_index, next(outcomes)) for p in t.partitions])
            for t in req.topics
        ],
    )


def _answer(index: int, error: KafkaError | None) -> PartitionAnswer:
    if error is None:
        return PartitionAnswer(partition_index=index, error_code=ErrorCode.NONE, error_message=None)
    return PartitionAnswer(partition_index=index, error_code=error.code, error_message=error.message or None)


def failure(req: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=describe(error),
        responses=[
            TopicAnswer(name=t.name, partitions=[_answer(p.partition_index, error) for p in t.partitions])
            for t in req.topics
        ],
    )


HANDLER = Handler(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    handle,
    failure,
    parts=(Cut("topics", "responses", Cut("partitions", "partitions")),),
    is_for_controller=lambda _: True,
)
