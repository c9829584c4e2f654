"""What consumer and share groups have in common (Kafka's ModernGroup): an epoch, which grows with every change of members,
subscriptions or topics; a target assignment, made for one epoch; and members on their way to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.state import TopicFollowers, Turn
from kompat.groups.records import Assignment, ConsumerGroupTargetAssignmentMetadataValue, GroupRecord

INITIAL_EPOCH = 1
NOTHING: Assignment = {}
M = TypeVar("M")


@dataclass(slots=True)
class Subscribed:
    """How many members subscribe to a topic, and how many expressions match it."""

    by_name: int = 0
    by_regex: int = 0


@dataclass(slots=True)
class Subscriptions:
    """The topics that a group is subscribed to."""

    group_id: str
    followers: TopicFollowers | None = None
    topics: dict[str, Subscribed] = field(default_factory=dict)

    def copy(self) -> Subscriptions:
        """A copy to try changes on, without listeners."""
        return Subscriptions(self.group_id, None, {name: replace(each) for name, each in self.topics.items()})

    def change(self, names: Iterable[str], *, by_name: int = 0, by_regex: int = 0) -> None:
        for name in names:
            found = self.topics.get(name)
            if found is None:
                found = self.topics[name] = Subscribed()
                if self.followers is not None:
                    self.followers.follow(name, self.group_id)
            found.by_name += by_name
            found.by_regex += by_regex
            if found.by_name <= 0 and found.by_regex <= 0:
                del self.topics[name]
                if self.followers is not None:
                    self.followers.unfollow(name, self.group_id)


class ModernGroup(Generic[M]):
    group_type: ClassVar[str]
    protocol_type: ClassVar[str]

    def __init__(self, group_id: str, followers: TopicFollowers | None = None) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.target_epoch = INITIAL_EPOCH
        self.target_timestamp = 0
        self.target: dict[str, Assignment] = {}  # by member
        self.members: dict[str, M] = {}
        self.subscriptions = Subscriptions(group_id, followers)
        # soft: the metadata hash is computed again with the next heartbeat
        self.wants_refresh = True

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        raise NotImplementedError

    def member(self, member_id: str) -> M:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    # --- records

    def apply(self, record: Any) -> None:
        raise NotImplementedError

    def apply_target(self, member_id: str, value: Assignment | None) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = value

    def apply_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        self.target_epoch = -1 if value is None else value.assignment_epoch
        self.target_timestamp = 0 if value is None else value.assignment_timestamp

    # --- leaving nothing behind

    def tombstones(self) -> Sequence[GroupRecord]:
        """Tombstones for all records of the group."""
        raise NotImplementedError

    def unfollow(self) -> None:
        """The group was removed: unsubscribe it from its topics."""
        if self.subscriptions.followers is not None:
            for name in self.subscriptions.topics:
                self.subscriptions.followers.unfollow(name, self.group_id)


class GroupKind(Protocol):
    """A type of groups that a machine is composed with: their records are in the same log."""

    @property
    def group_class(self) -> type[ModernGroup[Any]]: ...

    @property
    def record_classes(self) -> Collection[type]:
        """The first is that of the group as a whole: its tombstone removes the group."""
        ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def fence(self, group: Any, members: Collection[Any], turn: Turn) -> None:
        """Remove members."""
        ...

    def topics_deleted(self, topic_ids: Collection[UUID], turn: Turn) -> None: ...

    def resign(self) -> None:
        """Another broker leads now: drop soft state."""
        ...


def fenced(kind: str, how: str, epoch: int, known: int, more: str = "") -> KafkaError:
    """A member sent an epoch that it cannot be in."""
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known}){more}. The member must abandon all its partitions and rejoin.",
    )


def refuse_if(condition: bool, message: str) -> None:
    if condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
