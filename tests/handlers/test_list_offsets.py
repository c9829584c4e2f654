"""ListOffsets."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.topic_with_records import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NOW,
    PENDING_UPLOAD,
    look_up,
    topic,
)

__all__ = ["topic"]


NOTHING = (ErrorCode.NONE, -1, -1)


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
