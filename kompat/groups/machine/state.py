"""The state that the parts of the group machine share: the groups, and their soft state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kompat.coordination.deadlines import Timers
from kompat.coordination.decision import Decision
from kompat.groups.config import GroupSettings
from kompat.groups.machine.messages import Completion, JoinReply, Outcome, SyncReply, Token
from kompat.groups.machine.topics import MetadataHash, Topics, TopicTable
from kompat.groups.records import GroupRecord
from kompat.types import Millis

if TYPE_CHECKING:
    from kompat.groups.machine.classic import ClassicGroup
    from kompat.groups.machine.modern import ModernGroup

T = TypeVar("T")


class TimerKind(Enum):
    CLASSIC_SESSION = auto()  # no heartbeat from a member of a classic group
    CLASSIC_JOIN = auto()  # members of a classic group have not rejoined
    CLASSIC_INITIAL_JOIN = auto()  # a new classic group has waited for more members
    CLASSIC_SYNC = auto()  # members of a classic group have not sent SyncGroup
    SESSION = auto()  # no heartbeat from a member of a consumer or share group
    REBALANCE = auto()  # a member of a consumer group has not revoked partitions
    REJOIN = auto()  # a classic member of a consumer group has not rejoined
    SYNC = auto()  # a classic member of a consumer group has not sent SyncGroup
    EXPIRE_OFFSETS = auto()


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Turn:
    """One command in progress: its decisions so far."""

    __slots__ = ("_afterwards", "completions", "now", "records")

    def __init__(self, now: Millis) -> None:
        self.now = now
        self.records: list[GroupRecord] = []
        self.completions: list[Completion] = []
        self._afterwards: list[Callable[[], None]] = []

    def afterwards(self, effect: Callable[[], None]) -> None:
        """A change of soft state that is only made if the command is not refused."""
        self._afterwards.append(effect)

    def complete(self, token: Token | None, reply: JoinReply | SyncReply) -> None:
        if token is not None:
            self.completions.append(Completion(token, reply))

    def decide(self, reply: T) -> Decision[GroupRecord, Outcome[T]]:
        for effect in self._afterwards:
            effect()
        return Decision(self.records, Outcome(reply, tuple(self.completions)))


class TopicFollowers:
    """The consumer and share groups that are subscribed to a topic: they are updated when it changes."""

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}

    def follow(self, topic: str, group_id: str) -> None:
        self._groups.setdefault(topic, set()).add(group_id)

    def unfollow(self, topic: str, group_id: str) -> None:
        groups = self._groups.get(topic)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self._groups[topic]

    def of(self, topics: Iterable[str]) -> set[str]:
        return {group_id for topic in topics for group_id in self._groups.get(topic, ())}


class GroupState:
    """`groups` follows from the records alone, and only `apply` adds and removes groups; the rest is soft.

    Soft state (timers, requests that wait, members of a classic group that its record does not name yet) is lost with
    the leadership of the partition, as in Kafka: clients then find out by their next heartbeat.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup | ModernGroup[Any]] = {}
        self.is_live = (
            False  # whether this is the leader's machine, whose commands change groups before their records are applied
        )
        # Classic groups that a command has created, and whose first record is about to be applied.
        self.prepared: dict[str, ClassicGroup] = {}
        # Payload: the rest of an initial delay, or the epoch that a member has to leave.
        self.timers: Timers[TimerKey, int] = Timers()
        self.topics: Topics = TopicTable()
        self.hashes = MetadataHash()
        self.followers = TopicFollowers()

    def schedule(self, key: TimerKey, turn: Turn, delay_ms: int, payload: int = 0) -> None:
        self.timers.schedule(key, Millis(turn.now + delay_ms), payload)

    def cancel(self, group_id: str, member_id: str, *kinds: TimerKind) -> None:
        for kind in kinds:
            self.timers.cancel(TimerKey(kind, group_id, member_id))
