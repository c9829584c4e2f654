"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers, DescribeLogDirs: what is asked of logs."""

from __future__ import annotations

import time
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode

from .conftest import Asker
from .records import produce

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NOTHING = (ErrorCode.NONE, -1, -1)
NOW = int(time.time() * 1000)


def look_up(
    ask: Asker, topic: str, timestamp: int, version: int = 11, index: int = 0, **more: Any
) -> tuple[int, int, int]:
    """Error code, offset and timestamp."""
    epoch = more.pop("current_leader_epoch", -1)
    asked = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
    answer = ask("ListOffsets", version, topics=[{"name": topic, "partitions": [asked]}], **more)
    [partition] = answer.topics[0].partitions
    return partition.error_code, partition.offset, partition.timestamp


@pytest.fixture
def topic(ask: Asker) -> str:
    """Records at -5 s, -1 s and -3 s in one batch, then one at -2 s."""
    name = ask.new_topic(partitions=2)
    produce(ask, name, [NOW - 5000, NOW - 1000, NOW - 3000])
    produce(ask, name, [NOW - 2000])
    return name


# -- ListOffsets -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_of_a_log_are_found_in_every_version(ask: Asker, topic: str, version: int) -> None:
    assert look_up(ask, topic, EARLIEST, version) == (ErrorCode.NONE, 0, -1)
    assert look_up(ask, topic, LATEST, version) == (ErrorCode.NONE, 4, -1)


@pytest.mark.parametrize(
    ("ago", "offset", "found"), [(9000, 0, 5000), (5000, 0, 5000), (4999, 1, 1000), (1000, 1, 1000)]
)
def test_the_first_record_at_or_after_a_time_is_found(
    ask: Asker, topic: str, ago: int, offset: int, found: int
) -> None:
    assert look_up(ask, topic, NOW - ago) == (ErrorCode.NONE, offset, NOW - found)


def test_there_is_nothing_after_the_newest_record(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, NOW - 999) == NOTHING


def test_the_record_with_the_highest_timestamp_is_found(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, MAX_TIMESTAMP) == (ErrorCode.NONE, 1, NOW - 1000)
    assert look_up(ask, topic, MAX_TIMESTAMP, index=1) == NOTHING


def test_all_data_is_local(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, EARLIEST_LOCAL) == (ErrorCode.NONE, 0, -1)
    assert look_up(ask, topic, LATEST_TIERED) == NOTHING
    assert look_up(ask, topic, PENDING_UPLOAD) == NOTHING


@pytest.mark.parametrize(
    ("place", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING_UPLOAD, 10), (-7, 11)],
)
def test_a_place_that_the_version_does_not_know_is_not_supported(
    ask: Asker, topic: str, place: int, version: int
) -> None:
    assert look_up(ask, topic, place, version)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_client_with_another_leader_epoch_is_told(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, LATEST, current_leader_epoch=0)[0] == ErrorCode.NONE
    assert look_up(ask, topic, LATEST, current_leader_epoch=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_partitions_that_do_not_exist_are_told(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, LATEST, index=7)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(ask, "nope", LATEST)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_named_twice_is_refused_once(ask: Asker, topic: str) -> None:
    asked = [{"partition_index": 0, "timestamp": LATEST}, {"partition_index": 0, "timestamp": EARLIEST}]

    [answered] = ask("ListOffsets", 7, topics=[{"name": topic, "partitions": asked}]).topics

    assert [(p.partition_index, p.error_code) for p in answered.partitions] == [(0, ErrorCode.INVALID_REQUEST)]


def test_an_unknown_isolation_level_is_refused(ask: Asker, topic: str) -> None:
    assert look_up(ask, topic, LATEST, isolation_level=7)[0] == ErrorCode.INVALID_REQUEST


# -- DeleteRecords -----------------------------------------------------------------------------------------------------
def delete(ask: Asker, topic: str, offset: int, index: int = 0, version: int = 2) -> tuple[int, int]:
    asked = [{"partition_index": index, "offset": offset}]
    [answer] = ask("DeleteRecords", version, topics=[{"name": topic, "partitions": asked}], timeout_ms=1000).topics
    [partition] = answer.partitions
    return partition.error_code, partition.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_are_deleted(ask: Asker, topic: str, version: int) -> None:
    assert delete(ask, topic, 2, version=version) == (ErrorCode.NONE, 2)
    assert look_up(ask, topic, EARLIEST)[1] == 2


def test_all_records_are_deleted_up_to_the_high_watermark(ask: Asker, topic: str) -> None:
    assert delete(ask, topic, -1) == (ErrorCode.NONE, 4)
    assert look_up(ask, topic, EARLIEST)[1] == 4


def test_a_logs_start_never_moves_back(ask: Asker, topic: str) -> None:
    delete(ask, topic, 3)

    assert delete(ask, topic, 1) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("offset", [5, -2])
def test_an_offset_outside_the_log_is_refused(ask: Asker, topic: str, offset: int) -> None:
    assert delete(ask, topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_topics_that_only_compact_lose_no_records(ask: Asker) -> None:
    assert delete(ask, ask.new_topic(cleanup_policy="compact"), -1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(ask, ask.new_topic(cleanup_policy="compact,delete"), -1) == (ErrorCode.NONE, 0)


def test_internal_topics_lose_no_records(ask: Asker) -> None:
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])

    assert delete(ask, "__consumer_offsets", -1) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_records_of_missing_partitions_are_told(ask: Asker, topic: str) -> None:
    assert delete(ask, topic, 0, index=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------------
def epoch_end(ask: Asker, topic: str, epoch: int, current: int = -1, version: int = 4) -> tuple[int, int, int]:
    asked = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
    [answer] = ask("OffsetForLeaderEpoch", version, topics=[{"topic": topic, "partitions": asked}]).topics
    [partition] = answer.partitions
    return partition.error_code, partition.leader_epoch, partition.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_with_the_log(ask: Asker, topic: str, version: int) -> None:
    assert epoch_end(ask, topic, 0, version=version) == (ErrorCode.NONE, 0, 4)


@pytest.mark.parametrize("epoch", [-1, 5])
def test_an_unknown_epoch_has_no_end(ask: Asker, topic: str, epoch: int) -> None:
    assert epoch_end(ask, topic, epoch) == (ErrorCode.NONE, -1, -1)


def test_an_epoch_is_asked_of_its_leader(ask: Asker, topic: str) -> None:
    assert epoch_end(ask, topic, 0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert epoch_end(ask, "nope", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


# -- DescribeProducers -------------------------------------------------------------------------------------------------
def test_the_producers_of_a_partition_are_told(ask: Asker) -> None:
    name = ask.new_topic()
    produce(ask, name, [NOW, NOW + 1], producer=(4444, 1, 0))
    produce(ask, name, [NOW + 2], producer=(4444, 1, 2))

    [topic] = ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}]).topics

    [producer] = topic.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (4444, 1, 2)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (NOW + 2, -1, -1)


def test_producers_of_what_does_not_exist_are_refused(ask: Asker) -> None:
    name = ask.new_topic()
    asked = [{"name": n, "partition_indexes": [9]} for n in (name, "nope", "bad name")]

    topics = ask("DescribeProducers", 0, topics=asked).topics

    assert [(t.partitions[0].error_code, t.partitions[0].error_message is None) for t in topics] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ]


# -- DescribeLogDirs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(1, 6))
def test_the_bytes_of_partitions_are_told(ask: Asker, topic: str, version: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 1, 9]}, {"topic": "nope", "partitions": [0]}]

    [directory] = ask("DescribeLogDirs", version, topics=asked).results

    [found] = directory.topics
    sizes = [(p.partition_index, p.partition_size > 0, p.offset_lag, p.is_future_key) for p in found.partitions]
    assert (found.name, sizes) == (topic, [(0, True, 0, False), (1, False, 0, False)])
    assert directory.log_dir == ":memory:"


def test_null_asks_for_all_partitions_and_none_for_the_disk_alone(ask: Asker, topic: str) -> None:
    [everything] = ask("DescribeLogDirs", 4, topics=None).results
    [nothing] = ask("DescribeLogDirs", 4, topics=[]).results

    assert topic in {t.name for t in everything.topics}
    assert nothing.topics == []


def test_a_disk_tells_its_size(tmp_path: Any) -> None:
    with kompat.testing.broker(data=str(tmp_path)) as running:
        [directory] = Asker(running)("DescribeLogDirs", 5, topics=[]).results

    assert directory.log_dir == str(tmp_path)
    assert directory.total_bytes >= directory.usable_bytes > 0
    assert directory.is_cordoned is False
