"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_member import ConsumerMember, Owned
from kompat.groups.machine.consumer_update import ConsumerUpdate, MemberUpdate, epoch_record, target_record
from kompat.groups.machine.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from kompat.groups.machine.migration import CONSUMER_TIMERS, Migration, successor
from kompat.groups.machine.modern import fenced, refuse_if
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import ConsumerGroupRegularExpression, EpochsByPartition


class ConsumerProtocol:
    def __init__(self, state: GroupState, migration: Migration) -> None:
        self._state = state
        self._migration = migration
        self.update = ConsumerUpdate(state)

    def heartbeat(self, request: ConsumerHeartbeatRequest, turn: Turn) -> ConsumerHeartbeatReply:
        _check(request, self._state.settings.assignors)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request, turn)
        is_joining = request.member_epoch == JOIN_EPOCH
        member_id = request.member_id or request.fresh_id
        group = self._group_to_join(request.group_id, turn) if is_joining else self.group(request.group_id)
        self.check_room(group, member_id)
        if request.instance_id is None:
            member = self._dynamic_member(group, member_id, request)
        else:
            member = self._static_member(group, member_id, request.instance_id, request, turn)
        update = MemberUpdate(group, member, _updated(member, request), request.topic_partitions, request.may_see)
        epoch = self.update.follow_subscription(update, turn)
        updated = self.update.reconcile(update, *self.update.follow_target(update, epoch, turn), turn)
        group.wants_refresh = False
        settings = self._state.settings.consumer_of(group.group_id)
        self._state.schedule(
            TimerKey(TimerKind.SESSION, group.group_id, updated.member_id), turn, settings.session_timeout_ms
        )
        has_changed = updated.assigned is not member.assigned and updated.assigned != member.assigned
        return ConsumerHeartbeatReply(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=updated.assigned if is_joining or has_changed or _is_full(request) else None,
        )

    # --- who is asking

    def group(self, group_id: str) -> ConsumerGroup:
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def _group_to_join(self, group_id: str, turn: Turn) -> ConsumerGroup:
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._migration.upgrade(group, turn)
            self._migration.void(group, turn)
        return ConsumerGroup(group_id) if group is None or isinstance(group, ClassicGroup) else self.group(group_id)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._state.settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _dynamic_member(
        self, group: ConsumerGroup, member_id: str, request: ConsumerHeartbeatRequest
    ) -> ConsumerMember:
        if request.member_epoch == JOIN_EPOCH:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        member = group.member(member_id)
        _check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def _static_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str, request: ConsumerHeartbeatRequest, turn: Turn
    ) -> ConsumerMember:
        known = group.static_member(instance_id)
        if request.member_epoch == JOIN_EPOCH:
            if known is None:
                return ConsumerMember(member_id=member_id)
            if known.classic is None and known.epoch != LEAVE_STATIC_EPOCH:
                raise KafkaError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                    f"instance id is owned by {known.member_id} member.",
                )
            return self.replace(group, known, member_id, turn)
        member = self.known_static(group, member_id, instance_id)
        _check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    @staticmethod
    def known_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        known = group.static_member(instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}.",
            )
        return known

    def replace(self, group: ConsumerGroup, known: ConsumerMember, member_id: str, turn: Turn) -> ConsumerMember:
        """A static member rejoins under a new id: it takes over the assignment of the old one."""
        member = successor(known, member_id)
        if member_id == known.member_id:
            return member
        turn.records += group.member_tombstones(known.member_id)
        turn.records.append(member.metadata_record(group.group_id))
        turn.records.append(target_record(group.group_id, member_id, group.target_of(known.member_id)))
        turn.records.append(member.current_record(group.group_id))
        turn.afterwards(lambda: self._state.cancel(group.group_id, known.member_id, *CONSUMER_TIMERS))
        return member

    # --- leaving

    def _leave(self, request: ConsumerHeartbeatRequest, turn: Turn) -> ConsumerHeartbeatReply:
        group = self.group(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = self.known_static(group, request.member_id, request.instance_id)
            if request.member_epoch == LEAVE_STATIC_EPOCH:
                turn.records.append(member.gone_for_now().current_record(group.group_id))
                self._state.cancel(group.group_id, member.member_id, TimerKind.REBALANCE)
                return ConsumerHeartbeatReply(member_id=member.member_id, member_epoch=LEAVE_STATIC_EPOCH)
        self.fence(group, (member,), turn)
        return ConsumerHeartbeatReply(member_id=request.member_id, member_epoch=request.member_epoch)

    def fence(self, group: ConsumerGroup, members: Collection[ConsumerMember], turn: Turn) -> None:
        """Remove members; their partitions are free."""
        if not members:
            return
        if self._migration.can_downgrade(group, members):
            self._migration.downgrade_without(group, members, turn)
            return
        after = group.subscriptions.copy()
        gone_with: dict[str, int] = {}
        for member in members:
            turn.records += group.member_tombstones(member.member_id)
            self._state.cancel(group.group_id, member.member_id, *CONSUMER_TIMERS)
            after.change(member.topics, by_name=-1)
            if member.regex:
                gone_with[member.regex] = gone_with.get(member.regex, 0) + 1
        for regex, gone in gone_with.items():
            if gone == group.regexes.get(regex) and regex in group.resolved:
                after.change(group.resolved[regex].topics, by_regex=-1)
                turn.records.append(
                    ConsumerGroupRegularExpression(group_id=group.group_id, regular_expression=regex, value=None)
                )
        metadata_hash = self._state.hashes.of(after.topics, self._state.topics)
        turn.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))


def _updated(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> ConsumerMember:
    """The member with the changes of the request; the same object if there are none."""
    wanted: dict[str, Any] = {"client_id": request.client.client_id, "client_host": request.client.client_host}
    if request.instance_id is not None:
        wanted["instance_id"] = request.instance_id
    if request.rack_id is not None:
        wanted["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        wanted["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        wanted["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        wanted["topics"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        wanted["regex"] = request.subscribed_topic_regex
    if member.classic is not None:
        wanted["classic"] = None  # from now on it speaks the consumer protocol
    changes = {name: value for name, value in wanted.items() if getattr(member, name) != value}
    return replace(member, **changes) if changes else member


def _is_full(request: ConsumerHeartbeatRequest) -> bool:
    """A heartbeat with all fields is from a member that lost its state: the response has all fields, too."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    if epoch > member.epoch:
        raise fenced("consumer", "greater", epoch, member.epoch)
    # A member that is one epoch behind has not received our last response: that is harmless if it owns no more than it may.
    if epoch < member.epoch and not (epoch == member.previous_epoch and _is_within(owned, member.assigned)):
        raise fenced("consumer", "smaller", epoch, member.epoch)


def _is_within(owned: Owned | None, assigned: EpochsByPartition) -> bool:
    nothing: Mapping[int, int] = {}
    return owned is not None and all(
        number in assigned.get(topic_id, nothing) for topic_id, part in owned.items() for number in part
    )


def _check(request: ConsumerHeartbeatRequest, assignors: Collection[str]) -> None:
    """Check the request, independent of the group's state."""
    needs_id = request.api_version >= 1 or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    refuse_if(needs_id and not request.member_id.strip(), "MemberId can't be empty.")
    refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    refuse_if(request.instance_id is not None and not request.instance_id.strip(), "InstanceId can't be empty.")
    refuse_if(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        refuse_if(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
        owns_nothing = request.topic_partitions is not None and not request.topic_partitions
        refuse_if(not owns_nothing, "TopicPartitions must be empty when (re-)joining.")
        refuse_if(
            request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    refuse_if(request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None, "InstanceId can't be null.")
    refuse_if(request.member_epoch < LEAVE_STATIC_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        message = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
