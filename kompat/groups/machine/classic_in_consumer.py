"""Members of a consumer group that still use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

While a group is rolled from one protocol to the other it has members of both. For a classic member its epoch is a
generation, and every step of its reconciliation is a rebalance of its own, which does not affect the others.
"""

from collections.abc import Sequence
from dataclasses import replace

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import MigrationPolicy
from kompat.groups.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_subscription
from kompat.groups.machine.classic_protocol import MEMBER_ID_REQUIRED_SINCE
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_heartbeat import ConsumerProtocol
from kompat.groups.machine.consumer_member import ConsumerMember, Owned
from kompat.groups.machine.consumer_update import MemberUpdate
from kompat.groups.machine.messages import (
    UNKNOWN_MEMBER_ID,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
    Token,
)
from kompat.groups.machine.migration import Migration, successor, version_of
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import ClassicMemberMetadata, MemberState
from kompat.protocol.primitives import MalformedBytesError


class ClassicInConsumer:
    def __init__(self, state: GroupState, consumer: ConsumerProtocol, migration: Migration) -> None:
        self._state = state
        self._consumer = consumer
        self._migration = migration

    # --- join

    def join(self, group: ConsumerGroup, request: JoinRequest, token: Token, turn: Turn) -> None:
        member_id = request.member_id or request.fresh_id
        subscription = self._check_join(group, request, member_id)
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        if is_unknown and request.group_instance_id is None and request.api_version >= MEMBER_ID_REQUIRED_SINCE:
            turn.complete(token, JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
            return
        known = group.static_member(request.group_instance_id)
        if known is not None and not is_unknown:
            self._consumer.known_static(group, member_id, known.instance_id or "")
        if known is not None and known.classic is None and self._migration.can_downgrade(group, (known,), joining=1):
            self._downgrade(group, known, request, subscription, token, turn)
            return
        member = self._member(group, request, member_id, turn)
        update = MemberUpdate(group, member, _updated(member, request, subscription), self._owned(subscription))
        epoch = self._consumer.update.follow_subscription(update, turn)
        stepped = self._consumer.update.reconcile(
            update, *self._consumer.update.follow_target(update, epoch, turn), turn
        )
        group.wants_refresh = False
        self._state.cancel(group.group_id, member_id, TimerKind.REJOIN)
        self._hear_of(group, stepped, turn)
        key = TimerKey(TimerKind.SYNC, group.group_id, member_id)
        self._state.schedule(key, turn, request.rebalance_timeout_ms)
        turn.complete(token, _reply(stepped))

    def _check_join(self, group: ConsumerGroup, request: JoinRequest, member_id: str) -> Subscription:
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self._state.settings.migration_policy is MigrationPolicy.DISABLED:
            message = (
                "Cannot join the consumer group with the classic protocol because the group migration is disabled."
            )
            raise KafkaError(inconsistent, message)
        self._consumer.check_room(group, member_id)
        if not request.protocols or not group.supports_classic(
            request.protocol_type, (name for name, _ in request.protocols)
        ):
            raise KafkaError(inconsistent, f"Member {member_id}'s protocols are not supported.")
        try:
            return parse_subscription(request.protocols[0][1])
        except MalformedBytesError as error:
            raise KafkaError(inconsistent, f"Member {member_id}'s subscription is malformed.") from error

    def _member(self, group: ConsumerGroup, request: JoinRequest, member_id: str, turn: Turn) -> ConsumerMember:
        if request.group_instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        if request.member_id != UNKNOWN_MEMBER_ID:
            return self._consumer.known_static(group, member_id, request.group_instance_id)
        known = group.static_member(request.group_instance_id)
        return (
            ConsumerMember(member_id=member_id)
            if known is None
            else self._consumer.replace(group, known, member_id, turn)
        )

    def _owned(self, subscription: Subscription) -> Owned:
        owned = {}
        for name, partitions in subscription.owned_partitions.items():
            topic = self._state.topics.find(name)
            if topic is not None:
                owned[topic.topic_id] = partitions
        return owned

    def _downgrade(
        self,
        group: ConsumerGroup,
        known: ConsumerMember,
        request: JoinRequest,
        subscription: Subscription,
        token: Token,
        turn: Turn,
    ) -> None:
        """The last member with the consumer protocol has rejoined with the classic one."""
        member = successor(known, request.member_id or request.fresh_id)
        updated = _updated(member, request, subscription)
        update = MemberUpdate(group, member, updated, self._owned(subscription))
        epoch = self._consumer.update.follow_subscription(update, Turn(turn.now))  # would it be the same group?
        staying = [each for each in group.members.values() if each.member_id != known.member_id]
        classic = self._migration.downgrade(group, [*staying, updated], known.member_id, turn)
        if group.target_epoch < epoch:
            self._migration.prepare_rebalance(classic, turn)
        turn.complete(token, _reply(replace(updated, epoch=classic.generation_id)))

    # --- sync, heartbeat, leave

    def sync(self, group: ConsumerGroup, request: SyncRequest, token: Token, turn: Turn) -> None:
        member, classic = self._classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        name = classic.supported_protocols[0][0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_rejoin(group, member, turn)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._state.cancel(group.group_id, member.member_id, TimerKind.SYNC)
        self._hear_of(group, member, turn)
        assigned = {topic_id: frozenset(part) for topic_id, part in member.assigned.items()}
        assignment = self._migration.encode(assigned, version_of(classic.supported_protocols[0][1]))
        reply = SyncReply(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )
        turn.complete(token, reply)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, turn: Turn) -> ErrorCode:
        member, _ = self._classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._hear_of(group, member, turn)
        is_due = member.state is MemberState.UNREVOKED_PARTITIONS or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not self._still_waits(group, member)
        )
        if member.epoch >= group.target_epoch and not is_due:
            return ErrorCode.NONE
        self._expect_rejoin(group, member, turn)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember], turn: Turn) -> tuple[LeftMember, ...]:
        gone: dict[str, ConsumerMember] = {}
        left = []
        for each in leaving:
            error = ErrorCode.NONE
            try:
                member = self._leaving_member(group, each)
                gone[member.member_id] = member
            except KafkaError as refusal:
                error = refusal.code
            left.append(LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error=error))
        self._consumer.fence(group, gone.values(), turn)
        return tuple(left)

    def _leaving_member(self, group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
        if leaving.group_instance_id is None:
            return group.member(leaving.member_id)
        known = group.static_member(leaving.group_instance_id)
        if leaving.member_id == UNKNOWN_MEMBER_ID and known is not None:  # an administrator removes an instance
            return known
        return self._consumer.known_static(group, leaving.member_id, leaving.group_instance_id)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerMember, ClassicMemberMetadata]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = self._consumer.known_static(group, member_id, instance_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if member.epoch != generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member, member.classic

    def _still_waits(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of its target."""
        for topic_id, partitions in group.target_of(member.member_id).items():
            mine = member.assigned.get(topic_id, {})
            if any(number not in mine and group.holder(topic_id, number) is not None for number in partitions):
                return True
        return False

    def _hear_of(self, group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
        if member.classic is not None:
            key = TimerKey(TimerKind.SESSION, group.group_id, member.member_id)
            self._state.schedule(key, turn, member.classic.session_timeout_ms)

    def _expect_rejoin(self, group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
        key = TimerKey(TimerKind.REJOIN, group.group_id, member.member_id)
        if key not in self._state.timers:
            self._state.schedule(key, turn, member.rebalance_timeout_ms)


def _updated(member: ConsumerMember, request: JoinRequest, subscription: Subscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=request.client.client_id,
        client_host=request.client.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms, supported_protocols=request.protocols
        ),
    )


def _reply(member: ConsumerMember) -> JoinReply:
    """No member is the leader: the broker assigns."""
    return JoinReply(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.supported_protocols[0][0] if member.classic else None,
    )
