"""The operations on share groups, as commands to the group machine."""

from collections.abc import Collection, Iterable
from uuid import UUID

from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.group_machine import Decided, GroupMachine
from kompat.groups.machine.messages import Outcome
from kompat.groups.records import Assignment
from kompat.share.groups.machine import assignor
from kompat.share.groups.machine.group import ShareGroup, ShareMember
from kompat.share.groups.machine.heartbeat import ShareProtocol
from kompat.share.groups.machine.messages import (
    DescribedShareGroup,
    DescribedShareMember,
    ShareHeartbeatReply,
    ShareHeartbeatRequest,
    ShareOffsetsDeletion,
)
from kompat.types import Millis


class ShareGroups:
    def __init__(self, machine: GroupMachine) -> None:
        self._machine = machine
        self._share = machine.kind(ShareProtocol)

    def prepare(self, request: ShareHeartbeatRequest, now: Millis) -> Decided[Assignment]:
        """Partitions whose states must be initialized before this heartbeat, so that it can assign them at once."""
        turn = self._machine.begin(now)
        return turn.decide(self._share.prepare(request, turn))

    def heartbeat(self, request: ShareHeartbeatRequest, now: Millis) -> Decided[ShareHeartbeatReply]:
        turn = self._machine.begin(now)
        return turn.decide(self._share.heartbeat(request, turn))

    def states_made(self, group_id: str, partitions: Assignment, *, ok: bool, now: Millis) -> Decided[None]:
        """Initialization of these partitions has ended, or failed."""
        turn = self._machine.begin(now)
        group = self._share.find(group_id)
        if group is not None:
            (self._share.states.made if ok else self._share.states.failed)(group, partitions, turn)
        return turn.decide(None)

    def begin_offsets(self, group_id: str, partitions: Assignment, now: Millis) -> Decided[None]:
        """The states of these partitions are about to be reset. The group is created if it does not exist."""
        turn = self._machine.begin(now)
        group = self._share.group_to_join(group_id)
        _check_empty(group)
        self._share.states.begin(group, partitions, turn)
        return turn.decide(None)

    def begin_offsets_deletion(
        self, group_id: str, topics: Iterable[str], now: Millis
    ) -> Decided[ShareOffsetsDeletion]:
        turn = self._machine.begin(now)
        group = self._share.group(group_id)
        _check_empty(group)
        return turn.decide(self._share.states.delete(group, topics, turn))

    def end_offsets_deletion(self, group_id: str, topic_ids: Collection[UUID], now: Millis) -> Decided[None]:
        turn = self._machine.begin(now)
        group = self._share.find(group_id)
        if group is not None:
            self._share.states.deleted(group, topic_ids, turn)
        return turn.decide(None)

    def begin_deletion(self, group_ids: Iterable[str], now: Millis) -> Decided[tuple[tuple[str, Assignment], ...]]:
        """The states that have to be deleted before these groups; groups of other types are left out."""
        turn = self._machine.begin(now)
        groups = (self._share.find(group_id) for group_id in dict.fromkeys(group_ids))
        found = [group for group in groups if group is not None and group.is_empty]
        return turn.decide(tuple((group.group_id, self._share.states.delete_all(group, turn)) for group in found))

    def partitions(self, group_id: str) -> Decided[Assignment]:
        """The partitions that a share group has a state for."""
        group = self._share.find(group_id)
        return Decision([], Outcome({} if group is None else group.initialized))

    def describe(self, group_ids: Iterable[str]) -> Decided[tuple[DescribedShareGroup, ...]]:
        return Decision([], Outcome(tuple(self._described(group_id) for group_id in group_ids)))

    def _described(self, group_id: str) -> DescribedShareGroup:
        group = self._share.find(group_id)
        if group is None:
            reason = "is not a share group" if self._share.exists(group_id) else "not found"
            return DescribedShareGroup(
                group_id=group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {reason}."
            )
        return DescribedShareGroup(
            group_id=group_id,
            state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor=assignor.NAME,
            members=tuple(self._member(member) for member in group.members.values()),
        )

    def _member(self, member: ShareMember) -> DescribedShareMember:
        return DescribedShareMember(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.topics)),
            assignment=self._share.named(member.assigned),
        )


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
