"""Lanes: records of a topic that is delivered by priority wait until a consumer asks, and come the highest class first."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from kompat.extensions.headers import DEFAULT_PRIORITY
from kompat.extensions.priority import lane_interceptor, lane_release, lanes
from kompat.log import packing
from kompat.log.partition import Isolation
from kompat.protocol.records import Compression, ControlType, Record, build_batch, iterate
from kompat.types import Offset
from tests.extensions.priority.support import LanesLog, slots_of
from tests.extensions.support import delivered, message

DAY = 86_400_000


def backlog(log: LanesLog, *classes: int | str | None) -> None:
    """One batch each, of one record that is named like its class and place."""
    for place, priority in enumerate(classes):
        asked = {} if priority is None else {"priority": priority}
        log.send(f"{priority}-{place}", **asked)


def mixed(log: LanesLog, *classes: int | None, **options: Any) -> Offset:
    """One batch of all."""
    records = [
        message(f"{c}-{place}", now=log.now, **({} if c is None else {"priority": c}))
        for place, c in enumerate(classes)
    ]
    return log.send_all(records, **options)


# -- order ---------------------------------------------------------------------------------------------------------


def test_the_highest_class_comes_first_and_within_a_class_the_first_sent() -> None:
    log = LanesLog()
    backlog(log, 0, None, 9, "high", 9, 4, "background")

    assert log.texts() == []
    assert log.depths == {0: 2, 4: 2, 7: 1, 9: 2}
    assert log.poll() == ["9-2", "9-4", "high-3", "None-1", "4-5", "0-0", "background-6"]
    assert log.depths == {}


def test_a_batch_of_all_classes_comes_in_its_parts() -> None:
    log = LanesLog()
    mixed(log, 0, 9, None, 9, 0)

    assert log.poll() == ["9-1", "9-3", "None-2", "0-0", "0-4"]


def test_what_comes_later_and_is_more_urgent_overtakes_what_still_waits() -> None:
    log = LanesLog(kompat_priority_release_max_records=2)
    mixed(log, 1, 1, 1)
    assert log.poll() == ["1-0", "1-1"]
    backlog(log, 8)

    assert log.drain() == ["8-0", "1-2"]


def test_a_fetch_gets_no_more_than_the_setting_and_the_bytes_it_asked_for() -> None:
    log = LanesLog(kompat_priority_release_max_records=4)
    mixed(log, *[3] * 10)

    assert len(log.poll()) == 4
    assert log.poll(max_bytes=1) == ["3-4"]
    assert len(log.poll(max_bytes=500)) == 2
    assert log.drain() == ["3-7", "3-8", "3-9"]


def test_replay_gives_the_same_order_again() -> None:
    log = LanesLog(kompat_priority_release_max_records=2)
    mixed(log, 1, 5, None)
    first = log.poll()
    mixed(log, 9)
    first += log.drain()
    log.restart()

    assert log.texts() == first == ["5-1", "None-2", "9-0", "1-0"]


def test_nobody_asks_and_nothing_is_released() -> None:
    log = LanesLog()
    log.ask("gone")
    log.leave("gone")
    backlog(log, 1, 2)
    log.commit.end_turn()

    assert log.texts() == []


def test_who_waits_gets_what_comes_later() -> None:
    log = LanesLog()
    assert not log.ask("waits")
    backlog(log, 1)
    log.commit.end_turn()
    assert log.texts() == ["1-0"]

    log.leave("waits")
    backlog(log, 2)
    log.commit.end_turn()
    assert log.texts() == ["1-0"]


def test_who_waits_for_more_than_one_release_gives_gets_the_next_too_but_not_more_than_it_takes() -> None:
    log = LanesLog(kompat_priority_release_max_records=1)
    mixed(log, *[3] * 9)

    log.ask("waits", max_bytes=250)
    for _ in range(9):
        log.commit.end_turn()

    assert 1 < len(log.texts()) < 4


# -- what a record looks like --------------------------------------------------------------------------------------


def test_a_record_keeps_what_it_was_sent_with_and_tells_of_its_slot() -> None:
    log = LanesLog()
    log.send("before")
    sent = Record(0, log.now - 5, None, None, (("a", b"1"), ("kompat-priority", b"9"), ("b", None)))
    slot = log.send_all([sent])

    log.settle()
    record = log.records()[0]

    assert slot == 1
    assert (record.key, record.value, record.timestamp) == (None, None, sent.timestamp)
    assert tuple(record.headers[:3]) == sent.headers
    assert delivered(record) == (slot, sent.timestamp)


def test_what_waited_for_half_of_its_retention_gets_the_time_of_its_release() -> None:
    log = LanesLog(retention_ms=10 * DAY)
    log.send("old")
    sent = log.now
    log.clock.advance(5 * DAY + 1)
    log.send("young")

    log.settle()
    old, young = log.records()

    assert (old.timestamp, delivered(old)[1]) == (log.now, sent)
    assert young.timestamp == log.now
    log.partition.upkeep.enforce_retention(log.now)
    assert len(log.records()) == 2


@pytest.mark.parametrize("codec", list(Compression))
def test_the_codec_stays(codec: Compression) -> None:
    log = LanesLog()
    mixed(log, 1, 9, *[None] * 50, compression=codec)
    log.settle()

    released = log.headers_of_batches()[-1]
    assert (released.compression, released.record_count) == (codec, 52)


def test_a_producer_is_told_true_offsets_and_its_retries_are_recognised() -> None:
    log = LanesLog()
    batch = build_batch([message("once", now=log.now)], producer_id=1, producer_epoch=0, base_sequence=0)

    first = log.stage(bytearray(batch))
    log.commit.end_turn()
    log.settle()
    again = log.stage(bytearray(batch))
    log.commit.end_turn()

    assert first.base_offset == again.base_offset == 0
    assert log.drain() == []
    assert log.texts() == ["once"]


def test_a_repeated_message_id_is_dropped() -> None:
    log = LanesLog()
    log.send("a", msg_id="1", priority=2)
    log.send("b", msg_id="1", priority=9)

    assert log.drain() == ["a"]


def test_a_wrong_priority_is_refused() -> None:
    log = LanesLog()

    assert "kompat-priority: '10'" in str(log.refused(priority=10).message)
    assert log.depths == {}


def test_a_batch_that_would_not_fit_in_a_segment_is_refused_when_it_comes() -> None:
    log = LanesLog(segment_bytes=1000)

    assert log.refuse(build_batch([message("x" * 900, now=log.now)])).code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_large_batch_is_parked_in_parts(monkeypatch: pytest.MonkeyPatch, is_transactional: bool) -> None:
    monkeypatch.setattr(lane_interceptor, "RUN_RECORDS", 10)
    log = LanesLog(kompat_priority_release_max_records=7)
    log.send("before", priority=9)
    ids = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if is_transactional else {}
    slot = mixed(log, *[None] * 35, is_transactional=is_transactional, compression=Compression.LZ4, **ids)
    if is_transactional:
        log.end_transaction(ControlType.COMMIT, 1)
    assert len(log.interceptor.view.range(lanes.QUEUE, lanes.QUEUE + b"\xff")) == 5

    assert log.drain() == ["before"] + [f"None-{place}" for place in range(35)]
    assert slots_of([r for r in log.records() if r.key == b"k"]) == [0, *range(slot, slot + 35)]
    assert log.lane_statistics().size == 0


# -- delay ---------------------------------------------------------------------------------------------------------


def test_a_delayed_record_enters_its_lane_when_it_is_due() -> None:
    log = LanesLog()
    slot = log.send("late", delay_ms=10, priority=9)
    log.send("soon", priority=8)
    sent = log.now
    assert log.depths == {8: 1}

    log.pass_time(10)
    assert log.depths == {8: 1, 9: 1}
    assert log.waiting() == []
    assert log.drain() == ["late", "soon"]
    late = log.records()[0]
    assert late.timestamp == sent + 10
    assert delivered(late) == (slot, sent)


def test_who_waits_gets_what_becomes_due() -> None:
    log = LanesLog()
    log.send("late", delay_ms=10)
    log.ask("waits")
    log.pass_time(10)
    log.commit.end_turn()

    assert log.texts() == ["late"]


def test_queues_are_told_how_long_a_record_lives_from_when_it_came() -> None:
    log = LanesLog()
    log.send("short", ttl_ms=100, priority=9)
    log.send("long")
    came = log.now
    log.clock.advance(50)
    log.settle()

    [batch] = log.interceptor.priorities.find(DEFAULT_PRIORITY, 0, log.partition.log_end_offset, 10)
    [run] = batch.runs
    assert log.records()[0].offset == run.first == run.last
    assert run.expires == came + 100


# -- transactions --------------------------------------------------------------------------------------------------


def in_a_transaction(log: LanesLog, *classes: int, producer: int = 1, sequence: int = 0) -> None:
    mixed(
        log,
        *classes,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def test_a_transactions_records_come_with_its_commit() -> None:
    log = LanesLog()
    in_a_transaction(log, 1, 9, 9)
    backlog(log, 9)
    assert log.lane_statistics().undecided == 3
    assert log.drain() == ["9-0"]

    log.end_transaction(ControlType.COMMIT, 1)

    assert log.depths == {1: 1, 9: 2}
    assert log.drain() == ["9-1", "9-2", "1-0"]
    assert [(r.value or b"").decode() for r in log.records(isolation=Isolation.READ_COMMITTED) if r.key == b"k"] == [
        "9-0",
        "9-1",
        "9-2",
        "1-0",
    ]
    assert log.lane_statistics().size == 0


def test_an_aborted_transactions_records_never_come() -> None:
    log = LanesLog()
    in_a_transaction(log, 1, 9)
    log.end_transaction(ControlType.ABORT, 1)

    assert log.drain() == []
    statistics = log.lane_statistics()
    assert (statistics.undecided, statistics.size) == (0, 0)


def test_transactions_of_two_producers_do_not_meet() -> None:
    log = LanesLog()
    in_a_transaction(log, 1, producer=1)
    in_a_transaction(log, 2, producer=2)
    log.end_transaction(ControlType.ABORT, 1)
    log.end_transaction(ControlType.COMMIT, 2)

    assert log.drain() == ["2-0"]


# -- where the log ends --------------------------------------------------------------------------------------------


def test_who_asks_where_the_log_ends_gets_all_that_wait_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_release, "AT_ONCE", 3)
    log = LanesLog(kompat_priority_release_max_records=1, kompat_priority_window=1)
    mixed(log, *[1] * 5, *[7] * 5)

    settled = log.settle()

    assert settled.error is None
    assert [text[0] for text in log.texts()] == ["7"] * 5 + ["1"] * 5


def test_what_comes_while_it_is_settled_does_not_put_off_the_end() -> None:
    log = LanesLog()
    backlog(log, 1)
    fetch_listener = log.partition.fetch_listener
    assert fetch_listener is not None
    settled = fetch_listener.release_all()
    log.stage_all([message("later", now=log.now, priority=9)])
    log.commit.end_turn()

    assert settled.is_done
    assert log.texts() == ["1-0"]
    assert log.drain() == ["later"]


def test_who_waits_for_the_end_hears_that_the_disk_refuses() -> None:
    log = LanesLog()
    backlog(log, 1)
    log.store.is_full = True
    settled = log.settle()
    log.store.is_full = False

    assert settled.error is not None
    assert settled.error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.drain() == ["1-0"]


# -- the setting ---------------------------------------------------------------------------------------------------


def test_turned_off_all_are_released_and_the_partition_is_an_ordinary_one() -> None:
    log = LanesLog()
    backlog(log, 1, 9)
    log.turn("offset")
    log.commit.end_turn()
    assert log.texts() == ["9-1", "1-0"]

    backlog(log, 2, 3)
    assert log.texts()[2:] == ["2-0", "3-1"]
    assert log.partition.fetch_listener is None


def test_turned_on_it_is_for_new_records() -> None:
    log = LanesLog(kompat_delivery_order="offset")
    backlog(log, 1, 9)
    log.turn("priority")
    backlog(log, 1, 9)

    assert log.texts() == ["1-0", "9-1"]
    assert log.drain() == ["9-1", "1-0"]


def test_turned_off_while_the_broker_was_down() -> None:
    log = LanesLog()
    backlog(log, 1, 9)
    log.config = LanesLog(kompat_delivery_order="offset").config
    log.restart()
    log.commit.end_turn()

    assert log.texts() == ["9-1", "1-0"]


def test_a_transaction_that_ends_after_it_was_turned_off_comes_too() -> None:
    log = LanesLog()
    in_a_transaction(log, 1, 9)
    log.turn("offset")
    log.end_transaction(ControlType.COMMIT, 1)
    log.commit.end_turn()

    assert [text for text in log.texts() if "-" in text] == ["9-1", "1-0"]


def test_extensions_turned_off_turn_lanes_off() -> None:
    log = LanesLog(kompat_extensions_enable=False)
    backlog(log, 1, 9)

    assert log.texts() == ["1-0", "9-1"]


# -- the window ----------------------------------------------------------------------------------------------------


def test_the_window_bounds_what_no_group_has_committed() -> None:
    log = LanesLog(kompat_priority_window=3)
    mixed(log, *[1] * 8)
    assert len(log.poll()) == 3
    assert log.poll() == []

    first = log.records()[0].offset
    log.committed = Offset(first + 2)
    assert len(log.poll()) == 2

    log.committed = log.partition.log_end_offset
    assert len(log.poll()) == 3


def test_who_waits_goes_on_with_the_commit() -> None:
    log = LanesLog(kompat_priority_window=1)
    mixed(log, 1, 2)
    log.ask("waits")
    log.commit.end_turn()
    assert log.texts() == ["2-1"]

    log.committed = log.partition.log_end_offset
    log.releases.offsets_committed()
    log.commit.end_turn()

    assert log.texts() == ["2-1", "1-0"]


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_window_is_remembered(is_killed: bool) -> None:
    log = LanesLog(kompat_priority_window=2)
    mixed(log, *[1] * 5)
    assert len(log.poll()) == 2
    if is_killed:
        log.kill()
    else:
        log.store.is_full = True
        log.append(b"refused")
        log.store.is_full = False

    assert log.poll() == []
    log.committed = log.partition.log_end_offset
    assert len(log.poll()) == 2


def test_without_knowledge_of_all_commits_there_is_no_window() -> None:
    """It would never open again."""
    log = LanesLog(kompat_priority_window=1)
    log.knows_all_commits = False
    mixed(log, 1, 2, 3)

    assert log.poll() == ["3-2", "2-1", "1-0"]
    assert log.interceptor.view.range(lanes.RELEASED, lanes.RELEASED + b"\xff") == []


# -- traps ---------------------------------------------------------------------------------------------------------


def test_trap_1_taking_the_most_urgent_first_skips_none_of_the_others() -> None:
    """With one cursor over the log, those before the one that was taken would be lost."""
    log = LanesLog(kompat_priority_release_max_records=1)
    mixed(log, 2, 9, 5)

    assert log.drain() == ["9-1", "5-2", "2-0"]
    assert log.drain() == []


def test_trap_2_a_batch_that_is_reordered_is_not_delivered_twice() -> None:
    """Offsets in the log ascend, so who goes on after the last record that it got, gets each once."""
    log = LanesLog(kompat_priority_release_max_records=2)
    mixed(log, 2, 9, 5, 7, 1)
    position, seen = Offset(0), []
    while log.poll():
        read = log.read(position)
        found = [record for buffer in read.buffers for record in iterate(buffer)]
        seen += [record.value for record in found]
        position = Offset(found[-1].offset + 1)

    assert seen == [b"9-1", b"7-3", b"5-2", b"2-0", b"1-4"]


def test_trap_3_a_consumer_that_has_passed_the_slot_sees_the_record() -> None:
    """And nothing is left behind it that could hold back the mark up to which all is acknowledged."""
    log = LanesLog(kompat_priority_release_max_records=1)
    mixed(log, 1, 9)
    log.poll()
    passed = log.partition.log_end_offset

    log.poll()

    found = log.records(passed)
    assert [record.value for record in found] == [b"1-0"]
    assert slots_of(found) == [0]
    assert all(not header.record_count or header.record_count == header.last_offset_delta + 1
               for header in log.headers_of_batches())  # fmt: skip


# -- batches that clients can unpack -----------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_what_is_released_at_once_is_small_before_compression_headers_included(codec: Compression) -> None:
    log = LanesLog()
    records = [message(str(number), now=log.now, note="x" * 50_000) for number in range(20)]
    log.send_all(records, compression=codec)

    assert log.drain() == [str(number) for number in range(20)]
    assert max(log.plain_sizes()) <= packing.BATCH_BYTES


def test_what_was_delayed_and_waits_in_a_lane_is_released_in_small_batches() -> None:
    log = LanesLog()
    texts = [str(number) + "x" * 50_000 for number in range(40)]
    for text in texts:
        log.send_all([message(text, now=log.now, delay_ms=10)], compression=Compression.ZSTD)

    log.pass_time(10)

    assert log.drain() == texts
    assert max(log.plain_sizes()) <= packing.BATCH_BYTES


def test_a_run_that_has_no_room_in_memory_is_opened_once_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr(lane_release, "KEPT_BYTES", 1)
    monkeypatch.setattr(lanes, "iterate", lambda batch: opened.append(batch) or iterate(batch))
    log = LanesLog()
    texts = [str(number) + "x" * 50_000 for number in range(40)]
    log.send_all([message(text, now=log.now) for text in texts], compression=Compression.ZSTD)

    assert log.drain() == texts
    assert len(opened) == 1
