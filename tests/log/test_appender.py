"""Offsets of appends, and batches that a producer repeats."""

from __future__ import annotations

from tests.log.support import NOW, Log, batch


def test_offsets_are_dense_and_answered() -> None:
    log = Log()
    first, second = log.append(b"a", b"b", b"c"), log.append(b"d")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 2, 3)
    assert log.partition.log_end_offset == log.partition.high_watermark == 4


def test_all_appends_of_a_turn_are_committed_together() -> None:
    log = Log()
    assert log.stage(batch(b"a")).pending is log.stage(batch(b"b")).pending
    log.commit.end_turn()
    assert log.partition.high_watermark == 2


def test_a_duplicate_is_answered_with_its_old_offsets() -> None:
    log = Log()
    data = batch(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    log.stage(bytearray(data))
    log.commit.end_turn()
    log.append(b"c")

    again = log.stage(data)

    assert (again.base_offset, again.last_offset) == (0, 1)
    assert again.pending.is_done
    assert log.partition.log_end_offset == 3


def test_a_duplicate_of_what_is_under_way_waits_for_it() -> None:
    log = Log()
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    first, again = log.stage(bytearray(data)), log.stage(data)
    assert again.pending is first.pending
    assert not again.pending.is_done


def test_a_duplicate_is_answered_with_its_time() -> None:
    log = Log()
    for _ in range(2):
        appended = log.append(b"a", producer_id=1, producer_epoch=0, base_sequence=0, timestamp=NOW - 5)
    assert appended.log_append_time == NOW - 5
