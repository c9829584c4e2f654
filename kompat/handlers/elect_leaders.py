"""ElectLeaders (key 43, v0-2): give partitions back to their preferred leader (the first of their replicas), or to any.

A partition that its preferred replica leads needs no election; one whose preferred replica is not there, or lacks something, is
PREFERRED_LEADER_NOT_AVAILABLE. Replicas choose a leader among themselves whenever a majority of them is there, so an election of
any leader ("unclean") is mostly not needed, or not possible: ELIGIBLE_LEADERS_NOT_AVAILABLE. It is for partitions of which a replica
has lost its data directory while others are away that may have more: those that are there then go on with what they have, and
what only the others have is lost. The metadata log can be named, too (`__cluster_metadata`, 0). Asked for all partitions
(null), the answer names every topic with the partitions that needed an election.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kompat.cluster.names import CLUSTER_METADATA
from kompat.errors import ErrorCode, KafkaError, PeerError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from kompat.security.acls import Kind, Operation
from kompat.types import LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.leaders import Led
    from kompat.cluster.member import Member
    from kompat.cluster.service import Topic

PREFERRED, UNCLEAN = 0, 1
LONGEST = 30.0  # seconds to wait for new leaders, whatever the request says
Result: TypeAlias = ElectLeadersResponse.ReplicaElectionResult
Outcome = tuple[int, KafkaError | None]


async def handle(ctx: Context, req: ElectLeadersRequest) -> ElectLeadersResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    if req.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {req.election_type}")
    seconds = min(LONGEST, max(0, req.timeout_ms) / 1000)
    if req.topic_partitions is not None:
        asked = [(topic.topic, list(topic.partitions)) for topic in req.topic_partitions]
        outcomes = await _elect_all(ctx, asked, req.election_type, seconds)
        return ElectLeadersResponse(replica_election_results=[_result(*each) for each in outcomes])
    everything = [(topic.name, list(range(len(topic.partitions)))) for topic in ctx.services.cluster.topics()]
    outcomes = await _elect_all(ctx, everything, req.election_type, seconds)
    return ElectLeadersResponse(
        replica_election_results=[_result(name, list(filter(_was_needed, found))) for name, found in outcomes]
    )


async def _elect_all(
    ctx: Context, asked: Sequence[tuple[str, Sequence[int]]], kind: int, seconds: float
) -> list[tuple[str, list[Outcome]]]:
    # All at once: each may have to wait for another broker.
    flat = [(name, index) for name, indexes in asked for index in indexes]
    found = iter(await asyncio.gather(*(_elect(ctx, name, index, kind, seconds) for name, index in flat)))
    return [(name, [(index, next(found)) for index in indexes]) for name, indexes in asked]


async def _elect(ctx: Context, name: str, index: int, kind: int, seconds: float) -> KafkaError | None:
    topic, member = ctx.services.cluster.topic(name), ctx.services.cluster.member
    if kind == UNCLEAN and (name, index) == (CLUSTER_METADATA, 0) and member is not None:
        return await _recover(member, member.metadata_log.log_id, member.metadata_voters(), seconds)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if member is None:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    log_id = LogId(topic.id, index)
    if kind == UNCLEAN:
        return await _recover(member, log_id, topic.partitions[index].target, seconds)
    return await _prefer(member, topic, index, member.leaders.of(log_id), seconds)


async def _recover(member: Member, log_id: LogId, replicas: Sequence[NodeId], seconds: float) -> KafkaError | None:
    def is_led() -> bool:
        led = member.leaders.of(log_id)
        return led is not None and led.leader is not None

    if is_led():
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    try:
        await member.recover(log_id, replicas)
    except KafkaError as error:
        return error
    return None if await member.network.until(is_led, seconds) else KafkaError(ErrorCode.REQUEST_TIMED_OUT)


async def _prefer(member: Member, topic: Topic, index: int, led: Led | None, seconds: float) -> KafkaError | None:
    log_id, preferred = LogId(topic.id, index), topic.partitions[index].target[0]
    if led is not None and led.leader == preferred:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    if led is None or not member.network.is_up(preferred) or preferred not in led.in_sync:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    try:
        await member.transfer(log_id, preferred)
    except KafkaError as error:
        return error
    except PeerError as error:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, str(error))

    def is_done() -> bool:
        now = member.leaders.of(log_id)
        return now is not None and now.leader == preferred

    return None if await member.network.until(is_done, seconds) else KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def _was_needed(outcome: Outcome) -> bool:
    error = outcome[1]
    return error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED


def _result(topic: str, outcomes: Sequence[Outcome]) -> Result:
    return Result(
        topic=topic,
        partition_result=[
            Result.PartitionResult(
                partition_id=index,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else describe(error),
            )
            for index, error in outcomes
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
    parts=(Cut("topic_partitions", "replica_election_results", Cut("partitions", "partition_result")),),
)
