"""Updates a consumer group on a member's heartbeat: group epoch, target assignment, the member's next step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kompat.groups.machine.assignors import ASSIGNORS, GroupSpec, MemberSpec
from kompat.groups.machine.consumer import ConsumerGroup, count, preferred
from kompat.groups.machine.consumer_member import ConsumerMember, Owned, Reconciliation
from kompat.groups.machine.expressions import ExpressionResolver
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import (
    Assignment,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
    MemberState,
)


@dataclass(slots=True)
class MemberUpdate:
    """One member of one group, before and after the request."""

    group: ConsumerGroup
    member: ConsumerMember  # the current one, or a new one for a new member
    updated: ConsumerMember
    owned: Owned | None
    may_see: Callable[[str], bool] | None = None
    resolved: Mapping[str, ConsumerGroupRegularExpressionValue] | None = None  # the group's expressions afterwards
    subscription_changed: bool = False

    @property
    def predecessor_id(self) -> str | None:
        """The id under which the group still has this static member."""
        known = self.group.static_members.get(self.updated.instance_id or "")
        return known if known != self.updated.member_id else None

    @property
    def is_newcomer(self) -> bool:
        return self.member.member_id not in self.group.members and self.predecessor_id is None


class ConsumerUpdate:
    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._expressions = ExpressionResolver(state)

    def follow_subscription(self, update: MemberUpdate, turn: Turn) -> int:
        """Write the member's metadata and a new group epoch, if they have changed; returns the group epoch."""
        group, member, updated = update.group, update.member, update.updated
        if update.is_newcomer or (updated is not member and updated.metadata != member.metadata):
            turn.records.append(updated.metadata_record(group.group_id))
        expressions = self._expressions.update(group, member, updated, update.may_see, turn)
        update.resolved = expressions.resolved
        update.subscription_changed = updated.topics != member.topics or expressions.has_changed
        if not update.subscription_changed and not group.wants_refresh:
            return group.epoch
        metadata_hash = self._state.hashes.of(_topics_after(update), self._state.topics)
        epoch = group.epoch
        if update.subscription_changed or metadata_hash != group.metadata_hash:
            epoch += 1
            turn.records.append(epoch_record(group.group_id, epoch, metadata_hash))
        if group.has_partition_metadata:
            turn.records.append(ConsumerGroupPartitionMetadata(group_id=group.group_id, value=None))
        return epoch

    # --- target

    def follow_target(self, update: MemberUpdate, epoch: int, turn: Turn) -> tuple[int, Assignment]:
        """Compute a new target assignment if the group epoch requires one and it is time; the member's target and its epoch."""
        group, updated = update.group, update.updated
        if group.target_epoch >= epoch or not self._is_time(group, turn):
            return group.target_epoch, group.target_of(updated.member_id, updated.instance_id)
        target = ASSIGNORS[self._assignor_of(update)](self._spec(update))
        for member_id, assignment in target.items():
            if group.target.get(member_id) != assignment:
                turn.records.append(target_record(group.group_id, member_id, assignment))
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=turn.now)
        turn.records.append(ConsumerGroupTargetAssignmentMetadata(group_id=group.group_id, value=value))
        return epoch, target[updated.member_id]

    def _is_time(self, group: ConsumerGroup, turn: Turn) -> bool:
        """Members that join in quick succession share an assignment. A time in the future is from before the clock was set back."""
        interval = self._state.settings.consumer_of(group.group_id).assignment_interval_ms
        last = group.target_timestamp
        return not last or not last <= turn.now < last + interval

    def _assignor_of(self, update: MemberUpdate) -> str:
        counts = dict(update.group.assignors)
        count(counts, update.member.assignor, -1)
        count(counts, update.updated.assignor, 1)
        known = self._state.settings.assignors
        return preferred({name: votes for name, votes in counts.items() if name in known}, known[0])

    def _spec(self, update: MemberUpdate) -> GroupSpec:
        group, updated = update.group, update.updated
        members = dict(group.members)
        if update.predecessor_id is not None:
            del members[update.predecessor_id]
        members[updated.member_id] = updated
        topic_ids: dict[tuple[frozenset[str], str | None], frozenset[UUID]] = {}  # members share subscriptions
        specs = {}
        for member_id, member in members.items():
            key = (member.topics, member.regex)
            if key not in topic_ids:
                topic_ids[key] = self._topic_ids(member, update.resolved or {})
            assigned = group.target_of(member_id, member.instance_id)
            specs[member_id] = MemberSpec(member.instance_id, topic_ids[key], assigned)
        partitions = {
            topic_id: topic.partitions
            for ids in topic_ids.values()
            for topic_id in ids
            if (topic := self._state.topics.find_by_id(topic_id)) is not None
        }
        return GroupSpec(specs, partitions)

    def _topic_ids(
        self, member: ConsumerMember, resolved: Mapping[str, ConsumerGroupRegularExpressionValue]
    ) -> frozenset[UUID]:
        names = member.topics
        if member.regex and member.regex in resolved:
            names = names | frozenset(resolved[member.regex].topics)
        found = (self._state.topics.find(name) for name in names)
        return frozenset(topic.topic_id for topic in found if topic is not None)

    # --- the member's next step

    def reconcile(self, update: MemberUpdate, target_epoch: int, target: Assignment, turn: Turn) -> ConsumerMember:
        group, member = update.group, update.updated
        if not update.subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        mine = (None, member.member_id, update.predecessor_id)
        reconciliation = Reconciliation(
            target_epoch=target_epoch,
            target=target,
            topic_ids=self._topic_ids(member, update.resolved or {}),
            owned=update.owned,
            is_taken=lambda topic_id, number: group.holder(topic_id, number) not in mine,
            subscription_changed=update.subscription_changed,
        )
        stepped = reconciliation.step(member)
        if stepped != member:
            turn.records.append(stepped.current_record(group.group_id))
            self._limit_revocation(group, stepped, turn)
        return stepped

    def _limit_revocation(self, group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
        key = TimerKey(TimerKind.REBALANCE, group.group_id, member.member_id)
        if member.classic is not None:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._state.schedule(key, turn, member.rebalance_timeout_ms, member.epoch)
        else:
            self._state.timers.cancel(key)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupMetadata:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadata(group_id=group_id, value=value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> ConsumerGroupTargetAssignmentMember:
    return ConsumerGroupTargetAssignmentMember(group_id=group_id, member_id=member_id, value=assignment)


def _topics_after(update: MemberUpdate) -> set[str]:
    """The names of all topics that the group will be subscribed to."""
    group = update.group
    resolved = update.resolved or {}
    if not update.subscription_changed:
        return set(group.subscriptions.topics)
    after = group.subscriptions.copy()
    after.change(update.updated.topics, by_name=1)
    if not update.is_newcomer:
        after.change(update.member.topics, by_name=-1)
    for regex, value in group.resolved.items():
        if resolved.get(regex) is not value:
            after.change(value.topics, by_regex=-1)
    for regex, value in resolved.items():
        if group.resolved.get(regex) is not value:
            after.change(value.topics, by_regex=1)
    return set(after.topics)
