"""Records of `__consumer_offsets` have Kafka's bytes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import DamagedData
from kompat.groups.record_codec import decode, encode
from kompat.groups.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    MemberState,
    OffsetCommit,
    OffsetCommitValue,
    StoredRecord,
)
from kompat.types import ProducerEpoch, ProducerId
from tests.groups.kafka_bytes import KAFKA_BYTES

T1 = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
T2 = UUID("11121314-1516-1718-191a-1b1c1d1e1f20")
NOW = 1_700_000_000_000


def an_offset(**changes: object) -> OffsetCommit:
    fields = {"offset": 1234567890123, "metadata": "méta", "commit_timestamp": NOW, **changes}
    return OffsetCommit(group_id="grüppe", topic="orders", partition=7, value=OffsetCommitValue(**fields))  # type: ignore[arg-type]


def a_group(**changes: object) -> GroupMetadata:
    member = GroupMetadataMember(
        member_id="m-1",
        group_instance_id="inst",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=b"\x01\x02\x03",
        assignment=b"\x04\x05",
    )
    fields = {
        "protocol_type": "consumer",
        "generation": 3,
        "protocol": "range",
        "leader": "m-1",
        "current_state_timestamp": NOW,
        "members": (member,),
        **changes,
    }
    return GroupMetadata(group_id="g", value=GroupMetadataValue(**fields))  # type: ignore[arg-type]


def a_member(classic: ClassicMemberMetadata | None = None) -> ConsumerGroupMemberMetadata:
    return ConsumerGroupMemberMetadata(
        group_id="g",
        member_id="m",
        value=ConsumerGroupMemberMetadataValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("a", "b"),
            subscribed_topic_regex="x.*",
            rebalance_timeout_ms=1000,
            server_assignor="uniform",
            classic_member_metadata=classic,
        ),
    )


WRITTEN: dict[str, StoredRecord] = {
    "offset_commit_v1": an_offset(expire_timestamp=NOW + 5000),
    "offset_commit_v4": an_offset(leader_epoch=5),
    "offset_commit_topic_id": an_offset(leader_epoch=5, topic_id=T1),
    "offset_commit_tombstone": OffsetCommit(group_id="grüppe", topic="orders", partition=7, value=None),
    "group_metadata_v3": a_group(),
    "group_metadata_empty": a_group(protocol_type="", generation=0, protocol=None, leader=None, members=()),
    "group_metadata_tombstone": GroupMetadata(group_id="g", value=None),
    "consumer_group_metadata": ConsumerGroupMetadata(
        group_id="g", value=ConsumerGroupMetadataValue(epoch=4, metadata_hash=-5)
    ),
    "consumer_group_metadata_no_hash": ConsumerGroupMetadata(group_id="g", value=ConsumerGroupMetadataValue(epoch=4)),
    "consumer_group_metadata_tombstone": ConsumerGroupMetadata(group_id="g", value=None),
    "partition_metadata": ConsumerGroupPartitionMetadata(
        group_id="g", value=bytes.fromhex(KAFKA_BYTES["partition_metadata"][1] or "")
    ),
    "member_metadata": a_member(),
    "member_metadata_nulls": ConsumerGroupMemberMetadata(
        group_id="g",
        member_id="m",
        value=ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="",
            client_host="",
            subscribed_topic_names=(),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=-1,
            server_assignor=None,
        ),
    ),
    "member_metadata_classic": a_member(
        ClassicMemberMetadata(session_timeout_ms=45_000, supported_protocols=(("range", b"\x00\x01"),))
    ),
    "member_metadata_untagged": a_member(ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())),
    "member_metadata_tombstone": ConsumerGroupMemberMetadata(group_id="g", member_id="m", value=None),
    "target_metadata": ConsumerGroupTargetAssignmentMetadata(
        group_id="g", value=ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=NOW)
    ),
    "target_metadata_no_time": ConsumerGroupTargetAssignmentMetadata(
        group_id="g", value=ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4)
    ),
    "target_member": ConsumerGroupTargetAssignmentMember(
        group_id="g", member_id="m", value={T1: frozenset({0, 1, 300}), T2: frozenset({2})}
    ),
    "target_member_empty": ConsumerGroupTargetAssignmentMember(group_id="g", member_id="m", value={}),
    "current_assignment": ConsumerGroupCurrentMemberAssignment(
        group_id="g",
        member_id="m",
        value=ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned_partitions={T1: {0: 3, 1: 5}},
            partitions_pending_revocation={T2: {2: 4}},
        ),
    ),
    "regular_expression": ConsumerGroupRegularExpression(
        group_id="g",
        regular_expression="x.*",
        value=ConsumerGroupRegularExpressionValue(topics=("xa", "xb"), version=77, timestamp=NOW),
    ),
    "regular_expression_tombstone": ConsumerGroupRegularExpression(group_id="g", regular_expression="x.*", value=None),
}

READ: dict[str, StoredRecord] = {
    **WRITTEN,
    "offset_commit_v0": an_offset(),
    "offset_commit_v2": an_offset(),
    "offset_commit_v3": an_offset(leader_epoch=5),
    "legacy_offset_commit": OffsetCommit(
        group_id="g", topic="t", partition=1, value=OffsetCommitValue(offset=9, metadata="m", commit_timestamp=8)
    ),
    "group_metadata_v4": a_group(),
    "current_assignment_without_epochs": ConsumerGroupCurrentMemberAssignment(
        group_id="g",
        member_id="m",
        value=ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            previous_member_epoch=4,
            state=MemberState.STABLE,
            assigned_partitions={T1: {0: 5, 1: 5}},
            partitions_pending_revocation={},
        ),
    ),
}


def bytes_of(name: str) -> tuple[bytes, bytes | None]:
    key, value = KAFKA_BYTES[name]
    return bytes.fromhex(key), None if value is None else bytes.fromhex(value)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_is_written_with_the_bytes_kafka_writes(name: str) -> None:
    assert encode(WRITTEN[name]) == bytes_of(name)


@pytest.mark.parametrize("name", READ)
def test_every_version_kafka_wrote_is_read(name: str) -> None:
    assert decode(*bytes_of(name)) == READ[name]


@pytest.mark.parametrize(
    ("name", "rebalance_timeout"),
    [("group_metadata_v0", 45_000), ("group_metadata_v1", 300_000), ("group_metadata_v2", 300_000)],
)
def test_a_classic_group_of_an_old_broker_gets_defaults_for_what_it_lacks(name: str, rebalance_timeout: int) -> None:
    record = decode(*bytes_of(name))

    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    member = record.value.members[0]
    assert (member.group_instance_id, member.rebalance_timeout) == (None, rebalance_timeout)
    assert record.value.current_state_timestamp == (NOW if name.endswith("v2") else -1)


def test_the_producer_of_the_batch_marks_an_offset_as_pending() -> None:
    record = decode(*bytes_of("offset_commit_v4"), producer_id=ProducerId(9), producer_epoch=ProducerEpoch(1))

    assert isinstance(record, OffsetCommit)
    assert (record.producer_id, record.producer_epoch) == (9, 1)


def test_records_of_other_kinds_of_groups_are_passed_over() -> None:
    assert decode(b"\x00\x11\x00\x01g\x00\x01m", b"\x00\x00") is None


@pytest.mark.parametrize("name", [name for name in WRITTEN if KAFKA_BYTES[name][1] and name != "partition_metadata"])
def test_a_cut_value_is_damage_and_says_so(name: str) -> None:
    key, value = bytes_of(name)
    assert value is not None

    with pytest.raises(DamagedData, match="__consumer_offsets"):
        decode(key, value[:-1])


@pytest.mark.parametrize("name", ["consumer_group_metadata", "group_metadata_v3", "offset_commit_v4"])
def test_a_version_that_is_not_known_is_damage(name: str) -> None:
    key, value = bytes_of(name)
    assert value is not None

    with pytest.raises(DamagedData, match="version 9"):
        decode(key, b"\x00\x09" + value[2:])


@pytest.mark.parametrize("value", ["0000" + "00000004" + "ffffffffffff", "0000" + "00000004" + "0100ffffffffff01"])
def test_a_length_without_end_is_damage(value: str) -> None:
    with pytest.raises(DamagedData):
        decode(bytes_of("consumer_group_metadata")[0], bytes.fromhex(value))


def test_a_topic_id_that_is_too_short_is_damage() -> None:
    key, value = bytes_of("offset_commit_v4")
    assert value is not None

    with pytest.raises(DamagedData):
        decode(key, value[:-1] + b"\x01\x00\x03abc")


def test_text_that_is_none_is_damage() -> None:
    with pytest.raises(DamagedData):
        decode(b"\x00\x02\x00\x01\xff", None)


def test_a_member_state_of_a_newer_broker_is_unknown() -> None:
    key, value = bytes_of("current_assignment")
    assert value is not None

    record = decode(key, value[:10] + b"\x63" + value[11:])

    assert isinstance(record, ConsumerGroupCurrentMemberAssignment)
    assert record.value is not None
    assert record.value.state is MemberState.UNKNOWN


@given(st.binary(max_size=60), st.none() | st.binary(max_size=120))
def test_any_bytes_are_a_record_or_nothing_or_damage(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except DamagedData:
        return
