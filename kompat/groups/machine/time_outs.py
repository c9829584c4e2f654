"""Timeouts: sessions expire, rebalances continue without slow members, offsets expire."""

from collections.abc import Sequence
from typing import Any

from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.classic_rebalance import ClassicRebalance
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_heartbeat import ConsumerProtocol
from kompat.groups.machine.modern import GroupKind, ModernGroup
from kompat.groups.machine.offset_protocol import OffsetProtocol
from kompat.groups.machine.state import GroupState, TimerKey, TimerKind, Turn
from kompat.groups.records import GroupMetadata, MemberState

MAX_RECORDS_AT_ONCE = 1_000  # the rest follows in batches of its own


class TimeOuts:
    def __init__(
        self,
        state: GroupState,
        rebalance: ClassicRebalance,
        consumer: ConsumerProtocol,
        offsets: OffsetProtocol,
        kinds: Sequence[GroupKind],
    ) -> None:
        self._state = state
        self._rebalance = rebalance
        self._consumer = consumer
        self._offsets = offsets
        self._kinds = {kind.group_class: kind for kind in kinds}
        self._to_expire: list[str] = []  # groups whose offsets were not checked yet in this round

    def start(self, turn: Turn) -> None:
        """After loading, members get a full session timeout to send a heartbeat."""
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self._start_consumer(group, turn)
            elif isinstance(group, ModernGroup):
                timeout = self._kinds[type(group)].session_timeout_ms(group.group_id)
                for member_id in group.members:
                    self._state.schedule(TimerKey(TimerKind.SESSION, group.group_id, member_id), turn, timeout)
            else:
                for member in group.members.values():
                    self._rebalance.hear_of(group, member, turn)
                if len(group.members) > self._state.settings.max_size:
                    self._rebalance.prepare(group, turn)
        self._schedule_expiry(turn, self._state.settings.offsets_retention_check_interval_ms)

    def _start_consumer(self, group: ConsumerGroup, turn: Turn) -> None:
        timeout = self._state.settings.consumer_of(group.group_id).session_timeout_ms
        for member in group.members.values():
            self._state.schedule(TimerKey(TimerKind.SESSION, group.group_id, member.member_id), turn, timeout)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                key = TimerKey(TimerKind.REBALANCE, group.group_id, member.member_id)
                self._state.schedule(key, turn, member.rebalance_timeout_ms, member.epoch)

    def run_due(self, turn: Turn) -> None:
        """Do as much as possible: a group with pending records has to have them applied first."""
        written: set[str] = set()
        while len(turn.records) < MAX_RECORDS_AT_ONCE and (due := self._state.timers.pop_due(turn.now)) is not None:
            key, payload = due
            if key.kind is TimerKind.EXPIRE_OFFSETS and not written:
                self._expire_offsets(turn)
                return
            if key.kind is TimerKind.EXPIRE_OFFSETS or key.group_id in written:
                self._state.schedule(key, turn, 0, payload)
                return
            before = len(turn.records)
            self._run(key, payload, turn)
            if len(turn.records) > before:
                written.add(key.group_id)

    def _run(self, key: TimerKey, payload: int, turn: Turn) -> None:
        group = self._state.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            self._run_classic(group, key, payload, turn)
        elif isinstance(group, ConsumerGroup):
            self._run_consumer(group, key, payload, turn)
        elif group is not None and key.member_id in group.members:
            silent = (group.members[member_id] for member_id in self._silent(group, turn))
            self._kinds[type(group)].fence(group, (group.members[key.member_id], *silent), turn)

    def _run_classic(self, group: ClassicGroup, key: TimerKey, payload: int, turn: Turn) -> None:
        if key.kind is TimerKind.CLASSIC_SESSION:
            self._rebalance.session_expired(group, key.member_id, turn)
        elif key.kind is TimerKind.CLASSIC_JOIN:
            self._rebalance.complete_join(group, turn)
        elif key.kind is TimerKind.CLASSIC_INITIAL_JOIN:
            self._rebalance.initial_delay_over(group, payload, turn)
        elif key.kind is TimerKind.CLASSIC_SYNC:
            self._rebalance.sync_expired(group, turn)

    def _run_consumer(self, group: ConsumerGroup, key: TimerKey, payload: int, turn: Turn) -> None:
        member = group.members.get(key.member_id)
        if member is None or (key.kind is TimerKind.REBALANCE and member.epoch != payload):
            return  # it was removed, or its deadline has moved
        silent = self._silent(group, turn) if key.kind is TimerKind.SESSION else ()
        self._consumer.fence(group, (member, *(group.members[member_id] for member_id in silent)), turn)

    def _silent(self, group: ModernGroup[Any], turn: Turn) -> list[str]:
        """Members whose sessions have expired too: after a restart or a network failure these are many at once."""
        deadlines = (
            (member_id, self._state.timers.deadline(TimerKey(TimerKind.SESSION, group.group_id, member_id)))
            for member_id in group.members
        )
        return [member_id for member_id, deadline in deadlines if deadline is not None and deadline <= turn.now]

    # --- offsets

    def _schedule_expiry(self, turn: Turn, delay_ms: int) -> None:
        self._state.schedule(TimerKey(TimerKind.EXPIRE_OFFSETS), turn, delay_ms)

    def _expire_offsets(self, turn: Turn) -> None:
        if not self._to_expire:
            self._to_expire = list(self._state.groups)
        while self._to_expire and len(turn.records) < MAX_RECORDS_AT_ONCE:
            group = self._state.groups.get(self._to_expire.pop())
            if group is not None and self._offsets.expire(group.group_id, turn) and group.is_empty:
                self.delete(group, turn)
        interval = self._state.settings.offsets_retention_check_interval_ms
        self._schedule_expiry(turn, 0 if self._to_expire else interval)

    def delete(self, group: ClassicGroup | ModernGroup[Any], turn: Turn) -> None:
        """An empty group without offsets."""
        if isinstance(group, ClassicGroup):
            self._rebalance.cancel_timers(group)
            turn.records.append(GroupMetadata(group_id=group.group_id, value=None))
        else:
            turn.records += group.tombstones()
