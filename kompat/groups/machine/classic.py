"""A classic group: its members, its generation, and its state between two generations.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                │      ▲                              │                                  │
      └──none joined───┘      └───── join, leave, time-out ──┴──────────────────────────────────┘

Members join and leave in memory; the log has `persisted`, the group as it was when it last became stable or empty.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.consumer_protocol import PROTOCOL_TYPE, parse_subscribed_topics
from kompat.groups.machine.messages import JoinedMember, JoinReply, Token
from kompat.groups.records import GroupMetadata, GroupMetadataMember, GroupMetadataValue
from kompat.protocol.primitives import MalformedBytesError
from kompat.types import Millis


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


REBALANCEABLE = frozenset({ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY})


class ClassicMember:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[tuple[str, bytes], ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_token: Token | None = None  # waits for the others to join
        self.sync_token: Token | None = None  # waits for the leader's assignment
        self.is_new = False  # has not been through a rebalance yet

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    @property
    def is_heard_of(self) -> bool:
        """A member that waits for a response sends no heartbeats, but a new member may not wait for ever."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def copy_as(self, member_id: str) -> "ClassicMember":
        return ClassicMember(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )


class ClassicGroup:
    group_type = "classic"

    def __init__(self, group_id: str, *, state_timestamp: Millis | None = None) -> None:
        self.group_id = group_id
        self.persisted: GroupMetadataValue | None = None
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp = state_timestamp
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # instance id → member id
        self.pending_members: set[str] = set()  # got an id and have to join again with it
        self.pending_sync: set[str] = set()
        self.joined = 0  # members that wait for their join to end
        self.member_was_added = False  # during the initial delay, which is then prolonged
        self.subscribed_topics: frozenset[str] | None = None
        self._supporters: dict[str, int] = {}  # protocol → members that support it

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        stamp = value.current_state_timestamp
        group = cls(group_id, state_timestamp=None if stamp == -1 else Millis(stamp))
        group.persisted = value
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        for each in value.members:
            group.add(
                ClassicMember(
                    each.member_id,
                    instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout,
                    session_timeout_ms=each.session_timeout,
                    protocols=((value.protocol or "", each.subscription),),
                    assignment=each.assignment,
                )
            )
        group.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        group.subscribed_topics = group.compute_subscribed_topics()
        return group

    # --- what it is

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """A simple group: it only has offsets, of consumers that assign their partitions themselves."""
        return self.protocol_type is None and self.is_empty and not self.pending_members

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def has_all_joined(self) -> bool:
        return self.joined == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supporters.get(name, 0) == len(self.members) for name in protocols)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:  # a consumer group whose subscriptions cannot be read
            return self.is_consumer
        return topic in self.subscribed_topics

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # --- members

    def add(self, member: ClassicMember, token: Token | None = None) -> None:
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._await_join(member, token)
        self.pending_members.discard(member.member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[tuple[str, bytes], ...],
        rebalance_ms: int,
        session_ms: int,
        token: Token,
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self._await_join(member, token)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._await_join(member, None)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """The same instance under a new member id; it keeps its assignment and, if it is the leader, the leadership."""
        old = self.members.pop(old_id)
        self._await_join(old, None)
        new = self.members[new_id] = old.copy_as(new_id)
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new_id
        return new

    def take_join_token(self, member: ClassicMember) -> Token | None:
        token = member.join_token
        self._await_join(member, None)
        return token

    def _await_join(self, member: ClassicMember, token: Token | None) -> None:
        self.joined += (token is not None) - (member.join_token is not None)
        member.join_token = token

    def _count(self, member: ClassicMember, change: int) -> None:
        for name, _ in member.protocols:
            self._supporters[name] = self._supporters.get(name, 0) + change

    # --- generations

    def move_to(self, state: ClassicState, now: Millis) -> None:
        self.previous_state, self.state = self.state, state
        self.state_timestamp = now

    def elect_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_token is None:
            joined = next((each.member_id for each in self.members.values() if each.join_token is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def begin_generation(self, now: Millis) -> None:
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now)
        self.pending_sync.clear()

    def select_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all support; the most votes win."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if name in candidates), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name], default=None)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """All topics of all members; None if they are not known."""
        if not self.is_consumer or (self.members and self.protocol_name is None):
            return None
        try:
            return frozenset(self._topics_of_members())
        except MalformedBytesError:
            return None

    def _topics_of_members(self) -> Iterator[str]:
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            yield from parse_subscribed_topics(metadata)

    # --- replies and records

    def join_reply(self, member_id: str, *, with_members: bool = False, skip_assignment: bool = False) -> JoinReply:
        return JoinReply(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            members=self._joined_members() if with_members else (),
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        )

    def record(self, assignments: Mapping[str, bytes]) -> GroupMetadata:
        """The group as it is, with these assignments by member id."""
        return GroupMetadata(
            group_id=self.group_id,
            value=GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
                current_state_timestamp=-1 if self.state_timestamp is None else self.state_timestamp,
                members=tuple(
                    GroupMetadataMember(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol_name),
                        assignment=assignments.get(member.member_id, b""),
                    )
                    for member in self.members.values()
                ),
            ),
        )

    def empty_record(self) -> GroupMetadata:
        """The first record of a group without members."""
        stamp = -1 if self.state_timestamp is None else self.state_timestamp
        value = GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=stamp, members=()
        )
        return GroupMetadata(group_id=self.group_id, value=value)
