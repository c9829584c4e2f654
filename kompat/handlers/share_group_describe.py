"""ShareGroupDescribe (key 77, v1): state and members of share groups (KIP-932)."""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.share_messages import DescribedShareGroup, DescribedShareMember
from kompat.handlers import authorized
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse

Group: TypeAlias = ShareGroupDescribeResponse.DescribedGroup
Member: TypeAlias = ShareGroupDescribeResponse.DescribedGroup.Member
Assignment: TypeAlias = ShareGroupDescribeResponse.DescribedGroup.Member.Assignment


async def handle(ctx: Context, req: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    described = await ctx.services.groups.describe_share_groups(each for each in req.group_ids if each)
    found = {each.group_id: each for each in described}
    return ShareGroupDescribeResponse(
        groups=[
            _group(found[group_id], req.include_authorized_operations)
            if group_id
            else Group(error_code=ErrorCode.INVALID_GROUP_ID)
            for group_id in req.group_ids
        ]
    )


def _group(group: DescribedShareGroup, with_operations: bool) -> Group:
    is_told = with_operations and group.error is ErrorCode.NONE
    return Group(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(each) for each in group.members],
        authorized_operations=authorized.bits(authorized.ON_GROUP) if is_told else authorized.NOT_ASKED,
    )


def _member(member: DescribedShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=Assignment(
            topic_partitions=[
                Assignment.TopicPartitions(
                    topic_id=each.topic_id, topic_name=each.topic_name, partitions=list(each.partitions)
                )
                for each in member.assignment
            ]
        ),
    )


def failure(req: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[Group(error_code=error.code, group_id=group_id) for group_id in req.group_ids]
    )


API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=Versions(1, 1),
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
    handle=handle,
    failure=failure,
)
