"""Segments and what retention does with them."""

from typing import Any

import pytest

from kompat.config.topic import TopicConfig
from kompat.log.segments import Segment
from kompat.types import Millis, Offset, RaftIndex
from tests.log.support import NOW, Log, batch

DAY = 86_400_000
ONE = len(batch(b"x" * 100))


def filled(count: int, **config: Any) -> Log:
    """One batch per segment, a second apart."""
    log = Log(segment_bytes=ONE, **config)
    for i in range(count):
        log.append(b"x" * 100, timestamp=NOW + i * 1000)
    return log


def retain(log: Log) -> int:
    count = log.partition.upkeep.enforce_retention(log.clock.now())
    log.commit.end_turn()
    return count


def bases(log: Log) -> list[int]:
    return [s.base_offset for s in log.partition.state.segments.all()]


# -- roll --------------------------------------------------------------------------------------------------------------
def a_segment(**fields: Any) -> Segment:
    return Segment(Offset(0), RaftIndex(1), Millis(NOW), **fields)


def test_a_segment_rolls_before_it_grows_above_segment_bytes() -> None:
    segment, config = a_segment(size=60), TopicConfig(segment_bytes=100)
    assert not segment.is_full(40, NOW, NOW, config, 0)
    assert segment.is_full(41, NOW, NOW, config, 0)


def test_an_empty_segment_never_rolls() -> None:
    assert not a_segment().is_full(500, NOW, NOW + 10 * DAY, TopicConfig(segment_bytes=100, segment_ms=1), 0)


def test_a_segment_rolls_when_records_are_segment_ms_apart() -> None:
    segment, config = a_segment(size=1, first_timestamp=NOW), TopicConfig(segment_ms=1000)
    assert not segment.is_full(1, NOW + 1000, NOW + DAY, config, 0)
    assert segment.is_full(1, NOW + 1001, NOW, config, 0)
    assert segment.is_full(1, NOW + 901, NOW, config, 100)


def test_without_timestamps_a_segment_rolls_by_its_age() -> None:
    segment, config = a_segment(size=1), TopicConfig(segment_ms=1000)
    assert not segment.is_full(1, -1, NOW + 1000, config, 0)
    assert segment.is_full(1, -1, NOW + 1001, config, 0)


def test_a_compacted_topic_rolls_in_time_for_max_compaction_lag() -> None:
    segment, config = a_segment(size=1, first_timestamp=NOW), TopicConfig(compact=True, max_compaction_lag_ms=10)
    assert segment.is_full(1, NOW + 11, NOW, config, 0)


def test_segments_keep_their_facts_when_stored() -> None:
    segment = a_segment(size=5, first_timestamp=3, max_timestamp=9, max_timestamp_batch=2)
    assert Segment.decode(segment.encode()) == segment


# -- retention ---------------------------------------------------------------------------------------------------------
def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = filled(4, retention_ms=10_000)
    log.clock.advance(11_000)  # the first is 11 s old, the second 10 s
    assert retain(log) == 1
    assert log.partition.log_start_offset == 1
    log.clock.advance(1)
    assert retain(log) == 1
    assert bases(log) == [2, 3]


def test_the_active_segment_goes_too_when_all_of_it_is_too_old() -> None:
    log = filled(3, retention_ms=1000)
    log.clock.advance(DAY)
    assert retain(log) == 3
    partition = log.partition
    assert (partition.log_start_offset, partition.log_end_offset, partition.size) == (3, 3, 0)
    assert log.partition.store.size() == 0
    assert retain(log) == 0
    assert log.kill().log_start_offset == 3
    assert log.append(b"x").base_offset == 3


def test_no_more_goes_than_retention_bytes_allows() -> None:
    log = filled(5, retention_bytes=2 * ONE + 1, retention_ms=-1)
    assert retain(log) == 2
    assert log.partition.size == 3 * ONE
    log.configure(segment_bytes=ONE, retention_bytes=2 * ONE, retention_ms=-1)
    assert retain(log) == 1
    assert bases(log) == [3, 4]


def test_without_limits_everything_stays() -> None:
    log = filled(3, retention_ms=-1)
    log.clock.advance(1000 * DAY)
    assert retain(log) == 0


def test_a_compacted_topic_loses_nothing_by_age() -> None:
    log = filled(3, compact=True, delete=False, retention_ms=1, retention_bytes=0)
    log.clock.advance(DAY)
    assert retain(log) == 0


def test_compact_and_delete_together_delete() -> None:
    log = filled(3, compact=True, delete=True, retention_ms=1)
    log.clock.advance(DAY)
    assert retain(log) == 3


def test_segments_before_the_logs_start_go_whatever_the_policy() -> None:
    log = filled(4, retention_ms=-1)
    log.run(log.partition.delete_records(Offset(2)))
    assert log.partition.size == 4 * ONE
    assert retain(log) == 2
    assert (log.partition.size, log.partition.log_start_offset) == (2 * ONE, 2)
    log.configure(compact=True, delete=False)
    assert retain(log) == 0


def test_what_is_not_committed_stays() -> None:
    log = filled(2, retention_ms=1)
    log.stage(batch(b"x" * 100))
    log.clock.advance(DAY)
    assert log.partition.upkeep.enforce_retention(log.clock.now()) == 2
    log.commit.end_turn()
    assert (log.partition.log_start_offset, log.partition.high_watermark) == (2, 3)


def test_a_segment_without_timestamps_goes_by_its_age() -> None:
    log = Log(retention_ms=1000)
    log.append(b"x", timestamp=-1)
    assert retain(log) == 0
    log.clock.advance(1001)
    assert retain(log) == 1


def test_aborted_transactions_go_with_their_segments() -> None:
    from kompat.protocol.records import ControlType

    log = Log(retention_ms=1000)
    log.append(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.end_transaction(ControlType.ABORT, 1)
    log.clock.advance(DAY)
    retain(log)
    assert len(log.partition.state.aborted) == 0
    assert not list(log.partition.store.states(b"aborted/"))


def test_a_removal_that_the_disk_refused_has_not_been() -> None:
    log = filled(3, retention_ms=1)
    log.clock.advance(DAY)
    log.store.is_full = True
    retain(log)
    assert log.partition.log_start_offset == 0
    assert len(log.records()) == 3


@pytest.mark.parametrize("restart", ["kill", "restart"])
def test_retention_goes_on_after_a_restart(restart: str) -> None:
    log = filled(6, retention_ms=10_000)
    log.clock.advance(12_500)
    retain(log)
    getattr(log, restart)()
    assert bases(log) == [3, 4, 5]
    log.clock.advance(2_000)
    assert retain(log) == 2
    assert [r.offset for r in log.records(5)] == [5]
