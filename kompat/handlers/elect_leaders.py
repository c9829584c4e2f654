"""ElectLeaders: give partitions back to their preferred leader (the first of their replicas), or to any.

A partition that its preferred replica leads needs no election; one whose preferred replica is not there, or lacks something, is
PREFERRED_LEADER_NOT_AVAILABLE. Replicas choose a leader among themselves whenever a majority of them is there, so an election of
any leader ("unclean") is mostly not needed, or not possible: ELIGIBLE_LEADERS_NOT_AVAILABLE. It is for partitions of which a replica
has lost its data directory while others that may have more are offline: the running ones then go on with what they have, and
what only the others have is lost. The metadata log can be named, too (`__cluster_metadata`, 0). For all partitions (null),
the response names every topic with the partitions that needed an election.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kompat.cluster.names import CLUSTER_METADATA
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from kompat.security.acls import Kind, Operation
from kompat.types import LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.leaders import Led
    from kompat.cluster.local_broker import LocalBroker
    from kompat.cluster.service import Topic

PREFERRED, UNCLEAN = 0, 1
LONGEST = 30.0  # seconds to wait for new leaders, whatever the request's timeout
AT_ONCE = 0.001  # seconds in which elections are begun: each of them has its turn then, too
Result: TypeAlias = ElectLeadersResponse.ReplicaElectionResult
Outcome = tuple[int, KafkaError | None]


async def handle(ctx: Context, req: ElectLeadersRequest) -> ElectLeadersResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    if req.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {req.election_type}")
    seconds = min(LONGEST, max(0, req.timeout_ms) / 1000)
    if req.topic_partitions is not None:
        requested = [(topic.topic, list(topic.partitions)) for topic in req.topic_partitions]
        outcomes = await _elect_all(ctx, requested, req.election_type, seconds)
        return ElectLeadersResponse(replica_election_results=[_result(*each) for each in outcomes])
    everything = [(topic.name, list(range(len(topic.partitions)))) for topic in ctx.services.cluster.topics()]
    outcomes = await _elect_all(ctx, everything, req.election_type, seconds)
    needed = [(name, [each async for each in sliced(found) if _was_needed(each)]) for name, found in outcomes]
    return ElectLeadersResponse(replica_election_results=[_result(*each) for each in needed])


async def _elect_all(
    ctx: Context, requested: Sequence[tuple[str, Sequence[int]]], kind: int, seconds: float
) -> list[tuple[str, list[Outcome]]]:
    # All at once: each may have to wait for another broker.
    found: list[tuple[str, list[Outcome]]] = [(name, []) for name, _ in requested]
    flat = [(found[place], index) for place, (_, indexes) in enumerate(requested) for index in indexes]
    electing = deque(
        [
            asyncio.ensure_future(_elect(ctx, name, index, kind, seconds))
            async for (name, _), index in sliced(flat, AT_ONCE)
        ]
    )
    try:
        async for (_, outcomes), index in sliced(flat):
            outcomes.append((index, await electing[0]))
            electing.popleft()
    finally:
        for each in electing:
            each.cancel()  # those that are left, where nobody waits any more
    return found


async def _elect(ctx: Context, name: str, index: int, kind: int, seconds: float) -> KafkaError | None:
    topic, local = ctx.services.cluster.topic(name), ctx.services.cluster.local
    if kind == UNCLEAN and (name, index) == (CLUSTER_METADATA, 0):
        return await _recover(local, local.metadata.log.log_id, local.metadata_voters(), seconds)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    log_id = LogId(topic.id, index)
    if kind == UNCLEAN:
        return await _recover(local, log_id, topic.partitions[index].target, seconds)
    return await _prefer(local, topic, index, local.leaders.of(log_id), seconds)


async def _recover(local: LocalBroker, log_id: LogId, replicas: Sequence[NodeId], seconds: float) -> KafkaError | None:
    def is_led() -> bool:
        return local.leader(log_id) is not None

    if is_led():
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    try:
        await local.recover(log_id, replicas)
    except KafkaError as error:
        return error
    return None if await local.network.until(is_led, seconds) else KafkaError(ErrorCode.REQUEST_TIMED_OUT)


async def _prefer(local: LocalBroker, topic: Topic, index: int, led: Led | None, seconds: float) -> KafkaError | None:
    log_id, preferred = LogId(topic.id, index), topic.partitions[index].target[0]
    if led is not None and led.leader == preferred:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    if led is None or not local.network.is_up(preferred) or preferred not in led.in_sync:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    try:
        await local.transfer(log_id, preferred, seconds)
    except KafkaError as error:
        return error
    is_done = await local.network.until(lambda: local.leader(log_id) == preferred, seconds)
    return None if is_done else KafkaError(ErrorCode.REQUEST_TIMED_OUT)


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
            _result(requested.topic, [(index, error) for index in requested.partitions])
            for requested in req.topic_partitions or ()
        ],
    )


HANDLER = Handler(
    ElectLeadersRequest,
    ElectLeadersResponse,
    handle,
    failure,
    parts=(Cut("topic_partitions", "replica_election_results", Cut("partitions", "partition_result")),),
)
