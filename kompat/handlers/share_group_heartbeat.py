"""ShareGroupHeartbeat: join, leave and follow a share group (KIP-932).

Null fields mean "as before". Epoch 0 joins, -1 leaves. The member chooses its id.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.records import Assignment as Partitions
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.groups import check_subscription, client_of
from kompat.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kompat.share.groups.machine.messages import ShareHeartbeatRequest

Assignment: TypeAlias = ShareGroupHeartbeatResponse.Assignment


async def handle(ctx: Context, req: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    check_subscription(ctx, req.group_id, req.subscribed_topic_names)
    topics = req.subscribed_topic_names
    reply = await ctx.services.share_groups.heartbeat(
        ShareHeartbeatRequest(
            group_id=req.group_id,
            member_id=req.member_id,
            member_epoch=req.member_epoch,
            rack_id=req.rack_id,
            subscribed_topic_names=None if topics is None else tuple(topics),
            client=client_of(ctx),
        )
    )
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            Assignment.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def failure(_: ShareGroupHeartbeatRequest, error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


HANDLER = Handler(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, handle, failure)
