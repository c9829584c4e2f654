"""All groups of one partition of `__consumer_offsets`.

How it is run: `apply` every record of the log; then commands, each with the time. The records of a command's decision are
applied before the next command, and its outcome (reply and completions) is given out when they are committed. When
leadership is lost, `resign` gives the last completions. If records could not be written, throw the machine away and build
another from the log: its soft state has run ahead, and the tokens that it kept or had given out then wait in vain.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias, TypeVar
from uuid import UUID

from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings
from kompat.groups.machine import describe
from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.classic_in_consumer import ClassicInConsumer
from kompat.groups.machine.classic_protocol import ClassicProtocol
from kompat.groups.machine.classic_rebalance import ClassicRebalance
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_heartbeat import ConsumerProtocol
from kompat.groups.machine.messages import (
    UNKNOWN_MEMBER_ID,
    CommitRequest,
    Completions,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    FetchedTopic,
    FetchRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    ListedGroup,
    Outcome,
    SyncReply,
    SyncRequest,
    Token,
    TopicErrors,
    TopicOffsets,
)
from kompat.groups.machine.migration import Migration
from kompat.groups.machine.offset_protocol import OffsetProtocol
from kompat.groups.machine.offsets import Offsets
from kompat.groups.machine.replay import Replay
from kompat.groups.machine.share import ShareGroup
from kompat.groups.machine.share_heartbeat import ShareProtocol
from kompat.groups.machine.share_messages import (
    DescribedShareGroup,
    ShareHeartbeatReply,
    ShareHeartbeatRequest,
    ShareOffsetsDeletion,
)
from kompat.groups.machine.state import GroupState, Turn
from kompat.groups.machine.time_outs import TimeOuts
from kompat.groups.machine.topics import Topics
from kompat.groups.records import Assignment, EndTransaction, GroupRecord
from kompat.types import Millis, ProducerEpoch, ProducerId

T = TypeVar("T")
Decided: TypeAlias = Decision[GroupRecord, Outcome[T]]


class GroupMachine:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self._state = GroupState(settings or GroupSettings())
        self._stored_offsets = Offsets()
        self._replay = Replay(self._state, self._stored_offsets)
        self._rebalance = ClassicRebalance(self._state)
        migration = Migration(self._state, self._rebalance)
        self._classic = ClassicProtocol(self._state, self._rebalance)
        self._consumer = ConsumerProtocol(self._state, migration)
        self._mixed = ClassicInConsumer(self._state, self._consumer, migration)
        self._share = ShareProtocol(self._state)
        self._offsets = OffsetProtocol(self._state, self._stored_offsets, self._rebalance)
        self._time_outs = TimeOuts(self._state, self._rebalance, self._consumer, self._share, self._offsets)

    # --- its life

    def apply(self, record: GroupRecord) -> None:
        self._replay.apply(record)

    @property
    def settings(self) -> GroupSettings:
        return self._state.settings

    @settings.setter
    def settings(self, settings: GroupSettings) -> None:
        self._state.settings = settings

    def topics_changed(self, topics: Topics, changed: Iterable[str] = ()) -> None:
        """Look at the topics through this view from now on; these were created, grew or were deleted."""
        state, names = self._state, list(changed)
        state.topics = topics
        state.hashes.forget(names)
        for group_id in state.followers.of(names):
            group = state.groups.get(group_id)
            if isinstance(group, ConsumerGroup | ShareGroup):
                group.wants_refresh = True

    def _begin(self, now: Millis) -> Turn:
        """The first command after the log was replayed makes this the leader's machine: time begins to run for members."""
        turn = Turn(now)
        if not self._state.is_live:
            self._state.is_live = True
            self._time_outs.start(turn)
        return turn

    def resign(self, now: Millis) -> Completions:
        """Another broker leads now. Soft state ends; whoever waits is sent there. Records may still be applied."""
        turn = Turn(now)
        for group_id, group in list(self._state.groups.items()):
            if isinstance(group, ClassicGroup):
                self._rebalance.refuse_all(group, ErrorCode.NOT_COORDINATOR, turn)
                self._state.groups[group_id] = (
                    ClassicGroup.load(group_id, group.persisted) if group.persisted else ClassicGroup(group_id)
                )
        self._state.timers.clear()
        self._state.prepared.clear()
        self._share.states.resign()
        self._state.is_live = False
        return tuple(turn.completions)

    def furthest_offset(self, topic: str, partition: int) -> int | None:
        """The highest offset that any group has committed."""
        return self._stored_offsets.furthest(topic, partition)

    def committed_offsets(self) -> list[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all that is committed."""
        return self._stored_offsets.all()

    @property
    def group_count(self) -> int:
        return len(self._state.groups)

    def clock_moved(self, by: int) -> None:
        """Sessions and rebalances go on as if nothing had happened; what is written down has the clock's time."""
        self._state.timers.shift(by)

    def next_deadline(self) -> Millis | None:
        return self._state.timers.next_deadline() if self._state.is_live else Millis(0)

    def tick(self, now: Millis) -> Decided[None]:
        """Do what is due. Something may be left that has to see it applied first: its deadline has come then, too."""
        turn = self._begin(now)
        self._time_outs.run_due(turn)
        return turn.decide(None)

    # --- classic protocol

    def join(self, request: JoinRequest, token: Token, now: Millis) -> Decided[None]:
        turn = self._begin(now)
        settings = self._state.settings
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        else:
            try:
                self._join(request, token, turn)
            except KafkaError as refusal:
                turn, error = Turn(now), refusal.code
        if error is not ErrorCode.NONE:
            turn.complete(token, JoinReply(error=error, member_id=request.member_id))
        return turn.decide(None)

    def _join(self, request: JoinRequest, token: Token, turn: Turn) -> None:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            self._mixed.join(group, request, token, turn)
            return
        if isinstance(group, ClassicGroup):
            self._classic.join(group, request, token, turn)
            return
        if isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id != UNKNOWN_MEMBER_ID:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        created = ClassicGroup(request.group_id, state_timestamp=turn.now)
        if not created.supports(request.protocol_type, (name for name, _ in request.protocols)):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group is not None:
            turn.records += group.tombstones()
        self._state.prepared[request.group_id] = created
        turn.records.append(created.empty_record())
        self._classic.join(created, request, token, turn)

    def sync(self, request: SyncRequest, token: Token, now: Millis) -> Decided[None]:
        turn = self._begin(now)
        try:
            group = self._group_of_member(request.group_id, if_shared=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, token, turn)
            else:
                self._mixed.sync(group, request, token, turn)
        except KafkaError as refusal:
            turn.complete(token, SyncReply(error=refusal.code))
        return turn.decide(None)

    def heartbeat(self, request: HeartbeatRequest, now: Millis) -> Decided[ErrorCode]:
        """NONE, or REBALANCE_IN_PROGRESS: the member has to rejoin."""
        turn = self._begin(now)
        group = self._group_of_member(request.group_id)
        if isinstance(group, ClassicGroup):
            return turn.decide(self._classic.heartbeat(group, request, turn))
        return turn.decide(self._mixed.heartbeat(group, request, turn))

    def leave(self, group_id: str, members: Sequence[LeavingMember], now: Millis) -> Decided[tuple[LeftMember, ...]]:
        turn = self._begin(now)
        try:
            group = self._group_of_member(group_id)
        except KafkaError as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            return turn.decide(
                tuple(
                    LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error=refusal.code)
                    for each in members
                )
            )
        if isinstance(group, ClassicGroup):
            return turn.decide(self._classic.leave(group, members, turn))
        return turn.decide(self._mixed.leave(group, members, turn))

    def _group_of_member(
        self, group_id: str, if_shared: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> ClassicGroup | ConsumerGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        if isinstance(group, ShareGroup):
            raise KafkaError(if_shared)
        return group

    # --- consumer protocol

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest, now: Millis) -> Decided[ConsumerHeartbeatReply]:
        turn = self._begin(now)
        return turn.decide(self._consumer.heartbeat(request, turn))

    # --- share protocol

    def prepare_share(self, request: ShareHeartbeatRequest, now: Millis) -> Decided[Assignment]:
        """Partitions to make states for before this heartbeat is dealt with, so that it can have them at once."""
        turn = self._begin(now)
        return turn.decide(self._share.prepare(request, turn))

    def share_heartbeat(self, request: ShareHeartbeatRequest, now: Millis) -> Decided[ShareHeartbeatReply]:
        turn = self._begin(now)
        return turn.decide(self._share.heartbeat(request, turn))

    def share_states_made(self, group_id: str, partitions: Assignment, *, ok: bool, now: Millis) -> Decided[None]:
        """States of these partitions were made, or could not be."""
        turn = self._begin(now)
        group = self._state.groups.get(group_id)
        if isinstance(group, ShareGroup):
            (self._share.states.made if ok else self._share.states.failed)(group, partitions, turn)
        return turn.decide(None)

    def begin_share_offsets(self, group_id: str, partitions: Assignment, now: Millis) -> Decided[None]:
        """The states of these partitions are about to be made anew. A group that does not exist begins with that."""
        turn = self._begin(now)
        group = self._share.group_to_join(group_id)
        _check_empty(group)
        self._share.states.begin(group, partitions, turn)
        return turn.decide(None)

    def begin_share_offsets_deletion(
        self, group_id: str, topics: Iterable[str], now: Millis
    ) -> Decided[ShareOffsetsDeletion]:
        turn = self._begin(now)
        group = self._share.group(group_id)
        _check_empty(group)
        return turn.decide(self._share.states.delete(group, topics, turn))

    def end_share_offsets_deletion(self, group_id: str, topic_ids: Collection[UUID], now: Millis) -> Decided[None]:
        turn = self._begin(now)
        group = self._state.groups.get(group_id)
        if isinstance(group, ShareGroup):
            self._share.states.deleted(group, topic_ids, turn)
        return turn.decide(None)

    def begin_share_deletion(
        self, group_ids: Iterable[str], now: Millis
    ) -> Decided[tuple[tuple[str, Assignment], ...]]:
        """What has to be deleted elsewhere before these groups can be; groups of other kinds are left out."""
        turn = self._begin(now)
        groups = (self._state.groups.get(group_id) for group_id in dict.fromkeys(group_ids))
        found = [group for group in groups if isinstance(group, ShareGroup) and group.is_empty]
        return turn.decide(tuple((group.group_id, self._share.states.delete_all(group, turn)) for group in found))

    def share_partitions(self, group_id: str) -> Decided[Assignment]:
        """The partitions that a share group has a state for."""
        group = self._state.groups.get(group_id)
        return Decision([], Outcome(group.initialized if isinstance(group, ShareGroup) else {}))

    # --- offsets

    def commit_offsets(self, request: CommitRequest, now: Millis) -> Decided[tuple[TopicErrors, ...]]:
        turn = self._begin(now)
        return turn.decide(self._offsets.commit(request, turn))

    def committed_offset(self, group_id: str, topic: str, partition: int) -> int | None:
        found = self._stored_offsets.find(group_id, topic, partition)
        return found.offset if found is not None else None

    def pending_offsets(self, producer_id: int) -> list[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all that the producer's transaction would commit."""
        return self._stored_offsets.pending_of(ProducerId(producer_id))

    def end_transaction(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        *,
        is_commit: bool,
        now: Millis,
        coordinator_epoch: int = 0,
    ) -> Decided[None]:
        """A transaction marker: pending offsets of the producer become true or are dropped."""
        turn = self._begin(now)
        marker = EndTransaction(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
        )
        turn.records.append(marker)
        return turn.decide(None)

    def fetch_offsets(self, request: FetchRequest) -> Decided[tuple[TopicOffsets, ...]]:
        return Decision([], Outcome(self._offsets.fetch(request)))

    def committed_topics(self, request: FetchRequest) -> Decided[tuple[FetchedTopic, ...]]:
        return Decision([], Outcome(self._offsets.committed(request)))

    def delete_offsets(
        self, group_id: str, topics: Iterable[FetchedTopic], now: Millis
    ) -> Decided[tuple[TopicErrors, ...]]:
        turn = self._begin(now)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return turn.decide(self._offsets.delete(group_id, topics, turn))

    def topics_deleted(self, topics: Iterable[tuple[str, UUID]], now: Millis) -> Decided[None]:
        """Offsets of topics that are gone go with them, and what share groups had of them."""
        turn = self._begin(now)
        deleted = list(topics)
        for name, topic_id in deleted:
            self._offsets.delete_of_topic(name, topic_id, turn)
        self._share.states.forget_topics({topic_id for _, topic_id in deleted}, turn)
        return turn.decide(None)

    # --- groups as a whole

    def delete_groups(self, group_ids: Iterable[str], now: Millis) -> Decided[tuple[tuple[str, ErrorCode], ...]]:
        turn = self._begin(now)
        return turn.decide(tuple((group_id, self._delete(group_id, turn)) for group_id in dict.fromkeys(group_ids)))

    def _delete(self, group_id: str, turn: Turn) -> ErrorCode:
        group = self._state.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        self._offsets.delete_all(group_id, turn)
        self._time_outs.delete(group, turn)
        return ErrorCode.NONE

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Decided[tuple[ListedGroup, ...]]:
        return Decision([], Outcome(describe.list_groups(self._state, states, types)))

    def describe_groups(self, group_ids: Iterable[str], api_version: int) -> Decided[tuple[DescribedGroup, ...]]:
        described = tuple(describe.describe_classic(self._state, group_id, api_version) for group_id in group_ids)
        return Decision([], Outcome(described))

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> Decided[tuple[DescribedConsumerGroup, ...]]:
        described = tuple(describe.describe_consumer(self._state, group_id) for group_id in group_ids)
        return Decision([], Outcome(described))

    def describe_share_groups(self, group_ids: Iterable[str]) -> Decided[tuple[DescribedShareGroup, ...]]:
        described = tuple(describe.describe_share(self._state, group_id) for group_id in group_ids)
        return Decision([], Outcome(described))


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
