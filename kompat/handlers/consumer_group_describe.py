"""ConsumerGroupDescribe (key 69, v0-1): state and members of groups whose partitions the broker assigns (KIP-848).

v1 says of each member which protocol it speaks: a group that is being rolled over has both kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import DescribedConsumer, DescribedConsumerGroup, NamedPartitions
from kompat.handlers import authorized
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.groups import HIDDEN_TOPICS, check_consumer_protocol, sees_topics
from kompat.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kompat.security.acls import Kind, Operation

Group: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup
Member: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup.Member
Assignment: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup.Member.Assignment


class MemberType(IntEnum):
    CLASSIC = 0
    CONSUMER = 1


async def handle(ctx: Context, req: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    check_consumer_protocol(ctx)
    visible = ctx.services.authorizer.allowed(ctx, Operation.DESCRIBE, Kind.GROUP, req.group_ids)
    described = await ctx.services.groups.describe_consumer_groups(
        each for each in req.group_ids if each and each in visible
    )
    found = {each.group_id: each for each in described}
    return ConsumerGroupDescribeResponse(
        groups=[_answer(ctx, req, group_id, found.get(group_id)) for group_id in req.group_ids]
    )


def _answer(
    ctx: Context, req: ConsumerGroupDescribeRequest, group_id: str, found: DescribedConsumerGroup | None
) -> Group:
    if found is None:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED if group_id else ErrorCode.INVALID_GROUP_ID
        return Group(error_code=code, group_id=group_id)
    if not sees_topics(ctx, _topics(found)):
        return Group(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN_TOPICS, group_id=group_id)
    return _group(ctx, found, req.include_authorized_operations)


def _topics(group: DescribedConsumerGroup) -> set[str]:
    """That its members want or have."""
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        names.update(each.topic_name for each in member.assignment)
    return names


def _group(ctx: Context, group: DescribedConsumerGroup, with_operations: bool) -> Group:
    is_told = with_operations and group.error is ErrorCode.NONE
    operations = authorized.operations(ctx, Kind.GROUP, group.group_id) if is_told else None
    return Group(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(each) for each in group.members],
        authorized_operations=authorized.NOT_ASKED if operations is None else authorized.bits(operations),
    )


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
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=MemberType.CLASSIC if member.is_classic else MemberType.CONSUMER,
    )


def _assignment(topics: Iterable[NamedPartitions]) -> Assignment:
    return Assignment(
        topic_partitions=[
            Assignment.TopicPartitions(
                topic_id=each.topic_id, topic_name=each.topic_name, partitions=list(each.partitions)
            )
            for each in topics
        ]
    )


def failure(req: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[Group(error_code=error.code, group_id=group_id) for group_id in req.group_ids]
    )


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=Versions(0, 1),
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    handle=handle,
    failure=failure,
)
