"""`__share_group_state`: bytes that Apache Kafka 4.3 wrote are understood, and written the same."""

from __future__ import annotations

from uuid import UUID

import pytest

from kompat.coordination.shards import partition_for
from kompat.errors import DamagedData
from kompat.share.machine.messages import RecordState, StateBatch, Update
from kompat.share.machine.state import Fence, ShareStateMachine
from kompat.share.records import (
    NO_COUNT,
    UNINITIALIZED,
    ShareCodec,
    ShareEnd,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from kompat.types import LeaderEpoch, Millis, Offset

AVAILABLE, ACKNOWLEDGED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

BEGUN = ShareKey("g-783c64ec-2", UUID("8538d542-3ff5-4e8f-9a8f-52c0ec77c2d4"), 0)
LATER = ShareKey("ge0125a", UUID("286373fa-1a8d-48c3-ab41-4cbe69337683"), 0)
ENDED = ShareKey("sg-ba072f", UUID("22023f18-857c-4b5e-9fd2-ddbb51a31f08"), 1)

BY_KAFKA: list[tuple[str, str | None, ShareRecord]] = [
    (
        "0000000c672d37383363363465632d328538d5423ff54e8f9a8f52c0ec77c2d400000000",
        "0000000000000000000200000000ffffffffffffffff000001a1e2f0a790000001a1e2f0a7900100",
        ShareSnapshot(
            key=BEGUN,
            snapshot_epoch=0,
            state_epoch=2,
            leader_epoch=0,
            start_offset=UNINITIALIZED,
            complete_count=NO_COUNT,
            create_timestamp=Millis(1794808784784),
            write_timestamp=Millis(1794808784784),
            batches=(),
        ),
    ),
    (
        "0001000c672d37383363363465632d328538d5423ff54e8f9a8f52c0ec77c2d400000000",
        "000000000000000000000000000000000000050000000000000000000000000000000002000100000000000000000100000000000000010000"
        "01000000000000000002000000000000000204000100000000000000000300000000000000030000010001000400000002",
        ShareUpdate(
            key=BEGUN,
            snapshot_epoch=0,
            leader_epoch=0,
            start_offset=Offset(0),
            complete_count=2,
            batches=(
                StateBatch(0, 0, ACKNOWLEDGED, 1),
                StateBatch(1, 1, AVAILABLE, 1),
                StateBatch(2, 2, ARCHIVED, 1),
                StateBatch(3, 3, AVAILABLE, 1),
            ),
        ),
    ),
    (
        "0000000767653031323561286373fa1a8d48c3ab414cbe6933768300000000",
        "0000000000010000000200000000000000000000000a000001a1e2e668a3000001a1e2edaddc03000000000000000a000000000000000f00"
        "0003000000000000000010000000000000001d0000020001000400000000",
        ShareSnapshot(
            key=LATER,
            snapshot_epoch=1,
            state_epoch=2,
            leader_epoch=0,
            start_offset=Offset(10),
            complete_count=0,
            create_timestamp=Millis(1794808113315),
            write_timestamp=Millis(1794808589788),
            batches=(StateBatch(10, 15, AVAILABLE, 3), StateBatch(16, 29, AVAILABLE, 2)),
        ),
    ),
    ("0000000973672d62613037326622023f18857c4b5e9fd2ddbb51a31f0800000001", None, ShareEnd(ENDED)),
]


@pytest.mark.parametrize(("key", "value", "record"), BY_KAFKA)
def test_records_have_kafkas_bytes(key: str, value: str | None, record: ShareRecord) -> None:
    encoded = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert ShareCodec().decode(*encoded) == record
    assert ShareCodec().encode(record) == encoded


def test_a_share_partitions_state_lives_where_kafka_puts_it() -> None:
    key = ShareKey("g-c847b640-1", UUID("1f89df3c-923b-4801-9e4a-5278040c48d7"), 1)
    assert partition_for(key.coordinator_key, 50) == 0


def test_kinds_of_records_that_are_not_known_are_passed_over() -> None:
    assert ShareCodec().decode(b"\0\7anything", b"x") is None
    assert ShareCodec().decode(None, b"x") is None


def test_records_that_cannot_be_read_are_damage() -> None:
    with pytest.raises(DamagedData):
        ShareCodec().decode(bytes.fromhex(BY_KAFKA[0][0]), b"\0\0\0")


def test_a_state_written_by_kafka_is_taken_up() -> None:
    machine = ShareStateMachine()
    for _, _, record in BY_KAFKA:
        machine.apply(record)
    stored = machine.begin(BEGUN, Offset(5), leader_epoch=LeaderEpoch(0), now=Millis(1)).reply
    assert (stored.start_offset, stored.state_epoch) == (0, 2)
    assert stored.batches[0] == StateBatch(0, 0, ACKNOWLEDGED, 1)


def test_every_so_many_updates_all_is_said_again() -> None:
    machine = ShareStateMachine(updates_per_snapshot=2)

    def run(records: object) -> list[str]:
        assert isinstance(records, list | tuple)
        for record in records:
            machine.apply(record)
        return [type(record).__name__ for record in records]

    run(machine.initialize(LATER, Offset(0), leader_epoch=LeaderEpoch(0), state_epoch=0, now=Millis(1)).records)
    seen = []
    for offset in range(1, 5):
        update = Update(Offset(offset), 1, (StateBatch(offset + 1, offset + 1, ACKNOWLEDGED, 1),))
        seen.append(run(machine.write(LATER, update, Fence(LeaderEpoch(0), 0), Millis(offset)).records))
    assert seen == [["ShareUpdate"], ["ShareUpdate"], ["ShareUpdate", "ShareSnapshot"], ["ShareUpdate"]]
    rebuilt = ShareStateMachine()
    for record in machine.snapshot():
        rebuilt.apply(record)
    assert rebuilt.read(LATER).reply == machine.read(LATER).reply
