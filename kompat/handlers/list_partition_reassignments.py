"""ListPartitionReassignments: partitions whose replicas are moving, of some topics or of all (null).

Topics that do not exist, and partitions that stay where they are, are left out, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kompat.cluster.state import PartitionState
from kompat.common.slices import sliced
from kompat.errors import KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kompat.security.acls import Kind, Operation

TopicAnswer: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment
PartitionAnswer: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment.OngoingPartitionReassignment


async def handle(ctx: Context, req: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    found = [(name, [p for p in requested if p.is_moving]) async for name, requested in sliced(_requested(ctx, req))]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            TopicAnswer(name=name, partitions=[_answer(partition) for partition in moving])
            async for name, moving in sliced(found)
            if moving
        ],
    )


def _requested(ctx: Context, req: ListPartitionReassignmentsRequest) -> Iterable[tuple[str, Iterable[PartitionState]]]:
    cluster = ctx.services.cluster
    if req.topics is None:
        return [(topic.name, topic.partitions) for topic in cluster.topics()]
    found = []
    for requested in req.topics:
        topic = cluster.topic(requested.name)
        if topic is not None:
            known = range(len(topic.partitions))
            found.append((topic.name, [topic.partitions[i] for i in requested.partition_indexes if i in known]))
    return found


def _answer(partition: PartitionState) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )


def failure(_: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=describe(error), topics=[])


HANDLER = Handler(
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics"),),
)
