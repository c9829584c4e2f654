"""ConsumerGroupDescribe: state and members of groups whose partitions the broker assigns (KIP-848).

v1 has the protocol of each member: a group that is being migrated has both kinds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from kompat.errors import KafkaError
from kompat.groups.machine.messages import DescribedConsumer
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.described_groups import Describing, assignment_of
from kompat.handlers.support.groups import check_consumer_protocol
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

Group: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup
Member: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup.Member
Assignment: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup.Member.Assignment


class MemberType(IntEnum):
    CLASSIC = 0
    CONSUMER = 1


async def handle(ctx: Context, req: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    check_consumer_protocol(ctx)
    describing = Describing(ctx, req, Group, _member)
    return ConsumerGroupDescribeResponse(groups=await describing.groups(ctx.services.groups.describe_consumer_groups))


def _member(member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=assignment_of(Assignment, member.assignment),
        target_assignment=assignment_of(Assignment, member.target_assignment),
        member_type=MemberType.CLASSIC if member.is_classic else MemberType.CONSUMER,
    )


def failure(req: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[Group(error_code=error.code, group_id=group_id) for group_id in req.group_ids]
    )


HANDLER = Handler(
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    handle,
    failure,
    parts=(Cut("group_ids", "groups"),),
)
