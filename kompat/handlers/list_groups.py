"""ListGroups: all groups, or those in some states (v4+) or of some types (v5)."""

from __future__ import annotations

from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import ListGroupsRequest, ListGroupsResponse
from kompat.security.acls import Kind, Operation


async def handle(ctx: Context, req: ListGroupsRequest) -> ListGroupsResponse:
    authorizer = ctx.services.authorizer
    sees_all = authorizer.allows(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    listed = await ctx.services.groups.list_groups(req.states_filter, req.types_filter)
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                group_state=each.state,
                group_type=each.group_type,
            )
            async for each in sliced(listed)
            if sees_all or authorizer.allows(ctx, Operation.DESCRIBE, Kind.GROUP, each.group_id)
        ],
    )


def failure(_: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code, groups=[])


HANDLER = Handler(ListGroupsRequest, ListGroupsResponse, handle, failure)
