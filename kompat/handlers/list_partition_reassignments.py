"""ListPartitionReassignments (key 46, v0): partitions whose replicas are moving.

With one broker nothing can move, so nothing is ever under way; topics that do not exist are no error in Kafka either.
"""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse


def handle(_: Context, __: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None, topics=[])


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
)
