"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a classic group."""

from collections.abc import Sequence

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.classic import ClassicGroup, ClassicMember, ClassicState
from kompat.groups.machine.classic_rebalance import ClassicRebalance
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
from kompat.groups.machine.state import GroupState, Turn

MEMBER_ID_REQUIRED_SINCE = 4  # versions of JoinGroup
SKIP_ASSIGNMENT_SINCE = 9


class ClassicProtocol:
    def __init__(self, state: GroupState, rebalance: ClassicRebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    # --- join

    def join(self, group: ClassicGroup, request: JoinRequest, token: Token, turn: Turn) -> None:
        if not self._has_room(group, request.member_id):
            self._rebalance.forget(group, request.member_id)
            turn.complete(token, JoinReply(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=UNKNOWN_MEMBER_ID))
        elif not group.supports(request.protocol_type, (name for name, _ in request.protocols)):
            refusal = JoinReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id)
            turn.complete(token, refusal)
        elif request.member_id == UNKNOWN_MEMBER_ID:
            self._join_unknown(group, request, token, turn)
        elif request.member_id in group.pending_members:
            self._add(group, request, request.member_id, token, turn)
        else:
            self._rejoin(group, request, token, turn)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._state.settings.max_size
        member = group.members.get(member_id)
        if group.is_empty:
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            return (member is not None and member.join_token is not None) or group.joined < limit
        return member is not None or len(group.members) < limit

    def _join_unknown(self, group: ClassicGroup, request: JoinRequest, token: Token, turn: Turn) -> None:
        member_id = f"{request.group_instance_id or request.client.client_id}-{request.fresh_id}"
        if request.group_instance_id is not None:
            known = group.static_members.get(request.group_instance_id)
            if known is None:
                self._add(group, request, member_id, token, turn)
            else:
                self._replace_static(group, request, (known, member_id), token, turn)
        elif request.api_version >= MEMBER_ID_REQUIRED_SINCE:
            # A client that times out and retries would leave a member behind each time; so it has to get its id first.
            self._rebalance.await_pending(group, member_id, request.session_timeout_ms, turn)
            turn.complete(token, JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        else:
            self._add(group, request, member_id, token, turn)

    def _add(self, group: ClassicGroup, request: JoinRequest, member_id: str, token: Token, turn: Turn) -> None:
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=request.client.client_id,
            client_host=request.client.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.member_was_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member, token)
        self._rebalance.hear_of(group, member, turn, self._state.settings.new_member_join_timeout_ms)
        self._rebalance.prepare_or_complete(group, turn)

    def _rejoin(self, group: ClassicGroup, request: JoinRequest, token: Token, turn: Turn) -> None:
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            turn.complete(token, JoinReply(error=error.code, member_id=request.member_id))
            return
        is_leader = group.leader_id == member.member_id
        matches = member.protocols == request.protocols
        if group.state is ClassicState.COMPLETING_REBALANCE and matches:
            # It has not received its response: repeat it.
            turn.complete(token, group.join_reply(member.member_id, with_members=is_leader))
        elif group.state is ClassicState.STABLE and matches and not is_leader:
            # Only the leader may cause a rebalance without new metadata, as when topics have changed.
            turn.complete(token, group.join_reply(member.member_id))
        else:
            self._update(group, member, request, token, turn)
            self._rebalance.prepare_or_complete(group, turn)

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: JoinRequest, token: Token, turn: Turn
    ) -> None:
        superseded = group.take_join_token(member)
        turn.complete(superseded, JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, token)

    def _replace_static(
        self, group: ClassicGroup, request: JoinRequest, ids: tuple[str, str], token: Token, turn: Turn
    ) -> None:
        """An instance rejoins under a new member id: the old one is fenced."""
        old_id, new_id = ids
        leader = group.leader_id or ""
        old = group.members[old_id]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        turn.complete(group.take_join_token(old), JoinReply(error=fenced, member_id=old_id))
        turn.complete(old.sync_token, SyncReply(error=fenced))
        self._rebalance.forget_session(group, old_id)
        member = group.replace_static(old_id, new_id)
        self._rebalance.hear_of(group, member, turn)
        self._update(group, member, request, token, turn)
        if group.state is not ClassicState.STABLE or group.select_protocol() != group.protocol_name:
            self._rebalance.prepare_or_complete(group, turn)
            return
        # The input of the assignment has not changed: no rebalance is needed.
        turn.records.append(group.record({each.member_id: each.assignment for each in group.members.values()}))
        group.take_join_token(member)
        turn.complete(token, self._unchanged_reply(group, request, new_id, leader))

    def _unchanged_reply(self, group: ClassicGroup, request: JoinRequest, member_id: str, old_leader: str) -> JoinReply:
        is_leader = group.leader_id == member_id
        if request.api_version >= SKIP_ASSIGNMENT_SINCE:
            return group.join_reply(member_id, with_members=is_leader, skip_assignment=is_leader)
        # Older clients would compute a new assignment if they were the leader: they get the id of the old leader.
        reply = group.join_reply(member_id)
        return JoinReply(
            member_id=member_id,
            generation_id=reply.generation_id,
            protocol_type=reply.protocol_type,
            protocol_name=reply.protocol_name,
            leader=old_leader,
        )

    # --- sync

    def sync(self, group: ClassicGroup, request: SyncRequest, token: Token, turn: Turn) -> None:
        member = self._check_sync(group, request)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.has_synced(group, member.member_id)
        if group.state is ClassicState.STABLE:
            reply = SyncReply(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            turn.complete(token, reply)
            return
        turn.complete(
            member.sync_token, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
        )  # the client repeated its request
        member.sync_token = token
        if group.leader_id == member.member_id:
            self._rebalance.assign(group, request.assignments, turn)

    def _check_sync(self, group: ClassicGroup, request: SyncRequest) -> ClassicMember:
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return member

    # --- heartbeat

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, turn: Turn) -> ErrorCode:
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalance.hear_of(group, member, turn)
        is_preparing = group.state is ClassicState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    # --- leave

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember], turn: Turn) -> tuple[LeftMember, ...]:
        left = tuple(
            LeftMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error=self._leave(group, each, turn)
            )
            for each in leaving
        )
        if any(each.error is ErrorCode.NONE for each in left):
            if group.state is ClassicState.PREPARING_REBALANCE:
                self._rebalance.maybe_complete_join(group, turn)
            elif not group.is_empty:
                self._rebalance.prepare(group, turn)
        return left

    def _leave(self, group: ClassicGroup, leaving: LeavingMember, turn: Turn) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER_ID:  # an administrator removes an instance
            known = group.static_members.get(leaving.group_instance_id or "")
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._rebalance.drop(group, group.members[known], turn)
        elif member_id in group.pending_members:
            self._rebalance.forget(group, member_id)
        else:
            try:
                member = group.check_member(member_id, leaving.group_instance_id)
            except KafkaError as error:
                return error.code
            self._rebalance.drop(group, member, turn)
        return ErrorCode.NONE
