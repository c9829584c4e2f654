"""DescribeGroups: state, protocol and members of classic groups.

A group that is not there, or is no classic one, is "Dead"; v6 also has GROUP_ID_NOT_FOUND and a message. Metadata and
assignments of the members are opaque here. v3+ returns the client's authorized operations on request.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine import messages
from kompat.handlers.support import authorized
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from kompat.security.acls import Kind, Operation

Group: TypeAlias = DescribeGroupsResponse.DescribedGroup


async def handle(ctx: Context, req: DescribeGroupsRequest) -> DescribeGroupsResponse:
    visible = ctx.services.authorizer.allowed(ctx, Operation.DESCRIBE, Kind.GROUP, req.groups)
    described = await ctx.services.groups.describe_groups(
        [group_id for group_id in req.groups if group_id in visible], ctx.api_version
    )
    found = {each.group_id: each for each in described}
    return DescribeGroupsResponse(
        groups=[
            _group(ctx, found[group_id], req.include_authorized_operations)
            if group_id in visible
            else Group(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
            for group_id in req.groups
        ]
    )


def _group(ctx: Context, group: messages.DescribedGroup, with_operations: bool) -> Group:
    is_included = with_operations and group.error is ErrorCode.NONE
    return Group(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=[
            Group.DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ],
        authorized_operations=authorized.operations(ctx, Kind.GROUP, group.group_id) if is_included else None,
    )


def failure(req: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[Group(error_code=error.code, group_id=group_id) for group_id in req.groups])


HANDLER = Handler(
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    handle,
    failure,
    parts=(Cut("groups", "groups"),),
)
