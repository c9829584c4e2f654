"""ShareAcknowledge: acknowledge records that a member of a share group has acquired.

Answered when that is committed; each partition by itself. Epoch -1 ends the member's session and releases what it still holds.
v2 may renew locks (KIP-1222). A broker that does not lead returns the current leader.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.share_requests import (
    Member,
    Outcomes,
    acknowledge,
    acknowledgement_batches,
    check_member,
    leader_of,
)
from kompat.protocol.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kompat.protocol.produce import CurrentLeader
from kompat.share.sessions import FINAL_EPOCH, INITIAL_EPOCH

TopicAnswer: TypeAlias = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
PartitionAnswer: TypeAlias = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse.PartitionData
NO_LEADER = PartitionAnswer.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)


def handle(ctx: Context, req: ShareAcknowledgeRequest) -> Promise[ShareAcknowledgeResponse]:
    member = check_member(ctx, req)
    if req.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = ctx.services.shares.sessions.find(*member)
    if req.share_session_epoch != FINAL_EPOCH:
        session.advance(req.share_session_epoch)
    acknowledged = acknowledge(ctx, member, acknowledgement_batches(req), renew=req.is_renew_ack)
    return acknowledged.then(lambda outcomes: _response(ctx, req, member, outcomes))


def _response(
    ctx: Context, req: ShareAcknowledgeRequest, member: Member, outcomes: Outcomes
) -> ShareAcknowledgeResponse:
    shares = ctx.services.shares
    if req.share_session_epoch == FINAL_EPOCH:
        shares.close_session(*member)
    topics: dict[UUID, TopicAnswer] = {}
    leaders = []
    for partition, error in outcomes.items():
        leader = None if error is None else leader_of(ctx, partition, error.code)
        if leader is not None:
            leaders.append(leader)
        if partition.topic_id not in topics:
            topics[partition.topic_id] = TopicAnswer(topic_id=partition.topic_id, partitions=[])
        topics[partition.topic_id].partitions.append(
            PartitionAnswer(
                partition_index=partition.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else describe(error),
                current_leader=NO_LEADER if leader is None else _leader(leader),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        acquisition_lock_timeout_ms=shares.settings_of(member.group_id).lock_ms,
        responses=list(topics.values()),
        node_endpoints=[
            ShareAcknowledgeResponse.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in leadership.endpoints(ctx, leaders)
        ],
    )


def _leader(leader: CurrentLeader) -> PartitionAnswer.LeaderIdAndEpoch:
    return PartitionAnswer.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)


def failure(_: ShareAcknowledgeRequest, error: KafkaError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=error.code, error_message=describe(error), responses=[], node_endpoints=[]
    )


HANDLER = Handler(ShareAcknowledgeRequest, ShareAcknowledgeResponse, handle, failure)
