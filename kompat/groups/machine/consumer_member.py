"""A member of a consumer group (KIP-848), and its reconciliation from the current to the target assignment.

A member gets its partitions in steps, each acknowledged by the next heartbeat: it revokes partitions that are not in its
target (UNREVOKED_PARTITIONS), and only then moves to the target's epoch and takes partitions that are free. While other
members have not revoked the rest, it works with what it has (UNRELEASED_PARTITIONS); then it is STABLE.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import LEAVE_STATIC_EPOCH
from kompat.groups.records import (
    Assignment,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    EpochsByPartition,
    MemberState,
)

Owned: TypeAlias = Mapping[UUID, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    member_id: str
    # from its metadata record
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  # it speaks the classic protocol
    # from its current assignment record
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: EpochsByPartition = field(default_factory=dict)
    pending_revocation: EpochsByPartition = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def has_metadata_of(self, other: "ConsumerMember") -> bool:
        """Whether the other differs from this only by a new assignment. Cheap, and never wrongly True."""
        return (
            self.topics is other.topics
            and self.classic is other.classic
            and self.regex == other.regex
            and self.assignor == other.assignor
            and self.instance_id == other.instance_id
        )

    @property
    def metadata(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            # Records of brokers that did not know such members are read as those of a member without protocols.
            classic=classic if classic is not None and classic.supported_protocols else None,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=value.assigned_partitions,
            pending_revocation=value.partitions_pending_revocation,
        )

    def metadata_record(self, group_id: str) -> ConsumerGroupMemberMetadata:
        return ConsumerGroupMemberMetadata(group_id=group_id, member_id=self.member_id, value=self.metadata)

    def current_record(self, group_id: str) -> ConsumerGroupCurrentMemberAssignment:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self.assigned,
            partitions_pending_revocation=self.pending_revocation,
        )
        return ConsumerGroupCurrentMemberAssignment(group_id=group_id, member_id=self.member_id, value=value)

    def gone_for_now(self) -> "ConsumerMember":
        """A static member that will rejoin: it keeps its partitions, and may commit under any epoch until then."""
        epochs = {topic_id: dict.fromkeys(part, 0) for topic_id, part in self.assigned.items()}
        return replace(self, epoch=LEAVE_STATIC_EPOCH, assigned=epochs, pending_revocation={})

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which the member has the partition, if it does."""
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The input of a member's reconciliation."""

    target_epoch: int
    target: Assignment
    topic_ids: frozenset[UUID]  # of the topics that the member is subscribed to
    owned: Owned | None  # the partitions that the member reports to own; None if it reports none
    is_taken: Callable[[UUID, int], bool]  # whether another member has the partition
    subscription_changed: bool

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member's next assignment; the member itself if nothing changes."""
        if member.state is MemberState.STABLE:
            if member.epoch != self.target_epoch:
                return self._advance(member)
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if not self._owns_any(member.pending_revocation):
                return self._advance(member)
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNKNOWN and (self.owned is None or any(self.owned.values())):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member is in a state that this broker does not know: it has to give up its partitions and rejoin.",
            )
        return self._advance(member)

    def _owns_any(self, partitions: EpochsByPartition) -> bool:
        if self.owned is None:
            return True  # it may keep them until it reports its partitions
        return any(number in part for topic_id, part in partitions.items() for number in self.owned.get(topic_id, ()))

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke at once partitions of topics that the member unsubscribed from; the rest comes with the next target."""
        dropped = {topic_id: part for topic_id, part in member.assigned.items() if topic_id not in self.topic_ids}
        if not dropped:
            return member
        kept = {topic_id: part for topic_id, part in member.assigned.items() if topic_id in self.topic_ids}
        pending = {topic_id: dict(part) for topic_id, part in member.pending_revocation.items()}
        for topic_id, part in dropped.items():
            pending.setdefault(topic_id, {}).update(part)
        if self._owns_any(pending):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=kept,
                pending_revocation=pending,
            )
        return replace(member, previous_epoch=member.epoch, assigned=kept)

    def _advance(self, member: ConsumerMember) -> ConsumerMember:
        kept: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        for topic_id, part in member.assigned.items():
            wanted = self._wanted(topic_id)
            for number, epoch in part.items():
                (kept if number in wanted else revoked).setdefault(topic_id, {})[number] = epoch
        if revoked and self._owns_any(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        waits = self._take_free(member, kept)
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            previous_epoch=member.epoch,
            epoch=self.target_epoch,
            assigned=kept,
            pending_revocation={},
        )

    def _wanted(self, topic_id: UUID) -> frozenset[int]:
        return self.target.get(topic_id, frozenset()) if topic_id in self.topic_ids else frozenset()

    def _take_free(self, member: ConsumerMember, held: dict[UUID, dict[int, int]]) -> bool:
        """Add the partitions of the target that no other member has; returns whether others are still taken."""
        waits = False
        for topic_id in self.target:
            mine = held.get(topic_id, {})
            own_revoked = member.pending_revocation.get(topic_id, {})
            for number in sorted(self._wanted(topic_id)):
                if number in mine:
                    continue
                if number not in own_revoked and self.is_taken(topic_id, number):
                    waits = True
                else:
                    held.setdefault(topic_id, {})[number] = self.target_epoch
        return waits
