"""Records of `__consumer_offsets` ↔ bytes, as Apache Kafka 4.3 writes them; what older brokers wrote is read too.

A key is its type (int16) and its fields; a value is its version (int16) and its fields.
"""

from collections.abc import Callable
from typing import Any

from kompat.errors import DamagedData
from kompat.groups import consumer_record_codec as values
from kompat.groups import share_record_codec as share_values
from kompat.groups.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
    ShareGroupCurrentMemberAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupStatePartitionMetadata,
    ShareGroupTargetAssignmentMember,
    ShareGroupTargetAssignmentMetadata,
    StoredRecord,
)
from kompat.protocol.primitives import MalformedBytesError, Reader, Writer
from kompat.types import NO_PRODUCER, ZERO_UUID, Buffer, ProducerEpoch, ProducerId

LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA = 0, 1, 2
CONSUMER_GROUP_REGULAR_EXPRESSION = 16
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION = 1  # the only version that has room for an expiry
GROUP_METADATA_VERSION = 3


def encode(record: StoredRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value; the value of a tombstone is None."""
    if isinstance(record, OffsetCommit):
        return _offset_commit_key(record), _offset_commit_value(record.value) if record.value else None
    kind, write_value = _ENCODERS[type(record)]
    key = Writer()
    key.int16(kind)
    key.string(record.group_id)
    second = _SECOND_KEY_FIELD[type(record)]
    if second is not None:
        key.string(getattr(record, second))
    if record.value is None:
        return key.finish(), None
    value = Writer()
    write_value(value, record.value)
    return key.finish(), value.finish()


def decode(
    key: Buffer,
    value: Buffer | None,
    *,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: ProducerEpoch = ProducerEpoch(-1),  # noqa: B008 - a NewType of an int is immutable
) -> StoredRecord | None:
    """The record of these bytes; None for a type that is not known here (streams groups, newer brokers)."""
    try:
        reader = Reader(key)
        kind = reader.int16()
        if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
            return OffsetCommit(
                group_id=reader.string(),
                topic=reader.string(),
                partition=reader.int32(),
                value=None if value is None else _read_offset_commit(Reader(value)),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        decoder = _DECODERS.get(kind)
        return decoder(reader, None if value is None else Reader(value)) if decoder else None
    except MalformedBytesError as error:
        raise DamagedData(f"a record of __consumer_offsets is malformed ({error}): key {bytes(key).hex()}") from error


# --- offsets


def _offset_commit_key(record: OffsetCommit) -> bytes:
    key = Writer()
    key.int16(OFFSET_COMMIT)
    key.string(record.group_id)
    key.string(record.topic)
    key.int32(record.partition)
    return key.finish()


def _offset_commit_value(value: OffsetCommitValue) -> bytes:
    out = Writer()
    if value.expire_timestamp >= 0:
        out.int16(OFFSET_COMMIT_WITH_EXPIRY_VERSION)
        out.int64(value.offset)
        out.string(value.metadata)
        out.int64(value.commit_timestamp)
        out.int64(value.expire_timestamp)
        return out.finish()
    out.int16(OFFSET_COMMIT_VERSION)
    out.int64(value.offset)
    out.int32(value.leader_epoch)
    out.compact_string(value.metadata)
    out.int64(value.commit_timestamp)
    out.tags(((0, value.topic_id.bytes),) if value.topic_id != ZERO_UUID else ())
    return out.finish()


def _read_offset_commit(reader: Reader) -> OffsetCommitValue:
    version = _version(reader, OFFSET_COMMIT_VERSION)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_text() if version >= 4 else reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else -1
    topic_id = reader.tags().get(0) if version >= 4 else None
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp,
        expire_timestamp=expire_timestamp,
        topic_id=Reader(topic_id).uuid() if topic_id is not None else ZERO_UUID,
    )


def _version(reader: Reader, highest: int) -> int:
    version = reader.int16()
    if not 0 <= version <= highest:
        raise MalformedBytesError(f"value version {version}, known are 0 to {highest}")
    return version


# --- classic groups


def _write_group(out: Writer, value: GroupMetadataValue) -> None:
    out.int16(GROUP_METADATA_VERSION)
    out.string(value.protocol_type)
    out.int32(value.generation)
    out.nullable_string(value.protocol)
    out.nullable_string(value.leader)
    out.int64(value.current_state_timestamp)
    out.int32(len(value.members))
    for member in value.members:
        out.string(member.member_id)
        out.nullable_string(member.group_instance_id)
        out.string(member.client_id)
        out.string(member.client_host)
        out.int32(member.rebalance_timeout)
        out.int32(member.session_timeout)
        out.nullable_bytes(member.subscription)
        out.nullable_bytes(member.assignment)


def _read_group(reader: Reader) -> GroupMetadataValue:
    version = _version(reader, 4)
    flexible = version >= 4
    nullable = reader.compact_string if flexible else reader.nullable_string
    protocol_type = reader.compact_text() if flexible else reader.string()
    generation, protocol, leader = reader.int32(), nullable(), nullable()
    timestamp = reader.int64() if version >= 2 else -1
    array = reader.compact_array if flexible else reader.array
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=timestamp,
        members=array(lambda: _read_group_member(reader, version)),
    )


def _read_group_member(reader: Reader, version: int) -> GroupMetadataMember:
    flexible = version >= 4

    def text() -> str:
        return reader.compact_text() if flexible else reader.string()

    def data() -> bytes:
        return reader.compact_bytes() if flexible else reader.nullable_bytes() or b""

    nullable = reader.compact_string if flexible else reader.nullable_string
    member_id = text()
    instance_id = nullable() if version >= 3 else None
    client_id, client_host = text(), text()
    rebalance_timeout = reader.int32() if version >= 1 else -1
    session_timeout = reader.int32()
    subscription, assignment = data(), data()
    if flexible:
        reader.tags()
    return GroupMetadataMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout=session_timeout if rebalance_timeout == -1 else rebalance_timeout,
        session_timeout=session_timeout,
        subscription=subscription,
        assignment=assignment,
    )


_ENCODERS: dict[type, tuple[int, Callable[[Writer, Any], None]]] = {
    GroupMetadata: (GROUP_METADATA, _write_group),
    ConsumerGroupMetadata: (3, values.write_epoch),
    ConsumerGroupPartitionMetadata: (4, values.write_raw),
    ConsumerGroupMemberMetadata: (5, values.write_member),
    ConsumerGroupTargetAssignmentMetadata: (6, values.write_target_epoch),
    ConsumerGroupTargetAssignmentMember: (7, values.write_target),
    ConsumerGroupCurrentMemberAssignment: (8, values.write_current),
    ShareGroupMemberMetadata: (10, share_values.write_member),
    ShareGroupMetadata: (11, share_values.write_epoch),
    ShareGroupTargetAssignmentMetadata: (12, values.write_target_epoch),
    ShareGroupTargetAssignmentMember: (13, values.write_target),
    ShareGroupCurrentMemberAssignment: (14, share_values.write_current),
    ShareGroupStatePartitionMetadata: (15, share_values.write_states),
    ConsumerGroupRegularExpression: (CONSUMER_GROUP_REGULAR_EXPRESSION, values.write_regex),
}
_VALUE_READERS: dict[type, Callable[[Reader], Any]] = {
    GroupMetadata: _read_group,
    ConsumerGroupMetadata: values.read_epoch,
    ConsumerGroupPartitionMetadata: values.read_raw,
    ConsumerGroupMemberMetadata: values.read_member,
    ConsumerGroupTargetAssignmentMetadata: values.read_target_epoch,
    ConsumerGroupTargetAssignmentMember: values.read_target,
    ConsumerGroupCurrentMemberAssignment: values.read_current,
    ShareGroupMemberMetadata: share_values.read_member,
    ShareGroupMetadata: share_values.read_epoch,
    ShareGroupTargetAssignmentMetadata: values.read_target_epoch,
    ShareGroupTargetAssignmentMember: values.read_target,
    ShareGroupCurrentMemberAssignment: share_values.read_current,
    ShareGroupStatePartitionMetadata: share_values.read_states,
    ConsumerGroupRegularExpression: values.read_regex,
}


_SECOND_KEY_FIELD: dict[type, str | None] = {
    record: next((name for name in ("member_id", "regular_expression") if hasattr(record, name)), None)
    for record in _ENCODERS
}


def _decoder(record: type[Any], read_value: Callable[[Reader], Any]) -> Callable[[Reader, Reader | None], Any]:
    second = _SECOND_KEY_FIELD[record]

    def read(key: Reader, value: Reader | None) -> Any:
        fields = {"group_id": key.string()}
        if second is not None:
            fields[second] = key.string()
        return record(**fields, value=None if value is None else read_value(value))

    return read


_DECODERS = {kind: _decoder(record, _VALUE_READERS[record]) for record, (kind, _) in _ENCODERS.items()}
