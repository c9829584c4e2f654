"""The records of `__consumer_offsets`: a key each, and a value or None for a tombstone.

The names are those of Kafka's schemas; `record_codec` has their bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kompat.types import NO_PRODUCER, ZERO_UUID, ProducerEpoch, ProducerId

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]  # topic id → partitions
EpochsByPartition: TypeAlias = Mapping[UUID, Mapping[int, int]]  # topic id → partition → epoch it was assigned at


class MemberState(IntEnum):
    """The state of a consumer group's member on the way to its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # has to revoke partitions first
    UNRELEASED_PARTITIONS = 2  # waits for partitions that other members have not released
    UNKNOWN = 127  # written by a newer broker


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = -1  # only from OffsetCommit v2–4, which set a retention time
    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """An offset; with a producer id it is pending until that producer's transaction ends."""

    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None
    # Not part of key and value: they stand in the header of the batch.
    producer_id: ProducerId = NO_PRODUCER
    producer_epoch: ProducerEpoch = ProducerEpoch(-1)  # noqa: RUF009 - a NewType of an int is immutable


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A transaction marker: in the log it is a control batch of the producer."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: int = field(default=0, compare=False)  # of the coordinator that decided it


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: tuple[GroupMetadataMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A classic group."""

    group_id: str
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    group_id: str
    value: ConsumerGroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadata:
    """The subscribed topics, as brokers before 4.1 wrote them; only its presence matters, so that it gets its tombstone."""

    group_id: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    session_timeout_ms: int
    supported_protocols: tuple[tuple[str, bytes], ...]  # name, subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]  # sorted
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadata:
    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadata:
    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMember:
    group_id: str
    member_id: str
    value: Assignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned_partitions: EpochsByPartition
    partitions_pending_revocation: EpochsByPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignment:
    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    topics: tuple[str, ...]  # sorted
    version: int  # of the cluster metadata it was resolved against
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpression:
    group_id: str
    regular_expression: str
    value: ConsumerGroupRegularExpressionValue | None


ConsumerGroupRecord: TypeAlias = (
    ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
    | ConsumerGroupRegularExpression
)


# --- share groups (KIP-932)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue:
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]  # sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadata:
    group_id: str
    member_id: str
    value: ShareGroupMemberMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue:
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadata:
    group_id: str
    value: ShareGroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadata:
    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMember:
    group_id: str
    member_id: str
    value: Assignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned_partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignment:
    group_id: str
    member_id: str
    value: ShareGroupCurrentMemberAssignmentValue | None


class TopicPart(NamedTuple):
    """Partitions of a topic, with the name of the topic at that time."""

    name: str
    partitions: frozenset[int]


TopicParts: TypeAlias = Mapping[UUID, TopicPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue:
    """The progress of each partition's state in `__share_group_state`."""

    initializing_topics: TopicParts = field(default_factory=dict)
    initialized_topics: TopicParts = field(default_factory=dict)
    deleting_topics: Mapping[UUID, str] = field(default_factory=dict)  # → its name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadata:
    group_id: str
    value: ShareGroupStatePartitionMetadataValue | None


ShareGroupRecord: TypeAlias = (
    ShareGroupMemberMetadata
    | ShareGroupMetadata
    | ShareGroupTargetAssignmentMetadata
    | ShareGroupTargetAssignmentMember
    | ShareGroupCurrentMemberAssignment
    | ShareGroupStatePartitionMetadata
)

StoredRecord: TypeAlias = OffsetCommit | GroupMetadata | ConsumerGroupRecord | ShareGroupRecord  # has a key and a value
GroupRecord: TypeAlias = StoredRecord | EndTransaction
