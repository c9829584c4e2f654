"""LeaveGroup: take members out of a classic group.

v3+ carries many, each answered on its own; an administrator may name a static member by its instance id alone. Below,
the one member's error is the request's.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import LeavingMember
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from kompat.security.acls import Kind, Operation

FIRST_VERSION_WITH_MANY = 3


async def handle(ctx: Context, req: LeaveGroupRequest) -> LeaveGroupResponse:
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    groups = ctx.services.groups
    if ctx.api_version < FIRST_VERSION_WITH_MANY:
        [left] = await groups.leave(req.group_id, [LeavingMember(member_id=req.member_id)])
        return LeaveGroupResponse(error_code=left.error)
    leaving = [
        LeavingMember(member_id=each.member_id, group_instance_id=each.group_instance_id) for each in req.members
    ]
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=left.member_id, group_instance_id=left.group_instance_id, error_code=left.error
            )
            for left in await groups.leave(req.group_id, leaving)
        ],
    )


def failure(_: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code, members=[])


HANDLER = Handler(
    LeaveGroupRequest,
    LeaveGroupResponse,
    handle,
    failure,
    parts=(Cut("members", "members"),),
)
