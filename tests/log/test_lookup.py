"""Offsets by time, and those of the newest record and of the end."""

from __future__ import annotations

from kompat.log.partition import FoundOffset, Isolation
from kompat.protocol.records import Record, build_batch
from kompat.types import Offset
from tests.log.support import COMMITTED, NOW, UNCOMMITTED, Log, delete, run

TRANSACTION = {"producer_epoch": 0, "is_transactional": True}


def at_time(log: Log, timestamp: int, isolation: Isolation = UNCOMMITTED) -> int | None:
    found = run(log.partition.offset_for_time(timestamp, isolation))
    return found.offset if found else None


def test_the_first_record_at_or_after_a_time_is_found_inside_a_batch() -> None:
    log = Log()
    log.stage(build_batch([Record(i, NOW + t, None, b"v") for i, t in enumerate([0, 30, 10, 40])]))
    log.commit.end_turn()
    assert [at_time(log, NOW + t) for t in (-5, 0, 5, 30, 31, 40, 41)] == [0, 0, 1, 1, 3, 3, None]


def test_the_time_index_survives_out_of_order_timestamps() -> None:
    log = Log(segment_bytes=200_000, message_timestamp_after_max_ms=1 << 60)
    times = [i * 10 for i in range(40)]
    times[7] = 10_000  # an outlier
    for t in times:
        log.append(b"x" * 40_000, timestamp=NOW + t)
    for t in (0, 65, 66, 200, 395, 9_000, 10_001):
        expected = next((i for i, own in enumerate(times) if own >= t), None)
        assert at_time(log, NOW + t) == expected
    log.kill()
    assert at_time(log, NOW + 55) == 6


def test_deleted_records_are_not_found_by_time() -> None:
    log = Log()
    log.stage(build_batch([Record(i, NOW, None, b"v") for i in range(4)]))
    log.commit.end_turn()
    delete(log, 2)
    assert at_time(log, NOW) == 2


def test_the_newest_timestamp_is_found_with_its_first_record() -> None:
    log = Log(segment_bytes=200)
    for t in (0, 50, 20, 50):
        log.append(b"x" * 50, b"y", timestamp=NOW + t)
    found = run(log.partition.max_timestamp_offset())
    assert found == FoundOffset(Offset(2), NOW + 50, 0)
    delete(log, 5)
    found = run(log.partition.max_timestamp_offset())
    assert found == FoundOffset(Offset(6), NOW + 50, 0)


def test_an_empty_log_has_no_newest_record() -> None:
    assert run(Log().partition.max_timestamp_offset()) is None


def test_nothing_beyond_the_stable_offset_is_found_by_time() -> None:
    log = Log()
    log.append(b"a", timestamp=NOW)
    log.append(b"open", producer_id=1, base_sequence=0, timestamp=NOW + 9, **TRANSACTION)
    assert at_time(log, NOW + 9) == 1
    assert at_time(log, NOW + 9, COMMITTED) is None


def test_latest_depends_on_the_isolation() -> None:
    log = Log()
    log.append(b"open", producer_id=1, base_sequence=0, **TRANSACTION)
    assert (log.partition.latest().offset, log.partition.latest(COMMITTED).offset) == (1, 0)
