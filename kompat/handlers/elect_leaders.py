"""ElectLeaders (key 43, v0-2): give partitions back to their preferred leader, or to any replica.

A partition with one replica is always led by it, so an election is never needed. Asked for all partitions (null),
the answer names every topic without results, as Kafka's does for partitions that needed no election.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import ElectLeadersRequest, ElectLeadersResponse

PREFERRED, UNCLEAN = 0, 1
Result: TypeAlias = ElectLeadersResponse.ReplicaElectionResult


def handle(ctx: Context, req: ElectLeadersRequest) -> ElectLeadersResponse:
    if req.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {req.election_type}")
    if req.topic_partitions is None:
        return ElectLeadersResponse(
            replica_election_results=[_result(t.name, []) for t in ctx.services.cluster.topics()]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            _result(asked.topic, [(index, _refusal(ctx, asked.topic, index)) for index in asked.partitions])
            for asked in req.topic_partitions
        ]
    )


def _refusal(ctx: Context, name: str, index: int) -> KafkaError:
    topic = ctx.services.cluster.topic(name)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)


def _result(topic: str, refusals: Iterable[tuple[int, KafkaError]]) -> Result:
    return Result(
        topic=topic,
        partition_result=[
            Result.PartitionResult(partition_id=index, error_code=error.code, error_message=describe(error))
            for index, error in refusals
        ],
    )


def failure(req: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            _result(asked.topic, [(index, error) for index in asked.partitions]) for asked in req.topic_partitions or ()
        ],
    )


API = Api(
    key=43,
    name="ElectLeaders",
    versions=Versions(0, 2),
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    handle=handle,
    failure=failure,
)
