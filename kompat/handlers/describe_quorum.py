"""DescribeQuorum (key 55, v0-2): who keeps the cluster's metadata: its leader and voters, and how far each has come.

Asked for anything but partition 0 of the metadata topic alone, every partition is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.addresses import this_broker
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse

METADATA_TOPIC = "__cluster_metadata"

TopicAnswer: TypeAlias = DescribeQuorumResponse.TopicData
PartitionAnswer: TypeAlias = DescribeQuorumResponse.TopicData.PartitionData
Replica: TypeAlias = DescribeQuorumResponse.TopicData.PartitionData.ReplicaState
Node: TypeAlias = DescribeQuorumResponse.Node


def handle(ctx: Context, req: DescribeQuorumRequest) -> DescribeQuorumResponse:
    asked = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in req.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        return _answer(req, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return DescribeQuorumResponse(
        error_message="",
        topics=[TopicAnswer(topic_name=METADATA_TOPIC, partitions=[_quorum(ctx)])],
        nodes=[_node(ctx)],
    )


def _quorum(ctx: Context) -> PartitionAnswer:
    log = ctx.services.cluster.log
    now = ctx.services.clock.now()
    return PartitionAnswer(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=ctx.services.node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[
            Replica(
                replica_id=ctx.services.node_id,
                log_end_offset=log.log_end_offset,
                last_fetch_timestamp=now,
                last_caught_up_timestamp=now,
            )
        ],
        observers=[],
    )


def _node(ctx: Context) -> Node:
    broker = this_broker(ctx)
    listener = ctx.services.config.listener
    return Node(
        node_id=broker.node_id, listeners=[Node.Listener(name=listener.name, host=broker.host, port=broker.port)]
    )


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


API = Api(
    key=55,
    name="DescribeQuorum",
    versions=Versions(0, 2),
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    handle=handle,
    failure=failure,
    is_for_controller=lambda _: True,
)
