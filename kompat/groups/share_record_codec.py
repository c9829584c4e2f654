"""The values of share groups' records (KIP-932): all are version 0, which is flexible."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from kompat.groups.consumer_record_codec import version_zero
from kompat.groups.records import (
    Assignment,
    MemberState,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    TopicPart,
    TopicParts,
)
from kompat.protocol.primitives import Reader, Writer

T = TypeVar("T")


def write_member(out: Writer, value: ShareGroupMemberMetadataValue) -> None:
    out.int16(0)
    out.compact_string(value.rack_id)
    out.compact_string(value.client_id)
    out.compact_string(value.client_host)
    out.uvarint(len(value.subscribed_topic_names) + 1)
    for name in value.subscribed_topic_names:
        out.compact_string(name)
    out.tags()


def read_member(reader: Reader) -> ShareGroupMemberMetadataValue:
    version_zero(reader)
    value = ShareGroupMemberMetadataValue(
        rack_id=reader.compact_string(),
        client_id=reader.compact_text(),
        client_host=reader.compact_text(),
        subscribed_topic_names=reader.compact_array(reader.compact_text),
    )
    reader.tags()
    return value


def write_epoch(out: Writer, value: ShareGroupMetadataValue) -> None:
    out.int16(0)
    out.int32(value.epoch)
    out.int64(value.metadata_hash)
    out.tags()


def read_epoch(reader: Reader) -> ShareGroupMetadataValue:
    version_zero(reader)
    value = ShareGroupMetadataValue(epoch=reader.int32(), metadata_hash=reader.int64())
    reader.tags()
    return value


def write_current(out: Writer, value: ShareGroupCurrentMemberAssignmentValue) -> None:
    out.int16(0)
    out.int32(value.member_epoch)
    out.int32(value.previous_member_epoch)
    out.int8(value.state)
    _write_topics(out, value.assigned_partitions, lambda partitions: out.compact_ints(sorted(partitions)))
    out.tags()


def read_current(reader: Reader) -> ShareGroupCurrentMemberAssignmentValue:
    version_zero(reader)
    epoch, previous, _state = reader.int32(), reader.int32(), reader.int8()
    assigned: Assignment = _read_topics(reader, lambda: _partitions(reader))
    reader.tags()
    return ShareGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=MemberState.STABLE,  # the only one that members of share groups have
        assigned_partitions=assigned,
    )


def write_states(out: Writer, value: ShareGroupStatePartitionMetadataValue) -> None:
    def part(topic: TopicPart) -> None:
        out.compact_string(topic.name)
        out.compact_ints(sorted(topic.partitions))

    out.int16(0)
    _write_topics(out, value.initializing_topics, part)
    _write_topics(out, value.initialized_topics, part)
    _write_topics(out, value.deleting_topics, out.compact_string)
    out.tags()


def read_states(reader: Reader) -> ShareGroupStatePartitionMetadataValue:
    def parts() -> TopicParts:
        return _read_topics(reader, lambda: TopicPart(reader.compact_text(), _partitions(reader)))

    version_zero(reader)
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=parts(),
        initialized_topics=parts(),
        deleting_topics=_read_topics(reader, reader.compact_text),
    )
    reader.tags()
    return value


def _write_topics(out: Writer, topics: Mapping[UUID, T], write: Callable[[T], None]) -> None:
    out.uvarint(len(topics) + 1)
    for topic_id, each in topics.items():
        out.uuid(topic_id)
        write(each)
        out.tags()


def _read_topics(reader: Reader, read: Callable[[], T]) -> dict[UUID, T]:
    def topic() -> tuple[UUID, T]:
        entry = (reader.uuid(), read())
        reader.tags()
        return entry

    return dict(reader.compact_array(topic))


def _partitions(reader: Reader) -> frozenset[int]:
    return frozenset(reader.compact_array(reader.int32))
