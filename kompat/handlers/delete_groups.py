"""DeleteGroups (key 42, v0-2): remove groups that have no members, with their offsets."""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse

Result = DeleteGroupsResponse.DeletableGroupResult


async def handle(ctx: Context, req: DeleteGroupsRequest) -> DeleteGroupsResponse:
    named = list(dict.fromkeys(req.groups_names))
    outcomes = await ctx.services.groups.delete_groups(named)
    return DeleteGroupsResponse(
        results=[Result(group_id=group_id, error_code=outcomes[group_id]) for group_id in named]
    )


def failure(req: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[Result(group_id=group_id, error_code=error.code) for group_id in dict.fromkeys(req.groups_names)]
    )


API = Api(
    key=42,
    name="DeleteGroups",
    versions=Versions(0, 2),
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    handle=handle,
    failure=failure,
)
