"""A group machine under test: what its commands decide is written to a log, applied and handed out at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from uuid import UUID, uuid5

from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings
from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.group_machine import GroupMachine
from kompat.groups.machine.messages import (
    ClientInfo,
    CommitRequest,
    CommittedPartition,
    CommittedTopic,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    FetchedOffset,
    FetchedTopic,
    FetchRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    Outcome,
    SyncReply,
    SyncRequest,
    Token,
)
from kompat.groups.machine.modern import GroupKind
from kompat.groups.machine.state import GroupState
from kompat.groups.machine.topics import TopicInfo, TopicTable
from kompat.groups.record_codec import decode, encode
from kompat.groups.records import EndTransaction, GroupRecord, OffsetCommit
from kompat.protocol.primitives import Writer
from kompat.types import Millis

T = TypeVar("T")
START = 1_700_000_000_000
NAMESPACE = UUID(int=7)
CLIENT = ClientInfo(client_id="client", client_host="/127.0.0.1")


def topic_id_of(name: str) -> UUID:
    return uuid5(NAMESPACE, name)


def table(version: int = 1, /, **partitions: int) -> TopicTable:
    return TopicTable(
        [TopicInfo(name=name, topic_id=topic_id_of(name), partitions=count) for name, count in partitions.items()],
        version,
    )


def subscription(
    topics: Iterable[str],
    owned: Mapping[str, Iterable[int]] | None = None,
    version: int = 1,
    user_data: bytes | None = None,
) -> bytes:
    out = Writer()
    out.int16(version)
    names = list(topics)
    out.int32(len(names))
    for name in names:
        out.string(name)
    out.nullable_bytes(user_data)
    if version >= 1:
        out.int32(len(owned or {}))
        for name, partitions in (owned or {}).items():
            numbers = list(partitions)
            out.string(name)
            out.int32(len(numbers))
            for number in numbers:
                out.int32(number)
    return out.finish()


def replicated(machine: GroupMachine) -> dict[str, Any]:
    """All that follows from the records, to compare two machines by."""
    state, offsets = machine._state, machine._stored_offsets
    groups: dict[str, Any] = {}
    for group_id, group in state.groups.items():
        if isinstance(group, ClassicGroup):
            groups[group_id] = group.persisted
        else:
            groups[group_id] = {
                name: value
                for name, value in vars(group).items()
                if name not in ("subscriptions", "wants_refresh", "_holders")
            }
            groups[group_id]["topics"] = group.subscriptions.topics
            if isinstance(group, ConsumerGroup):
                groups[group_id]["holders"] = {key: value for key, value in group._holders.items() if value}
    return {
        "groups": groups,
        "offsets": offsets._by_group,
        "pending": offsets._pending,
        "open": offsets._open,
        "followers": state.followers._groups,
    }


class Groups:
    """The machine, its log and its clock."""

    kinds: ClassVar[Sequence[Callable[[GroupState], GroupKind]]] = ()

    def __init__(self, settings: GroupSettings | None = None, topics: TopicTable | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.topics = topics or table(orders=4)
        self.machine = GroupMachine(self.settings, self.kinds)
        self.machine.topics_changed(self.topics)
        self.log: list[GroupRecord] = []
        self.now = Millis(START)
        self.replies: dict[object, JoinReply | SyncReply] = {}
        self._tokens = 0
        self._ids = 0

    # --- running

    def run(self, command: Callable[[GroupMachine], Decision[GroupRecord, Outcome[T]]]) -> T:
        decision = command(self.machine)
        for record in decision.records:
            self.log.append(record)
            self.machine.apply(record)
        for completion in decision.reply.completions:
            assert completion.token not in self.replies, "answered twice"
            self.replies[completion.token] = completion.reply
        return decision.reply.reply

    def advance(self, ms: int) -> None:
        """Let time pass, and all that is due happen when it is due."""
        until = Millis(self.now + ms)
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.run(lambda machine: machine.tick(self.now))
        self.now = until

    def restart(self) -> None:
        """Build the machine from the bytes of its log, as a new leader does."""
        self.machine = self.replayed(self.log)
        self.machine.topics_changed(self.topics)

    def replayed(self, log: Iterable[GroupRecord]) -> GroupMachine:
        machine = GroupMachine(self.settings, self.kinds)
        for record in log:
            machine.apply(through_bytes(record))
        return machine

    def set_topics(self, topics: TopicTable, *changed: str) -> None:
        self.topics = topics
        self.machine.topics_changed(topics, changed)

    def fresh_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    # --- classic members

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        topics: Iterable[str] = ("orders",),
        owned: Mapping[str, Iterable[int]] | None = None,
        protocols: Iterable[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        instance_id: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client: ClientInfo = CLIENT,
    ) -> Token:
        """Ask to join; the reply is under the token when it has come."""
        self._tokens += 1
        token = Token(f"join-{self._tokens}")
        request = JoinRequest(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(protocols) if protocols is not None else (("range", subscription(topics, owned)),),
            client=client,
            api_version=version,
            fresh_id=self.fresh_id(),
        )
        self.run(lambda machine: machine.join(request, token, self.now))
        return token

    def join_with_id(self, group_id: str = "g", **options: Any) -> tuple[str, Token]:
        """A new dynamic member: get an id, then join with it."""
        refused = self.joined(self.join(group_id, **options))
        assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
        return refused.member_id, self.join(group_id, refused.member_id, **options)

    def joined(self, token: Token) -> JoinReply:
        reply = self.replies[token]
        assert isinstance(reply, JoinReply)
        return reply

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Token:
        self._tokens += 1
        token = Token(f"sync-{self._tokens}")
        request = SyncRequest(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id=generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        self.run(lambda machine: machine.sync(request, token, self.now))
        return token

    def synced(self, token: Token) -> SyncReply:
        reply = self.replies[token]
        assert isinstance(reply, SyncReply)
        return reply

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = "g", instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id, member_id=member_id, group_instance_id=instance_id, generation_id=generation
        )
        try:
            return self.run(lambda machine: machine.heartbeat(request, self.now))
        except KafkaError as error:
            return error.code

    def leave(self, *members: str | LeavingMember, group_id: str = "g") -> tuple[LeftMember, ...]:
        leaving = [LeavingMember(member_id=each) if isinstance(each, str) else each for each in members]
        return self.run(lambda machine: machine.leave(group_id, leaving, self.now))

    def stable(self, count: int = 1, group_id: str = "g", **options: Any) -> list[str]:
        """A stable classic group of that many dynamic members; the first one leads."""
        pairs = [self.join_with_id(group_id, **options) for _ in range(count)]
        self.advance(self.settings.initial_rebalance_delay_ms * 2)
        members = [member_id for member_id, _ in pairs]
        reply = self.joined(pairs[0][1])
        assert reply.error is ErrorCode.NONE
        self.sync(members[0], reply.generation_id, {each: each.encode() for each in members}, group_id=group_id)
        for each in members[1:]:
            self.sync(each, reply.generation_id, group_id=group_id)
        assert self.classic(group_id).state == "Stable"
        return members

    def classic(self, group_id: str = "g") -> ClassicGroup:
        group = self.machine._state.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    # --- consumer members

    def consumer(self, group_id: str = "g") -> ConsumerGroup:
        group = self.machine._state.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(self, member_id: str, epoch: int, *, group_id: str = "g", **options: Any) -> ConsumerHeartbeatReply:
        """A heartbeat of a member of a consumer group."""
        options.setdefault("client", CLIENT)
        request = ConsumerHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **options)
        return self.run(lambda machine: machine.consumer_heartbeat(request, self.now))

    def enter(
        self, member_id: str, topics: Iterable[str] = ("orders",), *, group_id: str = "g", **options: Any
    ) -> ConsumerHeartbeatReply:
        options = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": tuple(topics), **options}
        return self.beat(member_id, 0, group_id=group_id, topic_partitions={}, **options)

    # --- offsets

    def commit(
        self, offset: int, *, topic: str = "orders", partition: int = 0, group_id: str = "g", **options: Any
    ) -> ErrorCode:
        metadata = options.pop("metadata", None)
        options.setdefault("api_version", 9)
        place = CommittedPartition(partition=partition, offset=offset, metadata=metadata)
        topic_id = options.pop("topic_id", topic_id_of(topic))
        request = CommitRequest(
            group_id=group_id, topics=(CommittedTopic(name=topic, topic_id=topic_id, partitions=(place,)),), **options
        )
        try:
            return self.run(lambda machine: machine.commit_offsets(request, self.now))[0].partitions[0][1]
        except KafkaError as error:
            return error.code

    def fetch(self, *, topic: str = "orders", partition: int = 0, group_id: str = "g", **options: Any) -> FetchedOffset:
        topics = (
            FetchedTopic(name=topic, topic_id=options.pop("topic_id", topic_id_of(topic)), partitions=(partition,)),
        )
        request = FetchRequest(group_id=group_id, topics=topics, **options)
        return self.run(lambda machine: machine.fetch_offsets(request))[0].partitions[0]

    def group_ids(self) -> set[str]:
        return {group.group_id for group in self.run(lambda machine: machine.list_groups())}


def through_bytes(record: GroupRecord) -> GroupRecord:
    """A record as it comes back from the log."""
    if isinstance(record, EndTransaction):
        return record
    key, value = encode(record)
    if isinstance(record, OffsetCommit):
        read = decode(key, value, producer_id=record.producer_id, producer_epoch=record.producer_epoch)
    else:
        read = decode(key, value)
    assert read is not None
    return read


def compacted(log: Iterable[GroupRecord]) -> list[GroupRecord]:
    """The log as the cleaner leaves it: the newest record of each key, and no tombstones."""
    newest: dict[bytes, GroupRecord] = {}
    for record in log:
        assert not isinstance(record, EndTransaction), "transactions are not the cleaner's business here"
        key, value = encode(record)
        newest.pop(key, None)
        if value is not None:
            newest[key] = record
    return list(newest.values())


def settled(machine: GroupMachine) -> dict[str, Any]:
    """What two machines have in common that read the same log, one of them after the cleaner."""
    state = replicated(machine)
    state["offsets"] = {
        (group_id, topic, partition): stored.value
        for group_id, topics in state["offsets"].items()
        for topic, partitions in topics.items()
        for partition, stored in partitions.items()
    }
    # Of a simple group whose offsets are gone nothing is left in the log.
    state["groups"] = {group_id: group for group_id, group in state["groups"].items() if group is not None}
    return state


def code_of(action: Callable[[], object]) -> ErrorCode:
    """The error that an action ends with."""
    try:
        action()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
