"""Records made true: the only place where groups come and go."""

from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.offsets import Offsets
from kompat.groups.machine.share import ShareGroup
from kompat.groups.machine.state import GroupState
from kompat.groups.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    EndTransaction,
    GroupMetadata,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommit,
    ShareGroupCurrentMemberAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupStatePartitionMetadata,
    ShareGroupTargetAssignmentMember,
    ShareGroupTargetAssignmentMetadata,
)

_OF_SHARE_GROUPS = (
    ShareGroupCurrentMemberAssignment,
    ShareGroupTargetAssignmentMember,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupTargetAssignmentMetadata,
    ShareGroupStatePartitionMetadata,
)


class Replay:
    def __init__(self, state: GroupState, offsets: Offsets) -> None:
        self._state = state
        self._offsets = offsets

    def apply(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommit):
            if record.value is not None and record.group_id not in self._state.groups:
                self._state.groups[record.group_id] = ClassicGroup(record.group_id)
            self._offsets.apply(record)
        elif isinstance(record, GroupMetadata):
            self._apply_classic(record.group_id, record.value)
        elif isinstance(record, EndTransaction):
            self._offsets.apply_end(record)
        elif isinstance(record, _OF_SHARE_GROUPS):
            self._apply_share(record)
        else:
            self._apply_consumer(record)

    def _apply_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        known = self._state.groups.get(group_id)
        if value is None:
            # Where a group was turned into one of another kind this may be older than what it is now.
            if isinstance(known, ClassicGroup):
                del self._state.groups[group_id]
            return
        group = self._state.prepared.pop(group_id, None)
        if group is None and self._state.is_live and isinstance(known, ClassicGroup):
            group = known  # the command has run ahead of its record
        if isinstance(known, ConsumerGroup | ShareGroup):
            known.unfollow()
        if group is None:
            group = ClassicGroup.load(group_id, value)
        group.persisted = value
        self._state.groups[group_id] = group

    def _apply_consumer(self, record: ConsumerGroupRecord) -> None:
        group_id = record.group_id
        group = self._state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            # A tombstone of a group that is gone, or is a classic one by now; or the first record of a consumer group.
            # Offsets that are older than it may have made a simple group of it meanwhile.
            if record.value is None or not _may_begin(group):
                return
            group = self._state.groups[group_id] = ConsumerGroup(group_id, self._state.followers)
        if isinstance(record, ConsumerGroupMetadata) and record.value is None:
            group.unfollow()
            del self._state.groups[group_id]
        else:
            group.apply(record)

    def _apply_share(self, record: ShareGroupRecord) -> None:
        group_id = record.group_id
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            if record.value is None or not _may_begin(group):
                return
            group = self._state.groups[group_id] = ShareGroup(group_id, self._state.followers)
        if isinstance(record, ShareGroupMetadata) and record.value is None:
            group.unfollow()
            del self._state.groups[group_id]
        else:
            group.apply(record)


def _may_begin(known: ClassicGroup | ConsumerGroup | ShareGroup | None) -> bool:
    """Can this be the first record of a group?"""
    return known is None or (isinstance(known, ClassicGroup) and known.is_simple)
