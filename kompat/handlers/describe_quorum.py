"""DescribeQuorum: who keeps the cluster's metadata: its leader and voters, and how far each has come.

The controller answers; voters and observers are listed separately. The time of a replica's last fetch is not known here, so the
time at which it was last caught up is used for it. Where the request names anything but partition 0 of the metadata topic,
every partition gets UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.addresses import absent_brokers, brokers
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from kompat.security.acls import Kind, Operation

METADATA_TOPIC = "__cluster_metadata"

TopicAnswer: TypeAlias = DescribeQuorumResponse.TopicData
PartitionAnswer: TypeAlias = DescribeQuorumResponse.TopicData.PartitionData
Replica: TypeAlias = DescribeQuorumResponse.TopicData.PartitionData.ReplicaState
Node: TypeAlias = DescribeQuorumResponse.Node


def handle(ctx: Context, req: DescribeQuorumRequest) -> DescribeQuorumResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    requested = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in req.topics]
    if requested != [(METADATA_TOPIC, [0])]:
        return _answer(req, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return DescribeQuorumResponse(
        error_message="",
        topics=[TopicAnswer(topic_name=METADATA_TOPIC, partitions=[_quorum(ctx)])],
        nodes=_nodes(ctx),
    )


def _quorum(ctx: Context) -> PartitionAnswer:
    cluster = ctx.services.cluster
    log = cluster.log
    members = _members(ctx)
    return PartitionAnswer(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=ctx.services.node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[state for state, is_voter in members if is_voter],
        observers=[state for state, is_voter in members if not is_voter],
    )


def _members(ctx: Context) -> list[tuple[Replica, bool]]:
    """The replicas of the metadata log, and whether they vote."""
    log, now = ctx.services.cluster.log, ctx.services.clock.now()
    replica = ctx.services.cluster.local.leadership.replica(log.log_id)
    if replica is None:
        return [(_state(ctx.services.node_id, log.log_end_offset, now), True)]
    voters = set(replica.voters)
    return [
        (
            _state(node, log.log_end_offset, now)
            if node == ctx.services.node_id
            else _state(node, found.log_end_offset, found.last_caught_up),
            node in voters,
        )
        for node, found in sorted(replica.progress().items())
    ]


def _state(node: int, end: int, caught_up: int) -> Replica:
    return Replica(
        replica_id=node, log_end_offset=end, last_fetch_timestamp=caught_up, last_caught_up_timestamp=caught_up
    )


def _nodes(ctx: Context) -> list[Node]:
    name = ctx.listener or ctx.services.config.listener.name
    return [
        Node(node_id=b.node_id, listeners=[Node.Listener(name=name, host=b.host, port=b.port)])
        for b in (*brokers(ctx), *absent_brokers(ctx))
    ]


def _answer(req: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """No answer for the partitions; the request as a whole was understood."""
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            TopicAnswer(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionAnswer(
                        partition_index=p.partition_index,
                        error_code=error.code,
                        error_message=describe(error),
                        current_voters=[],
                        observers=[],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in req.topics
        ],
        nodes=[],
    )


def failure(_: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=describe(error), topics=[], nodes=[])


HANDLER = Handler(
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    handle,
    failure,
    is_for_controller=lambda _: True,
)
