"""DeleteGroups: remove groups that have no members, with their offsets."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse
from kompat.security.acls import Kind, Operation

Result = DeleteGroupsResponse.DeletableGroupResult


async def handle(ctx: Context, req: DeleteGroupsRequest) -> DeleteGroupsResponse:
    named = list(dict.fromkeys(req.groups_names))
    allowed = ctx.services.authorizer.allowed(ctx, Operation.DELETE, Kind.GROUP, named)
    outcomes = dict.fromkeys(named, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    outcomes |= await ctx.services.groups.delete_groups([group_id for group_id in named if group_id in allowed])
    return DeleteGroupsResponse(
        results=[Result(group_id=group_id, error_code=outcomes[group_id]) for group_id in named]
    )


def failure(req: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[Result(group_id=group_id, error_code=error.code) for group_id in dict.fromkeys(req.groups_names)]
    )


HANDLER = Handler(
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    handle,
    failure,
    parts=(Cut("groups_names", "results", key=str),),
)
