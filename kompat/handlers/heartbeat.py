"""Heartbeat: keep a member of a classic group alive, and let it know when it has to rejoin."""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.groups.machine import messages
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import HeartbeatRequest, HeartbeatResponse
from kompat.security.acls import Kind, Operation


async def handle(ctx: Context, req: HeartbeatRequest) -> HeartbeatResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    code = await ctx.services.groups.heartbeat(
        messages.HeartbeatRequest(
            group_id=req.group_id,
            member_id=req.member_id,
            group_instance_id=req.group_instance_id,
            generation_id=req.generation_id,
        )
    )
    return HeartbeatResponse(error_code=code)


def failure(_: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error.code)


HANDLER = Handler(HeartbeatRequest, HeartbeatResponse, handle, failure)
