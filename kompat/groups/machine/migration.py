"""Changes the protocol of a group that has members: classic → consumer and back.

In both directions the group's records are replaced in one batch, its members keep their partitions, and the epoch continues
from the generation, or the other way round.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    TopicsAssignment,
    encode_assignment,
    parse_assignment,
    parse_subscription,
    parse_version,
)
from kompat.groups.machine.classic import ClassicGroup, ClassicMember, ClassicState
from kompat.groups.machine.classic_rebalance import ClassicRebalance
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_member import ConsumerMember
from kompat.groups.machine.consumer_update import epoch_record, target_record
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import (
    Assignment,
    ClassicMemberMetadata,
    ConsumerGroupRecord,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadata,
)
from kompat.protocol.primitives import MalformedBytesError

CONSUMER_TIMERS = (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.REJOIN, TimerKind.SYNC)


class Migration:
    def __init__(self, state: GroupState, rebalance: ClassicRebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    # --- classic → consumer

    def upgrade(self, group: ClassicGroup, turn: Turn) -> ConsumerGroup:
        """The group as a consumer group, and the records that make it one."""
        self._check_upgrade(group)
        try:
            records = self._consumer_records(group)
        except MalformedBytesError as error:
            raise _not_found(f"Cannot upgrade classic group {group.group_id}: {error}.") from error
        self.void(group, turn)
        turn.records += records
        upgraded = ConsumerGroup(group.group_id)
        for record in records:
            upgraded.apply(record)
        turn.afterwards(lambda: self._watch_sessions(group, turn))
        return upgraded

    def void(self, group: ClassicGroup, turn: Turn) -> None:
        """The classic group ends here; members that wait have to retry and then find the consumer group."""
        turn.records.append(GroupMetadata(group_id=group.group_id, value=None))
        turn.afterwards(lambda: self._rebalance.cancel_timers(group))
        turn.afterwards(lambda: self._rebalance.refuse_all(group, ErrorCode.REBALANCE_IN_PROGRESS, turn))

    def _watch_sessions(self, group: ClassicGroup, turn: Turn) -> None:
        for member in group.members.values():
            key = TimerKey(TimerKind.SESSION, group.group_id, member.member_id)
            if key not in self._state.timers:
                self._state.schedule(key, turn, member.session_timeout_ms)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        settings = self._state.settings
        reason = ""
        if not settings.migration_policy.allows_upgrade:
            reason = "online upgrade is disabled"
        elif not group.is_consumer:
            reason = "the group does not use the consumer embedded protocol"
        elif len(group.members) > settings.consumer_max_size:
            reason = "the group size exceeds the consumer group maximum size"
        if reason:
            raise _not_found(f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.")

    def _consumer_records(self, group: ClassicGroup) -> list[ConsumerGroupRecord]:
        generation = group.generation_id
        protocol = group.protocol_name or group.select_protocol()
        members = [self._upgraded(member, protocol, generation) for member in group.members.values()]
        topics = {name for member in members for name in member.topics}
        metadata_hash = self._state.hashes.of(topics, self._state.topics)
        group_id = group.group_id
        target_epoch = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=generation)
        return [
            *(member.metadata_record(group_id) for member in members),
            epoch_record(group_id, generation, metadata_hash),
            *(target_record(group_id, member.member_id, _without_epochs(member)) for member in members),
            ConsumerGroupTargetAssignmentMetadata(group_id=group_id, value=target_epoch),
            *(member.current_record(group_id) for member in members),
        ]

    def _upgraded(self, member: ClassicMember, protocol: str | None, generation: int) -> ConsumerMember:
        subscription = parse_subscription(member.metadata(protocol))
        assignment = parse_assignment(member.assignment) if member.assignment else None
        if assignment is not None and assignment.user_data:
            raise _not_found("Cannot upgrade the classic group: an unsupported custom assignor is in use.")
        return ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms, supported_protocols=member.protocols
            ),
            epoch=generation,
            previous_epoch=generation,
            assigned=self._assigned(assignment, generation),
        )

    def _assigned(self, assignment: TopicsAssignment | None, epoch: int) -> dict[UUID, dict[int, int]]:
        assigned: dict[UUID, dict[int, int]] = {}
        for name, partitions in assignment.partitions.items() if assignment else ():
            topic = self._state.topics.find(name)
            if topic is not None and partitions:
                assigned[topic.topic_id] = dict.fromkeys(sorted(partitions), epoch)
        return assigned

    # --- consumer → classic

    def can_downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember], joining: int = 0) -> bool:
        """Whether the remaining members should become a classic group."""
        left = len(group.members) - len(leaving) + joining
        return (
            group.only_classic_without(leaving)
            and left > 0
            and self._state.settings.migration_policy.allows_downgrade
            and left <= self._state.settings.max_size
        )

    def downgrade(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], replaced_id: str | None, turn: Turn
    ) -> ClassicGroup:
        """The group of these members as a classic group, and the records that make it one."""
        classic = ClassicGroup(group.group_id, state_timestamp=turn.now)
        classic.generation_id = group.epoch
        classic.protocol_type = PROTOCOL_TYPE
        for member in members:
            classic.add(_downgraded(member))
        classic.protocol_name = classic.select_protocol()
        classic.subscribed_topics = classic.compute_subscribed_topics()
        classic.state = ClassicState.STABLE
        for each in classic.members.values():
            known_as = each.member_id if each.member_id in group.members else replaced_id
            target = group.target_of(known_as or each.member_id)
            each.assignment = self.encode(target, version_of(each.metadata(classic.protocol_name)))
        turn.records += group.tombstones()
        turn.records.append(classic.record({each.member_id: each.assignment for each in classic.members.values()}))
        self._state.prepared[group.group_id] = classic
        for member_id in group.members:
            self._state.cancel(group.group_id, member_id, *CONSUMER_TIMERS)
        for each in classic.members.values():
            self._rebalance.hear_of(classic, each, turn)
        return classic

    def downgrade_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember], turn: Turn) -> None:
        gone = {member.member_id for member in leaving}
        staying = [member for member in group.members.values() if member.member_id not in gone]
        classic = self.downgrade(group, staying, None, turn)
        self._rebalance.prepare(classic, turn)

    def prepare_rebalance(self, group: ClassicGroup, turn: Turn) -> None:
        self._rebalance.prepare(group, turn)

    def encode(self, assignment: Assignment, version: int) -> bytes:
        """Partitions as classic members get them, by the names of topics."""
        named = {}
        for topic_id, partitions in assignment.items():
            topic = self._state.topics.find_by_id(topic_id)
            if topic is not None:
                named[topic.name] = partitions
        return encode_assignment(named, version)


def _downgraded(member: ConsumerMember) -> ClassicMember:
    classic = member.classic or ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=classic.supported_protocols,
    )


def version_of(metadata: bytes) -> int:
    """The version of the embedded protocol that a member supports; the oldest if it cannot be read."""
    try:
        return parse_version(metadata)
    except MalformedBytesError:
        return 0


def _without_epochs(member: ConsumerMember) -> Assignment:
    return {topic_id: frozenset(part) for topic_id, part in member.assigned.items()}


def successor(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member under its new id: it starts again with its previous assignment."""
    return replace(member, member_id=member_id, epoch=0, previous_epoch=0)


def _not_found(message: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
