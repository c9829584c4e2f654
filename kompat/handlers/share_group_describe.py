"""ShareGroupDescribe: state and members of share groups (KIP-932)."""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.described_groups import Describing, assignment_of
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kompat.share.groups.machine.messages import DescribedShareMember

Group: TypeAlias = ShareGroupDescribeResponse.DescribedGroup
Member: TypeAlias = ShareGroupDescribeResponse.DescribedGroup.Member
Assignment: TypeAlias = ShareGroupDescribeResponse.DescribedGroup.Member.Assignment


async def handle(ctx: Context, req: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    describing = Describing(ctx, req, Group, _member)
    return ShareGroupDescribeResponse(groups=await describing.groups(ctx.services.share_groups.describe))


def _member(member: DescribedShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=assignment_of(Assignment, member.assignment),
    )


def failure(req: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[Group(error_code=error.code, group_id=group_id) for group_id in req.group_ids]
    )


HANDLER = Handler(
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    handle,
    failure,
    parts=(Cut("group_ids", "groups"),),
)
