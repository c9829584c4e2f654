"""Requests to the machines and their results: Kafka's requests and responses without their wire format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NewType, TypeAlias, TypeVar
from uuid import UUID

from kompat.errors import ErrorCode
from kompat.groups.records import EpochsByPartition
from kompat.types import NO_PRODUCER, ZERO_UUID, ProducerEpoch, ProducerId

T = TypeVar("T")
M = TypeVar("M")

# A caller that joins or syncs passes a token (its future, say) and gets it back with the reply when that is due,
# which may be in the outcome of a later command. The machine only stores it.
Token = NewType("Token", object)

UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2


# --- classic protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    group_id: str
    member_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # name, metadata; in order of preference
    client: ClientInfo
    api_version: int
    fresh_id: str  # unique: becomes part of the member id, if the member needs one


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: ErrorCode = ErrorCode.NONE
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    group_id: str
    member_id: str
    group_instance_id: str | None = None
    generation_id: int
    protocol_type: str | None = None  # null before v5
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)  # member id → assignment; only the leader has any


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply that is due now, to the caller that passed the token."""

    token: Token
    reply: JoinReply | SyncReply


Completions: TypeAlias = tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """A command's own reply, and the replies to others that it caused."""

    reply: T
    completions: Completions = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    group_id: str
    member_id: str
    group_instance_id: str | None = None
    generation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


# --- consumer protocol (KIP-848)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """None means unchanged since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Mapping[UUID, tuple[int, ...]] | None = None  # what the member owns
    client: ClientInfo
    api_version: int = 1
    fresh_id: str = ""  # the member's id, if it has none (v0)
    may_see: Callable[[str], bool] | None = None  # whether this member may describe the topic; for regular expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: EpochsByPartition | None = None  # None: nothing changed


# --- offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPartition:
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTopic:
    name: str
    topic_id: UUID = ZERO_UUID
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit, or TxnOffsetCommit if it has a producer."""

    group_id: str
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION  # or the member's epoch
    retention_time_ms: int = -1
    topics: tuple[CommittedTopic, ...]
    api_version: int
    producer_id: ProducerId = NO_PRODUCER
    producer_epoch: ProducerEpoch = ProducerEpoch(-1)  # noqa: RUF009 - a NewType of an int is immutable


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicErrors:
    """Partition → error of one topic of the request."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: tuple[tuple[int, ErrorCode], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedTopic:
    """What to fetch of a topic."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[FetchedTopic, ...] | None = None  # None: all offsets of the group
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    name: str
    topic_id: UUID = ZERO_UUID
    partitions: tuple[FetchedOffset, ...]


# --- listing and describing


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[NamedPartitions, ...]
    target_assignment: tuple[NamedPartitions, ...]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedModernGroup(Generic[M]):
    """A consumer group or a share group."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[M, ...] = ()


class DescribedConsumerGroup(DescribedModernGroup[DescribedConsumer]):
    __slots__ = ()
