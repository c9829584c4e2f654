"""The share protocol (KIP-932): ShareGroupHeartbeat."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.describe import named
from kompat.groups.machine.messages import JOIN_EPOCH, LEAVE_EPOCH, NamedPartitions
from kompat.groups.machine.modern import fenced, refuse_if
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import (
    Assignment,
    ConsumerGroupTargetAssignmentMetadataValue,
    ShareGroupCurrentMemberAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadata,
    ShareGroupTargetAssignmentMember,
    ShareGroupTargetAssignmentMetadata,
)
from kompat.share.groups.machine.assignor import ShareMemberSpec, assign
from kompat.share.groups.machine.group import ShareGroup, ShareMember
from kompat.share.groups.machine.messages import ShareHeartbeatReply, ShareHeartbeatRequest
from kompat.share.groups.machine.state_partitions import StatePartitions

MOST_ASSIGNED_AT_ONCE = 100  # members of a group; new members of larger ones wait for the assignment interval


class ShareProtocol:
    """Share groups as a type of group that a GroupMachine is composed with."""

    group_class = ShareGroup
    record_classes = (
        ShareGroupMetadata,
        ShareGroupMemberMetadata,
        ShareGroupTargetAssignmentMetadata,
        ShareGroupTargetAssignmentMember,
        ShareGroupCurrentMemberAssignment,
        ShareGroupStatePartitionMetadata,
    )

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.states = StatePartitions(state)

    def session_timeout_ms(self, group_id: str) -> int:
        return self._state.settings.share_of(group_id).session_timeout_ms

    def topics_deleted(self, topic_ids: Collection[UUID], turn: Turn) -> None:
        self.states.forget_topics(topic_ids, turn)

    def resign(self) -> None:
        self.states.resign()

    def heartbeat(self, request: ShareHeartbeatRequest, turn: Turn) -> ShareHeartbeatReply:
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request, turn)
        group, member = self._asking(request)
        updated = _updated(member, request)
        if updated != member:
            turn.records.append(updated.metadata_record(group.group_id))
        names = _topics_after(group, member, updated)
        epoch = self._follow_subscription(group, names, updated.topics != member.topics, turn)
        target_epoch, target = self._follow_target(group, updated, epoch, turn)
        updated = self._reconciled(group, updated, target_epoch, target, epoch != group.epoch, turn)
        group.wants_refresh = False
        settings = self._state.settings.share_of(group.group_id)
        key = TimerKey(TimerKind.SESSION, group.group_id, updated.member_id)
        self._state.schedule(key, turn, settings.session_timeout_ms)
        missing = self.states.missing(group, names, turn)
        self.states.begin(group, missing, turn)
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        return ShareHeartbeatReply(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=updated.assigned if is_full or updated.assigned != member.assigned else None,
            uninitialized=missing,
        )

    def prepare(self, request: ShareHeartbeatRequest, turn: Turn) -> Assignment:
        """Partitions that need a state before this heartbeat can assign them; from now on they are being initialized."""
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            return {}
        group, _ = self._asking(request)
        missing = self.states.missing(group, request.subscribed_topic_names or (), turn)
        self.states.begin(group, missing, turn)
        return missing

    # --- finding

    def exists(self, group_id: str) -> bool:
        """Whether there is a group of that name, of any type."""
        return group_id in self._state.groups

    def find(self, group_id: str) -> ShareGroup | None:
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def named(self, assignment: Assignment) -> tuple[NamedPartitions, ...]:
        return named(self._state, assignment)

    def _asking(self, request: ShareHeartbeatRequest) -> tuple[ShareGroup, ShareMember]:
        is_joining = request.member_epoch == JOIN_EPOCH
        group = self.group_to_join(request.group_id) if is_joining else self._group_of(request.group_id)
        limit = self._state.settings.share_max_size
        if len(group.members) >= limit and request.member_id not in group.members:
            message = f"The share group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        if is_joining:
            return group, group.members.get(request.member_id) or ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        _check_epoch(member, request.member_epoch)
        return group, member

    def group(self, group_id: str) -> ShareGroup:
        if group_id not in self._state.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return self.group_to_join(group_id)

    def _group_of(self, group_id: str) -> ShareGroup:
        if group_id not in self._state.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return self.group_to_join(group_id)

    def group_to_join(self, group_id: str) -> ShareGroup:
        """The group, or a new one that its records will create."""
        group = self._state.groups.get(group_id)
        if group is None:
            return ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    # --- what follows

    def _follow_subscription(self, group: ShareGroup, names: Collection[str], has_changed: bool, turn: Turn) -> int:
        """Write a new group epoch if the members, topics or assignable partitions have changed; returns the group epoch."""
        wants_epoch = has_changed or (group.target_epoch >= group.epoch and _has_unassigned(group))
        if not wants_epoch and not group.wants_refresh:
            return group.epoch
        metadata_hash = self._state.hashes.of(names, self._state.topics)
        if not wants_epoch and metadata_hash == group.metadata_hash:
            return group.epoch
        turn.records.append(_epoch_record(group, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _follow_target(self, group: ShareGroup, updated: ShareMember, epoch: int, turn: Turn) -> tuple[int, Assignment]:
        """Compute a new target assignment if the group epoch requires one and it is time; the member's target and its epoch."""
        interval = self._state.settings.share_of(group.group_id).assignment_interval_ms
        is_time = not group.target_timestamp or turn.now >= group.target_timestamp + interval
        # No member has to revoke anything for a new one, so it need not wait for its first partitions: by its next
        # heartbeat the others may have read everything. In groups with many members this would cost the assignor too much.
        is_time = is_time or (updated.member_id not in group.target and len(group.members) < MOST_ASSIGNED_AT_ONCE)
        if group.target_epoch >= epoch or not is_time:
            return group.target_epoch, group.target_of(updated.member_id)
        members = {**group.members, updated.member_id: updated}
        specs = {
            member_id: ShareMemberSpec(self._topic_ids(member.topics), group.target_of(member_id))
            for member_id, member in members.items()
        }
        target = assign(specs, self._assignable(group))
        for member_id, assignment in target.items():
            if group.target.get(member_id) != assignment:
                record = ShareGroupTargetAssignmentMember(
                    group_id=group.group_id, member_id=member_id, value=assignment
                )
                turn.records.append(record)
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=turn.now)
        turn.records.append(ShareGroupTargetAssignmentMetadata(group_id=group.group_id, value=value))
        return epoch, target[updated.member_id]

    def _assignable(self, group: ShareGroup) -> Assignment:
        """The partitions with a state that still exist."""
        found: dict[UUID, frozenset[int]] = {}
        for topic_id, partitions in group.initialized.items():
            topic = self._state.topics.find_by_id(topic_id)
            if topic is not None:
                found[topic_id] = partitions & frozenset(range(topic.partitions))
        return found

    def _topic_ids(self, names: Iterable[str]) -> frozenset[UUID]:
        found = (self._state.topics.find(name) for name in names)
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def _reconciled(
        self, group: ShareGroup, member: ShareMember, target_epoch: int, target: Assignment, forced: bool, turn: Turn
    ) -> ShareMember:
        """The member with its target assignment: there is nothing to wait for."""
        if member.epoch == target_epoch and not forced:
            return member
        topic_ids = self._topic_ids(member.topics)
        assigned = {topic_id: part for topic_id, part in target.items() if topic_id in topic_ids}
        stepped = replace(member, assigned=assigned)
        if member.epoch != target_epoch:
            stepped = replace(stepped, epoch=target_epoch, previous_epoch=member.epoch)
        if stepped != member:
            turn.records.append(stepped.current_record(group.group_id))
        return stepped

    # --- leaving

    def _leave(self, request: ShareHeartbeatRequest, turn: Turn) -> ShareHeartbeatReply:
        group = self.group(request.group_id)
        self.fence(group, (group.member(request.member_id),), turn)
        return ShareHeartbeatReply(member_id=request.member_id, member_epoch=request.member_epoch)

    def fence(self, group: ShareGroup, members: Collection[ShareMember], turn: Turn) -> None:
        """Remove members; the next assignment gives their partitions to the others."""
        after = group.subscriptions.copy()
        for member in members:
            turn.records += group.member_tombstones(member.member_id)
            self._state.cancel(group.group_id, member.member_id, TimerKind.SESSION)
            after.change(member.topics, by_name=-1)
        metadata_hash = self._state.hashes.of(after.topics, self._state.topics)
        turn.records.append(_epoch_record(group, group.epoch + 1, metadata_hash))


def _epoch_record(group: ShareGroup, epoch: int, metadata_hash: int) -> ShareGroupMetadata:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ShareGroupMetadata(group_id=group.group_id, value=value)


def _topics_after(group: ShareGroup, member: ShareMember, updated: ShareMember) -> Collection[str]:
    """The names of all topics that the group will be subscribed to."""
    if updated.topics == member.topics:
        return group.subscriptions.topics
    after = group.subscriptions.copy()
    after.change(updated.topics, by_name=1)
    if member.member_id in group.members:
        after.change(member.topics, by_name=-1)
    return after.topics


def _has_unassigned(group: ShareGroup) -> bool:
    """Whether there are partitions with a state that are missing in the target assignment."""
    if group.states is None or not group.states.initialized_topics:
        return False
    assigned: dict[UUID, frozenset[int]] = {}
    for target in group.target.values():
        for topic_id, part in target.items():
            assigned[topic_id] = assigned.get(topic_id, frozenset()) | part
    return any(
        part.name in group.subscriptions.topics and assigned.get(topic_id) != part.partitions
        for topic_id, part in group.states.initialized_topics.items()
    )


def _updated(member: ShareMember, request: ShareHeartbeatRequest) -> ShareMember:
    """The member with the changes of the request; the same object if there are none."""
    wanted: dict[str, Any] = {"client_id": request.client.client_id, "client_host": request.client.client_host}
    if request.rack_id is not None:
        wanted["rack_id"] = request.rack_id
    if request.subscribed_topic_names is not None:
        wanted["topics"] = frozenset(request.subscribed_topic_names)
    changes = {name: value for name, value in wanted.items() if getattr(member, name) != value}
    return replace(member, **changes) if changes else member


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch > member.epoch:
        raise fenced("share", "greater", epoch, member.epoch)
    # A member that is one epoch behind has not received our last response.
    if epoch < member.epoch and epoch != member.previous_epoch:
        known = f", and it does not match the previous member epoch ({member.previous_epoch})"
        raise fenced("share", "smaller", epoch, member.epoch, known)


def _check(request: ShareHeartbeatRequest) -> None:
    """Check the request, independent of the group's state."""
    refuse_if(not request.member_id, "")  # Kafka has no message for it
    refuse_if(not request.member_id.strip(), "MemberId can't be empty.")
    refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    refuse_if(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        refuse_if(not request.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    refuse_if(request.member_epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
