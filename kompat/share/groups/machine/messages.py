"""Requests to share groups, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kompat.errors import ErrorCode
from kompat.groups.machine.messages import ClientInfo, DescribedModernGroup, NamedPartitions
from kompat.groups.records import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatRequest:
    """None means unchanged since the last heartbeat."""

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
    # Partitions without a state yet: they are assigned when it is initialized.
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


class DescribedShareGroup(DescribedModernGroup[DescribedShareMember]):
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffsetsDeletion:
    """The partitions whose states are being deleted, and the topics that have none."""

    partitions: Assignment
    unknown: Mapping[str, ErrorCode]  # by name
