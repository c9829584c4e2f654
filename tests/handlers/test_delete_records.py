"""DeleteRecords."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.topic_with_records import EARLIEST, look_up, topic

__all__ = ["topic"]


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
