"""A share group (KIP-932): all of its state comes from its records.

As in a consumer group, there are a group epoch and a target assignment. But partitions are shared, so no member has to revoke
one before another gets it: a member is at its target assignment with its next heartbeat. And a partition is only assigned
when the group has a state for it in `__share_group_state`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kompat.groups.machine.modern import NOTHING, ModernGroup
from kompat.groups.machine.state import TopicFollowers
from kompat.groups.records import (
    Assignment,
    MemberState,
    ShareGroupCurrentMemberAssignment,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadata,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupStatePartitionMetadata,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMember,
    ShareGroupTargetAssignmentMetadata,
)

SHARE = "share"
States = ShareGroupStatePartitionMetadataValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    member_id: str
    # from its metadata record
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    # from its current assignment record
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def with_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=value.assigned_partitions,
        )

    def metadata_record(self, group_id: str) -> ShareGroupMemberMetadata:
        value = ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
        )
        return ShareGroupMemberMetadata(group_id=group_id, member_id=self.member_id, value=value)

    def current_record(self, group_id: str) -> ShareGroupCurrentMemberAssignment:
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=MemberState.STABLE,
            assigned_partitions=self.assigned,
        )
        return ShareGroupCurrentMemberAssignment(group_id=group_id, member_id=self.member_id, value=value)


class ShareGroup(ModernGroup[ShareMember]):
    group_type = SHARE
    protocol_type = SHARE

    def __init__(self, group_id: str, followers: TopicFollowers | None = None) -> None:
        super().__init__(group_id, followers)
        self.states: States | None = None

    # --- what it is

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    @property
    def initialized(self) -> Assignment:
        """The partitions that may be assigned."""
        if self.states is None:
            return NOTHING
        return {topic_id: part.partitions for topic_id, part in self.states.initialized_topics.items()}

    # --- records

    def apply(self, record: ShareGroupRecord) -> None:
        if isinstance(record, ShareGroupCurrentMemberAssignment):
            known = self.members.get(record.member_id)
            if record.value is not None:
                self._put((known or ShareMember(member_id=record.member_id)).with_current(record.value))
            elif known is not None:
                self._put(replace(known, epoch=-1, previous_epoch=-1, assigned={}))
        elif isinstance(record, ShareGroupTargetAssignmentMember):
            self.apply_target(record.member_id, record.value)
        elif isinstance(record, ShareGroupMemberMetadata):
            self._apply_metadata(record)
        elif isinstance(record, ShareGroupMetadata):
            if record.value is not None:
                self.epoch, self.metadata_hash = record.value.epoch, record.value.metadata_hash
        elif isinstance(record, ShareGroupTargetAssignmentMetadata):
            self.apply_target_epoch(record.value)
        else:
            self.states = record.value

    def _apply_metadata(self, record: ShareGroupMemberMetadata) -> None:
        known = self.members.get(record.member_id)
        if record.value is not None:
            self._put((known or ShareMember(member_id=record.member_id)).with_metadata(record.value))
        elif known is not None:
            self.subscriptions.change(known.topics, by_name=-1)
            del self.members[known.member_id]

    def _put(self, member: ShareMember) -> None:
        known = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if known is None or known.topics != member.topics:
            self.subscriptions.change(member.topics, by_name=1)
            if known is not None:
                self.subscriptions.change(known.topics, by_name=-1)

    # --- leaving nothing behind

    def member_tombstones(self, member_id: str) -> Iterator[ShareGroupRecord]:
        yield ShareGroupCurrentMemberAssignment(group_id=self.group_id, member_id=member_id, value=None)
        yield ShareGroupTargetAssignmentMember(group_id=self.group_id, member_id=member_id, value=None)
        yield ShareGroupMemberMetadata(group_id=self.group_id, member_id=member_id, value=None)

    def tombstones(self) -> list[ShareGroupRecord]:
        """The tombstones of an empty group: those of its members are written when they leave."""
        return [
            ShareGroupTargetAssignmentMetadata(group_id=self.group_id, value=None),
            ShareGroupStatePartitionMetadata(group_id=self.group_id, value=None),
            ShareGroupMetadata(group_id=self.group_id, value=None),
        ]
