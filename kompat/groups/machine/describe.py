"""ListGroups, DescribeGroups and ConsumerGroupDescribe."""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from kompat.errors import ErrorCode
from kompat.groups.machine.classic import ClassicGroup, ClassicMember, ClassicState
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_member import ConsumerMember
from kompat.groups.machine.messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    NamedPartitions,
)
from kompat.groups.machine.state import GroupState

DEAD = "Dead"  # the state of a group that does not exist
NOT_FOUND_SINCE = 6  # version of DescribeGroups that returns an error for it


def list_groups(state: GroupState, states: Collection[str], types: Collection[str]) -> tuple[ListedGroup, ...]:
    """All groups, or those in one of the states and of one of the types."""
    wanted_states = {each.strip().lower() for each in states}
    wanted_types = {each.strip().lower() for each in types}
    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            state=str(group.state),
            group_type=group.group_type,
        )
        for group in state.groups.values()
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group.group_type in wanted_types)
    )


def describe_classic(state: GroupState, group_id: str, api_version: int) -> DescribedGroup:
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if api_version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, state=DEAD)
        reason = "not found" if group is None else "is not a classic group"
        message = f"Group {group_id} {reason}."
        return DescribedGroup(group_id=group_id, state=DEAD, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    is_stable = group.state is ClassicState.STABLE
    protocol = group.protocol_name if is_stable else None
    return DescribedGroup(
        group_id=group_id,
        state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(_member(member, protocol) for member in group.members.values()),
    )


def _member(member: ClassicMember, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(protocol),
        assignment=member.assignment,
    )


def describe_consumer(state: GroupState, group_id: str) -> DescribedConsumerGroup:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        reason = "not found" if group is None else "is not a consumer group"
        return DescribedConsumerGroup(
            group_id=group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {reason}."
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.preferred_assignor(state.settings.assignors[0]),
        members=tuple(_consumer(state, group, member) for member in group.members.values()),
    )


def _consumer(state: GroupState, group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    held: dict[UUID, set[int]] = {}
    for assignment in (member.assigned, member.pending_revocation):
        for topic_id, part in assignment.items():
            held.setdefault(topic_id, set()).update(part)
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=named(state, held),
        target_assignment=named(state, group.target_of(member.member_id)),
        is_classic=member.classic is not None,
    )


def named(state: GroupState, assignment: Mapping[UUID, Iterable[int]]) -> tuple[NamedPartitions, ...]:
    found = ((state.topics.find_by_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    return tuple(
        NamedPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=tuple(sorted(partitions)))
        for topic, partitions in found
        if topic is not None
    )
