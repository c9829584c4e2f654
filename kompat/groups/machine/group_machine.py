"""All groups of one partition of `__consumer_offsets`.

How it is run: `apply` every record of the log; then commands, each with the time. The records of a command's decision are
applied before the next command, and its outcome (reply and completions) is delivered when they are committed. When
leadership is lost, `resign` returns the last completions. If records could not be written, discard the machine and build
another from the log: its soft state is ahead of the log, and callers with tokens in it must be failed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
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
from kompat.groups.machine.modern import GroupKind, ModernGroup
from kompat.groups.machine.offset_protocol import OffsetProtocol
from kompat.groups.machine.offsets import Offsets
from kompat.groups.machine.replay import Replay
from kompat.groups.machine.state import GroupState, Turn
from kompat.groups.machine.time_outs import TimeOuts
from kompat.groups.machine.topics import Topics
from kompat.groups.records import EndTransaction, GroupRecord
from kompat.types import Millis, ProducerEpoch, ProducerId

T = TypeVar("T")
K = TypeVar("K", bound=GroupKind)
Decided: TypeAlias = Decision[GroupRecord, Outcome[T]]


class GroupMachine:
    def __init__(
        self, settings: GroupSettings | None = None, kinds: Sequence[Callable[[GroupState], GroupKind]] = ()
    ) -> None:
        """`kinds`: the types of groups that it is composed with, beside classic and consumer groups."""
        self._state = GroupState(settings or GroupSettings())
        self._stored_offsets = Offsets()
        self._kinds = [make(self._state) for make in kinds]
        self._replay = Replay(self._state, self._stored_offsets, self._kinds)
        self._rebalance = ClassicRebalance(self._state)
        migration = Migration(self._state, self._rebalance)
        self._classic = ClassicProtocol(self._state, self._rebalance)
        self._consumer = ConsumerProtocol(self._state, migration)
        self._mixed = ClassicInConsumer(self._state, self._consumer, migration)
        self._offsets = OffsetProtocol(self._state, self._stored_offsets, self._rebalance)
        self._time_outs = TimeOuts(self._state, self._rebalance, self._consumer, self._offsets, self._kinds)

    def kind(self, of: type[K]) -> K:
        """The type of groups of this class that it is composed with."""
        return next(kind for kind in self._kinds if isinstance(kind, of))

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
        """Use this view of the topics from now on; these were created, extended or deleted."""
        state, names = self._state, list(changed)
        state.topics = topics
        state.hashes.forget(names)
        for group_id in state.followers.of(names):
            group = state.groups.get(group_id)
            if isinstance(group, ModernGroup):
                group.wants_refresh = True

    def begin(self, now: Millis) -> Turn:
        """The first command after the log was replayed makes this the leader's machine: the timers of members start."""
        turn = Turn(now)
        if not self._state.is_live:
            self._state.is_live = True
            self._time_outs.start(turn)
        return turn

    def resign(self, now: Millis) -> Completions:
        """Another broker leads now. Soft state ends, and requests that wait are failed. Records may still be applied."""
        turn = Turn(now)
        for group_id, group in list(self._state.groups.items()):
            if isinstance(group, ClassicGroup):
                self._rebalance.refuse_all(group, ErrorCode.NOT_COORDINATOR, turn)
                self._state.groups[group_id] = (
                    ClassicGroup.load(group_id, group.persisted) if group.persisted else ClassicGroup(group_id)
                )
        self._state.timers.clear()
        self._state.prepared.clear()
        for kind in self._kinds:
            kind.resign()
        self._state.is_live = False
        return tuple(turn.completions)

    def furthest_offset(self, topic: str, partition: int) -> int | None:
        """The highest offset that any group has committed."""
        return self._stored_offsets.furthest(topic, partition)

    def committed_offsets(self) -> list[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all committed offsets."""
        return self._stored_offsets.all()

    @property
    def group_count(self) -> int:
        return len(self._state.groups)

    def clock_moved(self, by: int) -> None:
        """Sessions and rebalances continue unaffected; only persisted times are those of the clock."""
        self._state.timers.shift(by)

    def next_deadline(self) -> Millis | None:
        return self._state.timers.next_deadline() if self._state.is_live else Millis(0)

    def tick(self, now: Millis) -> Decided[None]:
        """Do what is due. Some of it may have to wait until records are applied: then its deadline is due at once."""
        turn = self.begin(now)
        self._time_outs.run_due(turn)
        return turn.decide(None)

    # --- classic protocol

    def join(self, request: JoinRequest, token: Token, now: Millis) -> Decided[None]:
        turn = self.begin(now)
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
        if isinstance(group, ModernGroup) and not isinstance(group, ConsumerGroup):
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
        turn = self.begin(now)
        try:
            group = self._group_of_member(request.group_id, if_other=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, token, turn)
            else:
                self._mixed.sync(group, request, token, turn)
        except KafkaError as refusal:
            turn.complete(token, SyncReply(error=refusal.code))
        return turn.decide(None)

    def heartbeat(self, request: HeartbeatRequest, now: Millis) -> Decided[ErrorCode]:
        """NONE, or REBALANCE_IN_PROGRESS: the member has to rejoin."""
        turn = self.begin(now)
        group = self._group_of_member(request.group_id)
        if isinstance(group, ClassicGroup):
            return turn.decide(self._classic.heartbeat(group, request, turn))
        return turn.decide(self._mixed.heartbeat(group, request, turn))

    def leave(self, group_id: str, members: Sequence[LeavingMember], now: Millis) -> Decided[tuple[LeftMember, ...]]:
        turn = self.begin(now)
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
        self, group_id: str, if_other: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> ClassicGroup | ConsumerGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise KafkaError(if_other)
        return group

    # --- consumer protocol

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest, now: Millis) -> Decided[ConsumerHeartbeatReply]:
        turn = self.begin(now)
        return turn.decide(self._consumer.heartbeat(request, turn))

    # --- offsets

    def commit_offsets(self, request: CommitRequest, now: Millis) -> Decided[tuple[TopicErrors, ...]]:
        turn = self.begin(now)
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
        """A transaction marker: pending offsets of the producer are committed or dropped."""
        turn = self.begin(now)
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
        turn = self.begin(now)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return turn.decide(self._offsets.delete(group_id, topics, turn))

    def topics_deleted(self, topics: Iterable[tuple[str, UUID]], now: Millis) -> Decided[None]:
        """Remove the offsets of deleted topics, and what groups of other types have for them."""
        turn = self.begin(now)
        deleted = list(topics)
        for name, topic_id in deleted:
            self._offsets.delete_of_topic(name, topic_id, turn)
        for kind in self._kinds:
            kind.topics_deleted({topic_id for _, topic_id in deleted}, turn)
        return turn.decide(None)

    # --- groups as a whole

    def delete_groups(self, group_ids: Iterable[str], now: Millis) -> Decided[tuple[tuple[str, ErrorCode], ...]]:
        turn = self.begin(now)
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
