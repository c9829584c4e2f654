"""JoinGroup: become a member of a classic group; answered when the group's next generation begins.

v4+ without a member id gets MEMBER_ID_REQUIRED with the id to rejoin with. Only the leader gets the list of members. v9+ may
have a static leader that returns skip the assignment. v0 has one timeout for session and rebalance.
"""

from __future__ import annotations

from uuid import uuid4

from kompat.errors import KafkaError
from kompat.groups.machine.messages import NO_GENERATION, UNKNOWN_MEMBER_ID, JoinRequest
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.groups import client_of
from kompat.protocol.messages import JoinGroupRequest, JoinGroupResponse
from kompat.security.acls import Kind, Operation

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_NULL_PROTOCOL = 7


async def handle(ctx: Context, req: JoinGroupRequest) -> JoinGroupResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    has_timeout = ctx.api_version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    reply = await ctx.services.groups.join(
        JoinRequest(
            group_id=req.group_id,
            member_id=req.member_id,
            group_instance_id=req.group_instance_id,
            session_timeout_ms=req.session_timeout_ms,
            rebalance_timeout_ms=req.rebalance_timeout_ms if has_timeout else req.session_timeout_ms,
            protocol_type=req.protocol_type,
            protocols=tuple((each.name, bytes(each.metadata)) for each in req.protocols),
            client=client_of(ctx),
            api_version=ctx.api_version,
            fresh_id=str(uuid4()),
        )
    )
    no_protocol = None if ctx.api_version >= FIRST_VERSION_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name or no_protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata
            )
            for each in reply.members
        ],
    )


def failure(_: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code,
        generation_id=NO_GENERATION,
        protocol_name="",
        leader=UNKNOWN_MEMBER_ID,
        member_id=UNKNOWN_MEMBER_ID,
        members=[],
    )


HANDLER = Handler(JoinGroupRequest, JoinGroupResponse, handle, failure)
