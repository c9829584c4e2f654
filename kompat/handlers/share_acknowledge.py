"""ShareAcknowledge (key 79, v1-2): what a member of a share group says of the records that it holds.

Answered when that is committed; each partition by itself. Epoch -1 ends the member's session and lets go of whatever it
still holds. v2 may renew locks (KIP-1222). Who came to the wrong broker is told the right one.
"""

from __future__ import annotations

from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import leadership
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.later import Later
from kompat.handlers.share_requests import Acknowledging, check_member, leader_of, said
from kompat.protocol.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kompat.protocol.produce import CurrentLeader
from kompat.share.sessions import FINAL_EPOCH, INITIAL_EPOCH

TopicAnswer = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
PartitionAnswer = TopicAnswer.PartitionData
NO_LEADER = PartitionAnswer.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)


def handle(ctx: Context, req: ShareAcknowledgeRequest) -> Later[ShareAcknowledgeResponse] | ShareAcknowledgeResponse:
    check_member(ctx, req.group_id, req.member_id)
    if req.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = ctx.services.shares.sessions.find(req.group_id, req.member_id)
    if req.share_session_epoch != FINAL_EPOCH:
        session.advance(req.share_session_epoch)
    return _Answer(ctx, req).start()


class _Answer(Later[ShareAcknowledgeResponse]):
    __slots__ = ("_acknowledging", "_ctx", "_req")

    def __init__(self, ctx: Context, req: ShareAcknowledgeRequest) -> None:
        super().__init__()
        self._ctx = ctx
        self._req = req
        self._acknowledging = Acknowledging(ctx, req.group_id, req.member_id, said(req.topics), renew=req.is_renew_ack)

    def start(self) -> Later[ShareAcknowledgeResponse] | ShareAcknowledgeResponse:
        if self._acknowledging.is_done:
            return self._response()
        self._acknowledging.when_done(lambda: self.set_result(self._response()))
        return self

    def _response(self) -> ShareAcknowledgeResponse:
        shares, req = self._ctx.services.shares, self._req
        if req.share_session_epoch == FINAL_EPOCH:
            shares.close_session(req.group_id, req.member_id)
        topics: dict[object, Any] = {}
        leaders = []
        for partition, error in self._acknowledging.errors.items():
            leader = None if error is None else leader_of(self._ctx, partition, error.code)
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
            acquisition_lock_timeout_ms=shares.settings_of(req.group_id).lock_ms,
            responses=list(topics.values()),
            node_endpoints=[
                ShareAcknowledgeResponse.NodeEndpoint(
                    node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                )
                for node in leadership.endpoints(self._ctx, leaders)
            ],
        )


def _leader(leader: CurrentLeader) -> Any:
    return PartitionAnswer.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)


def failure(_: ShareAcknowledgeRequest, error: KafkaError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=error.code, error_message=describe(error), responses=[], node_endpoints=[]
    )


API = Api(
    key=79,
    name="ShareAcknowledge",
    versions=Versions(1, 2),
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
    handle=handle,
    failure=failure,
)
