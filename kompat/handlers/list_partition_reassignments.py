"""ListPartitionReassignments (key 46, v0): partitions whose replicas are moving, of some topics or of all (null).

Topics that do not exist, and partitions that stay where they are, are left out, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kompat.cluster.state import PartitionState
from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kompat.security.acls import Kind, Operation
from kompat.slices import sliced

TopicAnswer: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment
PartitionAnswer: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment.OngoingPartitionReassignment


async def handle(ctx: Context, req: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    found = [(name, [p for p in asked if p.is_moving]) async for name, asked in sliced(_asked(ctx, req))]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            TopicAnswer(name=name, partitions=[_answer(partition) for partition in moving])
            async for name, moving in sliced(found)
            if moving
        ],
    )


def _asked(ctx: Context, req: ListPartitionReassignmentsRequest) -> Iterable[tuple[str, Iterable[PartitionState]]]:
    cluster = ctx.services.cluster
    if req.topics is None:
        return [(topic.name, topic.partitions) for topic in cluster.topics()]
    found = []
    for asked in req.topics:
        topic = cluster.topic(asked.name)
        if topic is not None:
            known = range(len(topic.partitions))
            found.append((topic.name, [topic.partitions[i] for i in asked.partition_indexes if i in known]))
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


API = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=Versions(0, 0),
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics"),),
)
