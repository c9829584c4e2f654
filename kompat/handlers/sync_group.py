"""SyncGroup: the leader hands in the assignment of a generation, every member gets its part.

v5+ names the protocol that the member expects: INCONSISTENT_GROUP_PROTOCOL where another was chosen.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import SyncRequest
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import SyncGroupRequest, SyncGroupResponse
from kompat.security.acls import Kind, Operation

FIRST_VERSION_WITH_PROTOCOL = 5


async def handle(ctx: Context, req: SyncGroupRequest) -> SyncGroupResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    if ctx.api_version >= FIRST_VERSION_WITH_PROTOCOL and None in (req.protocol_type, req.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    reply = await ctx.services.groups.sync(
        SyncRequest(
            group_id=req.group_id,
            member_id=req.member_id,
            group_instance_id=req.group_instance_id,
            generation_id=req.generation_id,
            protocol_type=req.protocol_type,
            protocol_name=req.protocol_name,
            assignments={each.member_id: bytes(each.assignment) for each in req.assignments},
        )
    )
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def failure(_: SyncGroupRequest, error: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code, assignment=b"")


HANDLER = Handler(SyncGroupRequest, SyncGroupResponse, handle, failure)
