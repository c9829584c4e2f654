"""The values of consumer groups' records (KIP-848): all are version 0, which is flexible."""

from collections.abc import Mapping
from uuid import UUID

from kompat.groups.records import (
    Assignment,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    EpochsByPartition,
    MemberState,
)
from kompat.protocol.primitives import MalformedBytesError, Reader, Writer

_MEMBER_STATES = frozenset(MemberState)
# In Kafka's schema a missing tag is an empty struct, so an absent value has to be written explicitly.
_DEFAULT_CLASSIC_MEMBER = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())


def version_zero(reader: Reader) -> None:
    version = reader.int16()
    if version != 0:
        raise MalformedBytesError(f"value version {version}, known is 0")


def write_epoch(out: Writer, value: ConsumerGroupMetadataValue) -> None:
    out.int16(0)
    out.int32(value.epoch)
    out.tags(((0, value.metadata_hash.to_bytes(8, "big", signed=True)),) if value.metadata_hash else ())


def read_epoch(reader: Reader) -> ConsumerGroupMetadataValue:
    version_zero(reader)
    epoch = reader.int32()
    return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=_tagged_int64(reader))


def _tagged_int64(reader: Reader) -> int:
    data = reader.tags().get(0)
    return Reader(data).int64() if data else 0


def write_raw(out: Writer, value: bytes) -> None:
    out.raw(value)


def read_raw(reader: Reader) -> bytes:
    return reader.rest()


def write_member(out: Writer, value: ConsumerGroupMemberMetadataValue) -> None:
    out.int16(0)
    out.compact_string(value.instance_id)
    out.compact_string(value.rack_id)
    out.compact_string(value.client_id)
    out.compact_string(value.client_host)
    out.uvarint(len(value.subscribed_topic_names) + 1)
    for name in value.subscribed_topic_names:
        out.compact_string(name)
    out.compact_string(value.subscribed_topic_regex)
    out.int32(value.rebalance_timeout_ms)
    out.compact_string(value.server_assignor)
    classic = value.classic_member_metadata
    out.tags(((0, _classic_member(classic)),) if classic != _DEFAULT_CLASSIC_MEMBER else ())


def _classic_member(value: ClassicMemberMetadata | None) -> bytes:
    out = Writer()
    if value is None:
        out.uvarint(0)
        return out.finish()
    out.uvarint(1)
    out.int32(value.session_timeout_ms)
    out.uvarint(len(value.supported_protocols) + 1)
    for name, metadata in value.supported_protocols:
        out.compact_string(name)
        out.compact_bytes(metadata)
        out.tags()
    out.tags()
    return out.finish()


def read_member(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    version_zero(reader)
    return ConsumerGroupMemberMetadataValue(
        instance_id=reader.compact_string(),
        rack_id=reader.compact_string(),
        client_id=reader.compact_text(),
        client_host=reader.compact_text(),
        subscribed_topic_names=reader.compact_array(reader.compact_text),
        subscribed_topic_regex=reader.compact_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.compact_string(),
        classic_member_metadata=_read_classic_member(reader.tags().get(0)),
    )


def _read_classic_member(data: bytes | None) -> ClassicMemberMetadata | None:
    if data is None:
        return _DEFAULT_CLASSIC_MEMBER
    reader = Reader(data)
    if reader.uvarint() == 0:
        return None

    def protocol() -> tuple[str, bytes]:
        found = (reader.compact_text(), reader.compact_bytes())
        reader.tags()
        return found

    return ClassicMemberMetadata(session_timeout_ms=reader.int32(), supported_protocols=reader.compact_array(protocol))


def write_target_epoch(out: Writer, value: ConsumerGroupTargetAssignmentMetadataValue) -> None:
    out.int16(0)
    out.int32(value.assignment_epoch)
    stamp = value.assignment_timestamp
    out.tags(((0, stamp.to_bytes(8, "big", signed=True)),) if stamp else ())


def read_target_epoch(reader: Reader) -> ConsumerGroupTargetAssignmentMetadataValue:
    version_zero(reader)
    epoch = reader.int32()
    return ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=_tagged_int64(reader)
    )


def write_target(out: Writer, value: Assignment) -> None:
    out.int16(0)
    out.uvarint(len(value) + 1)
    for topic_id, partitions in value.items():
        out.uuid(topic_id)
        out.compact_ints(sorted(partitions))
        out.tags()
    out.tags()


def read_target(reader: Reader) -> dict[UUID, frozenset[int]]:
    version_zero(reader)

    def topic() -> tuple[UUID, frozenset[int]]:
        entry = (reader.uuid(), frozenset(reader.compact_array(reader.int32)))
        reader.tags()
        return entry

    found = dict(reader.compact_array(topic))
    reader.tags()
    return found


def write_current(out: Writer, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    out.int16(0)
    out.int32(value.member_epoch)
    out.int32(value.previous_member_epoch)
    out.int8(value.state)
    for assignment in (value.assigned_partitions, value.partitions_pending_revocation):
        out.uvarint(len(assignment) + 1)
        for topic_id, epochs in assignment.items():
            partitions = sorted(epochs)
            out.uuid(topic_id)
            out.compact_ints(partitions)
            tag = Writer()
            tag.compact_ints(epochs[partition] for partition in partitions)
            out.tags(((0, tag.finish()),))
    out.tags()


def read_current(reader: Reader) -> ConsumerGroupCurrentMemberAssignmentValue:
    version_zero(reader)
    member_epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending = (_read_epochs(reader, max(member_epoch, 0)) for _ in range(2))
    reader.tags()
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member_epoch,
        previous_member_epoch=previous,
        state=MemberState(state) if state in _MEMBER_STATES else MemberState.UNKNOWN,
        assigned_partitions=assigned,
        partitions_pending_revocation=pending,
    )


def _read_epochs(reader: Reader, default: int) -> EpochsByPartition:
    """Records from before 4.3 have no epochs per partition: they get the member's epoch."""

    def topic() -> tuple[UUID, Mapping[int, int]]:
        topic_id, partitions = reader.uuid(), reader.compact_array(reader.int32)
        tagged = reader.tags().get(0)
        epochs: tuple[int, ...] = ()
        if tagged:
            inner = Reader(tagged)
            epochs = inner.compact_array(inner.int32)
        if len(epochs) != len(partitions):
            epochs = (default,) * len(partitions)
        return topic_id, dict(zip(partitions, epochs, strict=True))

    return dict(reader.compact_array(topic))


def write_regex(out: Writer, value: ConsumerGroupRegularExpressionValue) -> None:
    out.int16(0)
    out.uvarint(len(value.topics) + 1)
    for name in value.topics:
        out.compact_string(name)
    out.int64(value.version)
    out.int64(value.timestamp)
    out.tags()


def read_regex(reader: Reader) -> ConsumerGroupRegularExpressionValue:
    version_zero(reader)
    value = ConsumerGroupRegularExpressionValue(
        topics=reader.compact_array(reader.compact_text), version=reader.int64(), timestamp=reader.int64()
    )
    reader.tags()
    return value
