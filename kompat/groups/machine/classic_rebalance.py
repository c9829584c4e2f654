"""The rebalance of a classic group, from one generation to the next: which members it waits for, and who gets a response."""

from collections.abc import Mapping

from kompat.errors import ErrorCode
from kompat.groups.machine.classic import REBALANCEABLE, ClassicGroup, ClassicMember, ClassicState
from kompat.groups.machine.messages import JoinReply, SyncReply, Token
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn


class ClassicRebalance:
    def __init__(self, state: GroupState) -> None:
        self._state = state

    # --- sessions

    def hear_of(self, group: ClassicGroup, member: ClassicMember, turn: Turn, timeout_ms: int | None = None) -> None:
        key = TimerKey(TimerKind.CLASSIC_SESSION, group.group_id, member.member_id)
        self._state.schedule(key, turn, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def await_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, turn: Turn) -> None:
        group.pending_members.add(member_id)
        self._state.schedule(TimerKey(TimerKind.CLASSIC_SESSION, group.group_id, member_id), turn, session_timeout_ms)

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self.forget_session(group, member_id)

    def forget_session(self, group: ClassicGroup, member_id: str) -> None:
        self._state.cancel(group.group_id, member_id, TimerKind.CLASSIC_SESSION)

    def cancel_timers(self, group: ClassicGroup) -> None:
        self._state.cancel(
            group.group_id, "", TimerKind.CLASSIC_JOIN, TimerKind.CLASSIC_INITIAL_JOIN, TimerKind.CLASSIC_SYNC
        )
        for member_id in (*group.members, *group.pending_members):
            self._state.cancel(group.group_id, member_id, TimerKind.CLASSIC_SESSION)

    def session_expired(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        if member_id in group.pending_members:
            group.remove(member_id)
            self._complete_if_all_joined(group, turn)
            return
        member = group.members.get(member_id)
        if member is not None and not member.is_heard_of:
            self.drop(group, member, turn)
            self.member_gone(group, turn)

    def drop(self, group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
        refusal = ErrorCode.UNKNOWN_MEMBER_ID
        turn.complete(group.take_join_token(member), JoinReply(error=refusal, member_id=""))
        turn.complete(_take_sync_token(member), SyncReply(error=refusal))
        self.forget(group, member.member_id)

    def member_gone(self, group: ClassicGroup, turn: Turn) -> None:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.prepare(group, turn)
        else:
            self._complete_if_all_joined(group, turn)

    def _complete_if_all_joined(self, group: ClassicGroup, turn: Turn) -> None:
        if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            self.complete_join(group, turn)

    # --- joining

    def prepare_or_complete(self, group: ClassicGroup, turn: Turn) -> None:
        if group.state in REBALANCEABLE:
            self.prepare(group, turn)
        else:
            self.maybe_complete_join(group, turn)

    def prepare(self, group: ClassicGroup, turn: Turn) -> None:
        """Make all members rejoin; they learn it from their heartbeats."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._refuse_syncs(group, turn)
        self._end_sync_phase(group)
        if group.is_empty:
            self._delay_initial_join(group, turn)
            group.move_to(ClassicState.PREPARING_REBALANCE, turn.now)
            return
        group.move_to(ClassicState.PREPARING_REBALANCE, turn.now)
        if group.has_all_joined:
            self.complete_join(group, turn)
        else:
            self._limit_join(group, turn)

    def _delay_initial_join(self, group: ClassicGroup, turn: Turn) -> None:
        group.member_was_added = False
        delay = self._state.settings.initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        self._state.schedule(TimerKey(TimerKind.CLASSIC_INITIAL_JOIN, group.group_id), turn, delay, remaining)

    def initial_delay_over(self, group: ClassicGroup, remaining_ms: int, turn: Turn) -> None:
        if not group.member_was_added or remaining_ms == 0:
            self.complete_join(group, turn)
            return
        group.member_was_added = False
        delay = min(self._state.settings.initial_rebalance_delay_ms, remaining_ms)
        key = TimerKey(TimerKind.CLASSIC_INITIAL_JOIN, group.group_id)
        self._state.schedule(key, turn, delay, max(remaining_ms - delay, 0))

    def _limit_join(self, group: ClassicGroup, turn: Turn) -> None:
        self._state.schedule(TimerKey(TimerKind.CLASSIC_JOIN, group.group_id), turn, group.rebalance_timeout_ms)

    def maybe_complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        # The initial rebalance always lasts for its whole delay, so that more members can join.
        if group.previous_state is not ClassicState.EMPTY:
            self._complete_if_all_joined(group, turn)

    def complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin the next generation with the members that joined; static members may be absent, dynamic ones are removed."""
        self._state.cancel(group.group_id, "", TimerKind.CLASSIC_JOIN, TimerKind.CLASSIC_INITIAL_JOIN)
        if group.joined != len(group.members):
            for member in [each for each in group.members.values() if each.join_token is None]:
                if member.instance_id is None:
                    self.forget(group, member.member_id)
        if not group.elect_leader() and group.members:
            self._limit_join(group, turn)
            return
        group.begin_generation(turn.now)
        if group.is_empty:
            turn.records.append(group.record({}))
            return
        for member in group.members.values():
            reply = group.join_reply(member.member_id, with_members=member.member_id == group.leader_id)
            turn.complete(group.take_join_token(member), reply)
            self.hear_of(group, member, turn)
            member.is_new = False
        group.pending_sync.update(group.members)
        self._state.schedule(TimerKey(TimerKind.CLASSIC_SYNC, group.group_id), turn, group.rebalance_timeout_ms)

    # --- syncing

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._state.cancel(group.group_id, "", TimerKind.CLASSIC_SYNC)

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes], turn: Turn) -> None:
        """The leader has sent the assignment: the generation is stable."""
        turn.records.append(group.record(assignments))
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            reply = SyncReply(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            self._answer_sync(group, member, reply, turn)
        group.move_to(ClassicState.STABLE, turn.now)

    def sync_expired(self, group: ClassicGroup, turn: Turn) -> None:
        for member_id in list(group.pending_sync):
            self.forget(group, member_id)
        self.prepare(group, turn)

    def _refuse_syncs(self, group: ClassicGroup, turn: Turn) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS), turn)

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, reply: SyncReply, turn: Turn) -> None:
        token = _take_sync_token(member)
        if token is not None:
            turn.complete(token, reply)
            self.hear_of(group, member, turn)

    def _end_sync_phase(self, group: ClassicGroup) -> None:
        group.pending_sync.clear()
        self._state.cancel(group.group_id, "", TimerKind.CLASSIC_SYNC)

    # --- the end

    def refuse_all(self, group: ClassicGroup, error: ErrorCode, turn: Turn) -> None:
        """Fail the requests of all members that wait."""
        for member in group.members.values():
            turn.complete(group.take_join_token(member), JoinReply(error=error, member_id=member.member_id))
            turn.complete(_take_sync_token(member), SyncReply(error=error))


def _take_sync_token(member: ClassicMember) -> Token | None:
    token, member.sync_token = member.sync_token, None
    return token
