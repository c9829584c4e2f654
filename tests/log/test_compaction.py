"""Compaction: the rules by name."""

import pytest

from kompat.log.compaction import dirty_part, is_due
from kompat.protocol.compression import Compression
from kompat.protocol.records import ControlType, Record, build_batch, iterate, split_batches
from tests.log.support import COMMITTED, COMPACT, NOW, UNCOMMITTED, Log, batch, content, run, write

TRANSACTION = {"producer_epoch": 0, "is_transactional": True}


@pytest.mark.parametrize("codec", list(Compression))
def test_the_newest_value_of_every_key_stays_at_its_offset(codec: Compression) -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), compression=codec)
    write(log, (b"b", b"2"), (b"c", b"1"), compression=codec)
    log.roll()

    assert log.compact()

    assert content(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]


def test_offsets_of_the_log_do_not_change() -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"))
    log.roll()
    log.compact()
    assert (log.partition.log_start_offset, log.partition.log_end_offset) == (0, 2)
    assert log.append(b"x").base_offset == 2
    log.kill()
    assert (log.partition.log_start_offset, log.partition.log_end_offset) == (0, 3)
    assert content(log) == [(1, b"a", b"2"), (2, b"key", b"x")]


def test_the_active_segment_is_left_alone() -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"1"), (b"a", b"2"))
    assert not log.compact()
    log.roll()
    write(log, (b"a", b"3"))
    log.compact()
    assert content(log) == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_the_clean_part_is_cleaned_by_what_came_later() -> None:
    log = Log(**COMPACT)
    for value in (b"1", b"2", b"3"):
        write(log, (b"a", value), (b"b" + value, value))
        log.roll()
        log.compact()
    assert content(log) == [(1, b"b1", b"1"), (3, b"b2", b"2"), (4, b"a", b"3"), (5, b"b3", b"3")]


def test_a_deletion_stays_for_its_time_and_then_goes() -> None:
    log = Log(**COMPACT, delete_retention_ms=1000)
    write(log, (b"a", b"1"))
    write(log, (b"a", None), (b"b", b"1"))
    log.roll()
    log.compact()
    assert content(log) == [(1, b"a", None), (2, b"b", b"1")]

    log.clock.advance(999)
    write(log, (b"c", b"1"))
    log.roll()
    log.compact()
    assert (1, b"a", None) in content(log)

    log.clock.advance(1)
    write(log, (b"d", b"1"))
    log.roll()
    log.compact()
    assert content(log) == [(2, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


def test_records_keep_their_timestamps_when_deletions_are_marked() -> None:
    log = Log(**COMPACT)
    times = [NOW - 50, NOW, NOW - 20]
    log.stage(build_batch([Record(i, t, b"%d" % i, None) for i, t in enumerate(times)]))
    log.commit.end_turn()
    log.roll()
    log.compact()
    assert [r.timestamp for r in log.records()] == times


def test_a_reader_gets_past_what_is_gone() -> None:
    log = Log()
    log.append(b"no key", b"no key", key=None)
    log.append(b"no key", key=None)
    log.configure(**COMPACT)
    log.roll()

    log.compact()

    result = log.read(0)
    assert content(log) == []
    assert result.next_offset == log.partition.high_watermark == 3
    write(log, (b"a", b"1"))
    log.roll()
    log.compact()
    assert log.partition.size == log.read(0).size == len(batch(b"1", key=b"a"))


def test_keys_longer_than_a_digest_are_told_apart() -> None:
    log = Log(**COMPACT)
    keys = [b"x" * 30 + b"%d" % i for i in range(3)]
    write(log, *((k, b"1") for k in keys))
    write(log, (keys[1], b"2"))
    log.roll()
    log.compact()
    assert content(log) == [(0, keys[0], b"1"), (2, keys[2], b"1"), (3, keys[1], b"2")]


def test_little_memory_takes_more_rounds_and_comes_to_the_same() -> None:
    log = Log(**COMPACT)
    for value in range(6):
        write(log, *((b"%d" % key, b"%d" % value) for key in range(4)))
    log.roll()
    rounds = 0
    while log.compact(memory=1):
        rounds += 1
    assert rounds == 6
    assert content(log) == [(20 + key, b"%d" % key, b"5") for key in range(4)]


def test_aborted_records_go_and_their_marker_follows_later() -> None:
    log = Log(**COMPACT, delete_retention_ms=10)
    write(log, (b"a", b"kept"))
    write(log, (b"a", b"aborted"), (b"b", b"aborted"), producer_id=1, base_sequence=0, **TRANSACTION)
    log.end_transaction(ControlType.ABORT, 1)
    write(log, (b"z", b"1"))
    log.roll()
    log.compact()
    assert [r.offset for r in log.records()] == [0, 3, 4]

    for value in (b"2", b"3"):
        log.clock.advance(11)
        write(log, (b"z", value))
        log.roll()
        log.compact()
    assert [r.offset for r in log.records()] == [0, 6]
    assert len(log.partition.state.aborted) == 0
    log.kill()
    assert log.read(0, isolation=COMMITTED).aborted == []


def test_an_aborted_record_does_not_supersede_a_committed_one() -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"kept"))
    write(log, (b"a", b"aborted"), producer_id=1, base_sequence=0, **TRANSACTION)
    log.end_transaction(ControlType.ABORT, 1)
    log.roll()
    log.compact()
    assert (0, b"a", b"kept") in content(log)


def test_a_commit_marker_stays_while_its_transaction_has_records() -> None:
    log = Log(**COMPACT, delete_retention_ms=0)
    write(log, (b"a", b"1"), producer_id=1, base_sequence=0, **TRANSACTION)
    log.end_transaction(ControlType.COMMIT, 1)
    for value in (b"1", b"2"):
        write(log, (b"z", value))
        log.roll()
        log.compact()
        log.clock.advance(1)
    assert [r.offset for r in log.records()] == [0, 1, 3]

    for value in (b"3", b"4", b"5"):
        write(log, (b"a", value))
        log.roll()
        log.compact()
        log.clock.advance(1)
    assert [r.offset for r in log.records()] == [3, 6]


def test_a_damaged_batch_stays_as_it_is_and_the_rest_is_cleaned() -> None:
    log = Log(**COMPACT, cache=0)
    write(log, (b"a", b"1"), (b"b", b"1"))
    write(log, (b"a", b"2"), (b"c", b"1"))
    write(log, (b"a", b"3"), (b"b", b"2"))
    log.roll()
    store = log.partition.store
    store.damage(2)
    damaged = store.content(2)

    log.compact()

    assert store.content(2) == damaged
    assert store.bases() == [2, 4]
    assert [(r.key, r.value) for r in iterate(store.content(4))] == [(b"a", b"3"), (b"b", b"2")]
    assert log.partition.damages.found == 1


def test_behind_a_damaged_marker_no_later_transaction_counts_as_aborted() -> None:
    log = Log(**COMPACT, cache=0)
    write(log, (b"a", b"aborted"), producer_id=1, base_sequence=0, **TRANSACTION)
    marker = log.end_transaction(ControlType.ABORT, 1).base_offset
    write(log, (b"a", b"committed"), producer_id=1, base_sequence=1, **TRANSACTION)
    log.end_transaction(ControlType.COMMIT, 1)
    log.roll()
    log.partition.store.damage(marker)

    log.compact()

    assert [(r.key, r.value) for r in iterate(log.partition.store.content(2))] == [(b"a", b"committed")]


def test_nothing_from_an_open_transaction_on_is_cleaned() -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"1"), (b"a", b"2"))
    write(log, (b"a", b"open"), producer_id=1, base_sequence=0, **TRANSACTION)
    write(log, (b"a", b"3"))
    log.roll()
    log.compact()
    assert [r.offset for r in log.records()] == [1, 2, 3]


def test_sizes_follow_what_is_left() -> None:
    log = Log(**COMPACT)
    for _ in range(10):
        write(log, (b"a", b"x" * 100))
    log.roll()
    log.compact()
    left = sum(len(b) for buffer in log.read().buffers for b in split_batches(memoryview(buffer)))
    assert log.partition.size == left == log.partition.store.size()
    assert log.kill().size == left


def test_empty_segments_are_forgotten() -> None:
    log = Log(**COMPACT)
    for _ in range(5):
        write(log, (b"a", b"1"))
        log.roll()
    log.compact()
    assert len(log.partition.state.segments.sealed) == 1
    log.kill()
    assert len(log.partition.state.segments.sealed) == 1
    assert content(log) == [(4, b"a", b"1")]


def test_the_newest_timestamp_is_that_of_what_is_left() -> None:
    log = Log(**COMPACT)
    log.append(b"1", timestamp=NOW + 50)
    log.append(b"2", timestamp=NOW)
    log.roll()
    log.compact()
    found = run(log.partition.max_timestamp_offset())
    assert found is not None
    assert (found.offset, found.timestamp) == (1, NOW)


# -- when --------------------------------------------------------------------------------------------------------------
def test_a_log_is_due_when_enough_of_it_is_dirty() -> None:
    log = Log(compact=True, delete=False, min_cleanable_dirty_ratio=0.5)
    for _ in range(4):
        write(log, (b"%d" % log.partition.log_end_offset, b"x" * 100))
        log.roll()
    log.compact()
    write(log, (b"new", b"x" * 100))
    log.roll()
    dirty = log.partition.upkeep.dirty_part(log.clock.now())
    assert dirty is not None
    assert not is_due(dirty, log.config)
    log.configure(compact=True, delete=False, min_cleanable_dirty_ratio=0.1)
    assert is_due(dirty, log.config)


def test_young_segments_wait_for_min_compaction_lag() -> None:
    log = Log(**COMPACT, min_compaction_lag_ms=1000)
    write(log, (b"a", b"1"))
    log.roll()
    log.clock.advance(500)
    write(log, (b"a", b"2"))
    log.roll()
    assert log.partition.upkeep.dirty_part(log.clock.now()) is None
    log.clock.advance(500)
    dirty = log.partition.upkeep.dirty_part(log.clock.now())
    assert dirty is not None
    assert (dirty.start, dirty.end) == (0, 1)


def test_old_segments_are_due_whatever_their_ratio() -> None:
    log = Log(compact=True, delete=False, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    write(log, (b"a", b"1"))
    log.roll()
    log.clock.advance(1001)
    dirty = log.partition.upkeep.dirty_part(log.clock.now())
    assert dirty is not None
    assert is_due(dirty, log.config)


def test_a_topic_that_is_not_compacted_is_never_dirty() -> None:
    log = Log()
    log.append(b"a")
    log.roll()
    assert dirty_part(log.partition.state, log.config, log.partition.last_stable_offset, NOW) is None


def test_tails_in_memory_do_not_show_what_was_cleaned() -> None:
    log = Log(**COMPACT)
    log.append(b"1")
    log.append(b"2")
    log.roll()
    log.append(b"3")
    log.compact()
    assert log.values() == [b"2", b"3"]
    assert log.partition.read(2, 1000, UNCOMMITTED) is not None
