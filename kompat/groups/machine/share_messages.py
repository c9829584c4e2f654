"""What share groups are asked and what they answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kompat.errors import ErrorCode
from kompat.groups.machine.messages import ClientInfo, NamedPartitions
from kompat.groups.records import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatRequest:
    """None means: as in the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client: ClientInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatReply:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None  # None: nothing changed
    # Partitions that the group has no state for yet: they are assigned when that is there.
    uninitialized: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[NamedPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsDeletion:
    """Where a group's state is being deleted, and the topics that it has none of."""

    partitions: Assignment
    unknown: Mapping[str, ErrorCode]  # by name
