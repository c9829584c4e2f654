"""A consumer group (KIP-848): all of its state comes from its records.

The group has an epoch, which grows with every change of members, subscriptions or topics; a target assignment for one
epoch; and members, each at an epoch of its own on the way to the target.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kompat.groups.consumer_protocol import PROTOCOL_TYPE
from kompat.groups.machine.consumer_member import ConsumerMember
from kompat.groups.machine.modern import NOTHING, ModernGroup
from kompat.groups.machine.state import TopicFollowers
from kompat.groups.records import (
    Assignment,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpression,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    MemberState,
)

K = TypeVar("K")


class ConsumerGroup(ModernGroup[ConsumerMember]):
    group_type = "consumer"
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, followers: TopicFollowers | None = None) -> None:
        super().__init__(group_id, followers)
        self.static_members: dict[str, str] = {}  # instance id → member id
        self.resolved: dict[str, ConsumerGroupRegularExpressionValue] = {}  # by expression
        self.has_partition_metadata = False
        # derived from the members
        self.assignors: dict[str, int] = {}  # → how many members request it
        self.regexes: dict[str, int] = {}  # → how many members are subscribed with it
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}  # → how many classic members support it
        self._holders: dict[UUID, dict[int, str]] = {}  # the member that has a partition, or has not revoked it yet
        self._stable_at: dict[int, int] = {}  # epoch → how many members are stable there

    # --- what it is

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Stable" if self._stable_at.get(self.target_epoch, 0) == len(self.members) else "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions.topics

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None = None) -> Assignment:
        """A member's target; a static member that rejoins has that of its predecessor."""
        if member_id not in self.target and instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, NOTHING)

    def holder(self, topic_id: UUID, partition: int) -> str | None:
        return self._holders.get(topic_id, {}).get(partition)

    def preferred_assignor(self, default: str) -> str:
        return preferred(self.assignors, default)

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        if protocol_type != PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols.get(name, 0) == self.classic_members for name in protocols)

    def only_classic_without(self, members: Iterable[ConsumerMember]) -> bool:
        """Whether only members with the classic protocol would be left."""
        gone = list(members)
        classic_left = self.classic_members - sum(member.classic is not None for member in gone)
        return classic_left == len(self.members) - len(gone)

    # --- records

    def apply(self, record: ConsumerGroupRecord) -> None:
        if isinstance(record, ConsumerGroupCurrentMemberAssignment):
            self._apply_current(record)
        elif isinstance(record, ConsumerGroupTargetAssignmentMember):
            self.apply_target(record.member_id, record.value)
        elif isinstance(record, ConsumerGroupMemberMetadata):
            self._apply_metadata(record)
        elif isinstance(record, ConsumerGroupMetadata):
            if record.value is not None:
                self.epoch, self.metadata_hash = record.value.epoch, record.value.metadata_hash
        elif isinstance(record, ConsumerGroupTargetAssignmentMetadata):
            self.apply_target_epoch(record.value)
        elif isinstance(record, ConsumerGroupRegularExpression):
            self._apply_regex(record)
        elif isinstance(record, ConsumerGroupPartitionMetadata):
            self.has_partition_metadata = record.value is not None

    def _apply_metadata(self, record: ConsumerGroupMemberMetadata) -> None:
        known = self.members.get(record.member_id)
        if record.value is not None:
            self._put((known or ConsumerMember(member_id=record.member_id)).with_metadata(record.value))
        elif known is not None:
            self._release(known)
            self._count(known, -1)
            del self.members[known.member_id]
            if known.instance_id is not None and self.static_members.get(known.instance_id) == known.member_id:
                del self.static_members[known.instance_id]

    def _apply_current(self, record: ConsumerGroupCurrentMemberAssignment) -> None:
        known = self.members.get(record.member_id)
        if record.value is not None:
            self._put((known or ConsumerMember(member_id=record.member_id)).with_current(record.value))
        elif known is not None:
            self._put(
                replace(
                    known, epoch=-1, previous_epoch=-1, state=MemberState.STABLE, assigned={}, pending_revocation={}
                )
            )

    def _apply_regex(self, record: ConsumerGroupRegularExpression) -> None:
        known = self.resolved.pop(record.regular_expression, None)
        if known is not None:
            self.subscriptions.change(known.topics, by_regex=-1)
        if record.value is not None:
            self.resolved[record.regular_expression] = record.value
            self.subscriptions.change(record.value.topics, by_regex=1)

    def _put(self, member: ConsumerMember) -> None:
        known = self.members.get(member.member_id)
        same_metadata = known is not None and known.has_metadata_of(member)
        if known is not None:
            self._release(known)
            if not same_metadata:
                self._count(known, -1)
        self.members[member.member_id] = member
        if not same_metadata:
            self._count(member, 1)
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member.member_id
        self._hold(member)

    def _hold(self, member: ConsumerMember) -> None:
        if member.state is MemberState.STABLE:
            count(self._stable_at, member.epoch, 1)
        for held in (member.assigned, member.pending_revocation):
            for topic_id, part in held.items():
                holders = self._holders.setdefault(topic_id, {})
                for partition in part:
                    holders[partition] = member.member_id

    def _release(self, member: ConsumerMember) -> None:
        if member.state is MemberState.STABLE:
            count(self._stable_at, member.epoch, -1)
        for held in (member.assigned, member.pending_revocation):
            for topic_id, part in held.items():
                holders = self._holders.get(topic_id, {})
                for partition in part:
                    if holders.get(partition) == member.member_id:
                        del holders[partition]

    def _count(self, member: ConsumerMember, change: int) -> None:
        self.subscriptions.change(member.topics, by_name=change)
        count(self.regexes, member.regex, change)
        count(self.assignors, member.assignor, change)
        if member.classic is not None:
            self.classic_members += change
            for name, _ in member.classic.supported_protocols:
                count(self.classic_protocols, name, change)

    # --- leaving nothing behind

    def member_tombstones(self, member_id: str) -> list[ConsumerGroupRecord]:
        return [
            ConsumerGroupCurrentMemberAssignment(group_id=self.group_id, member_id=member_id, value=None),
            ConsumerGroupTargetAssignmentMember(group_id=self.group_id, member_id=member_id, value=None),
            ConsumerGroupMemberMetadata(group_id=self.group_id, member_id=member_id, value=None),
        ]

    def tombstones(self) -> list[ConsumerGroupRecord]:
        """Tombstones for all records of the group."""
        group_id, members = self.group_id, list(self.members)
        return [
            *(ConsumerGroupCurrentMemberAssignment(group_id=group_id, member_id=each, value=None) for each in members),
            *(ConsumerGroupTargetAssignmentMember(group_id=group_id, member_id=each, value=None) for each in members),
            ConsumerGroupTargetAssignmentMetadata(group_id=group_id, value=None),
            *(ConsumerGroupMemberMetadata(group_id=group_id, member_id=each, value=None) for each in members),
            *(
                ConsumerGroupRegularExpression(group_id=group_id, regular_expression=regex, value=None)
                for regex in self.resolved
            ),
            ConsumerGroupPartitionMetadata(group_id=group_id, value=None),
            ConsumerGroupMetadata(group_id=group_id, value=None),
        ]


def count(counts: dict[K, int], key: K | None, change: int) -> None:
    """Update a count; zero counts are removed (and None and "" are not counted)."""
    if key is None or key == "":
        return
    total = counts.get(key, 0) + change
    if total > 0:
        counts[key] = total
    else:
        counts.pop(key, None)


def preferred(counts: Mapping[str, int], default: str) -> str:
    return max(counts, key=lambda name: counts[name], default=default)
