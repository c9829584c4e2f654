"""Delayed records in a partition: offsets, positions of consumers, the order of timers, cancelling."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay import scheduler
from kompat.log.partition import Isolation
from kompat.protocol.records import build_batch, read_header
from kompat.types import Millis, Offset
from tests.extensions.support import ExtendedLog, message
from tests.log.support import NOW, records_of


@pytest.fixture
def log() -> ExtendedLog:
    return ExtendedLog()


def poll(log: ExtendedLog, position: int) -> tuple[list[bytes | None], int]:
    """As a consumer does: what is there from its position on, and the position after it."""
    found = log.read(position)
    return [r.value for r in records_of(found) if r.offset >= position], found.next_offset


def test_a_consumer_that_has_passed_the_slot_sees_the_delayed_record(log: ExtendedLog) -> None:
    log.send("delayed", delay_ms=1000)
    log.send("at once")

    values, position = poll(log, 0)
    assert (values, position) == ([b"at once"], 2)
    log.pass_time(1000)
    assert poll(log, position) == ([b"delayed"], 3)


def test_a_consumers_position_advances_over_a_slot_that_is_last(log: ExtendedLog) -> None:
    log.send("delayed", delay_ms=1000)

    found = log.read(0)

    assert (found.size, found.next_offset, records_of(found)) == (61, 1, [])
    assert poll(log, 1) == ([], 1)


@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_slots_before_records_are_not_sent_and_of_slots_at_the_end_the_last_is(cache: int) -> None:
    log = ExtendedLog(cache=cache)
    for i in range(20):
        log.send("delayed", delay_ms=100_000)
        if i == 9:
            log.append(b"between")

    first = log.read(0, 300)
    second = log.read(11, 300)

    assert [r.value for r in records_of(first)][:1] == [b"between"]
    assert first.next_offset > 10
    assert (second.size, second.next_offset) == (61, 21)


def test_a_walk_over_slots_ends_and_goes_on(log: ExtendedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kompat.log.empty_batches.AT_ONCE", 3)
    for _ in range(40):
        log.send("delayed", delay_ms=100_000)
    log.append(b"at last")

    position, polls, values = 0, 0, []
    while not values:
        values, position = poll(log, position)
        polls += 1

    assert values == [b"at last"]
    assert polls < 10


def test_a_delay_does_not_hold_back_the_stable_offset_or_the_high_watermark(log: ExtendedLog) -> None:
    log.send("delayed", delay_ms=1000)
    log.send("at once")

    assert log.partition.high_watermark == log.partition.last_stable_offset == 2
    assert log.partition.latest(Isolation.READ_COMMITTED).offset == 2


def test_offsets_are_given_by_the_log_and_never_twice(log: ExtendedLog) -> None:
    slots = [log.send("v", delay_ms=1000)]
    log.kill()
    slots.append(log.send("v", delay_ms=1000))
    log.pass_time(1000)
    log.kill()
    slots.append(log.send("v", delay_ms=1000))

    assert slots == [0, 1, 4]


def test_what_becomes_of_a_batch_follows_from_its_time_and_not_from_the_clock() -> None:
    """Time comes with the batch: a replica that takes it later comes to the same result."""
    sent = build_batch([message("v", now=NOW, delay_ms=100, msg_id="m", schedule_id="s")])
    results = []
    for behind in (0, 5000):
        log = ExtendedLog()
        log.clock.advance(behind)
        intercepted = log.interceptor.intercept(memoryview(sent), read_header(sent), ~0, Offset(5), Millis(NOW))
        assert intercepted is not None
        results.append((bytes(intercepted.batch), list(intercepted.writes)))

    assert results[0] == results[1]


def test_a_relative_delay_counts_from_the_append_not_from_a_restart(log: ExtendedLog) -> None:
    log.send("v", delay_ms=1000)
    log.clock.advance(600)
    log.kill()

    log.pass_time(399)
    assert log.texts() == []
    log.pass_time(1)
    assert log.texts() == ["v"]


def test_timers_may_come_out_of_order(log: ExtendedLog) -> None:
    for delay in (500, 100, 300, 200, 400):
        log.send(str(delay), delay_ms=delay)
    for step in (100, 200, 300, 400, 500):
        log.pass_time(100)
        assert log.texts()[-1] == str(step)


def test_delays_shorter_than_a_tick_end_in_their_order_and_none_early(log: ExtendedLog) -> None:
    for delay in (2, 1, 3):
        log.send(str(delay), delay_ms=delay)
    assert log.texts() == []
    seen = []
    for _ in range(3):
        log.pass_time(1)
        seen.append(log.texts())

    assert seen == [["1"], ["1", "2"], ["1", "2", "3"]]


def test_a_delay_that_is_over_before_anybody_looks_is_delivered_with_the_first_look(log: ExtendedLog) -> None:
    log.send("long over", delay_ms=1)
    log.clock.advance(5000)
    log.kill()  # the timer that was set is gone, too
    log.deliver()

    assert log.texts() == ["long over"]


def test_one_that_comes_while_others_are_delivered_takes_its_place(
    log: ExtendedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "AT_ONCE", 1)
    log.send("a", delay_ms=10)
    log.send("c", delay_ms=30)
    log.clock.advance(40)
    log.scheduler.wake()  # a is on its way
    log.stage_all([message("b", now=NOW, deliver_at=log.now + 1)])
    log.commit.end_turn()
    log.pass_time(5)

    assert log.texts() == ["a", "c", "b"]


def test_cancelling_what_is_just_being_delivered_says_so(log: ExtendedLog) -> None:
    log.send("going", delay_ms=10)
    log.clock.advance(10)
    log.scheduler.wake()  # staged, not written

    with pytest.raises(KafkaError) as refused:
        log.run(log.delays.cancel("topic", 0, Offset(0)))

    assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
    assert log.texts() == ["going"]


def test_cancelling_the_next_while_some_are_delivered_holds(log: ExtendedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "AT_ONCE", 2)
    for name in ("a", "b", "c", "d"):
        log.send(name, delay_ms=10)
    log.clock.advance(10)
    log.scheduler.wake()  # a and b
    log.run(log.delays.cancel("topic", 0, Offset(2)))
    log.deliver()

    assert log.texts() == ["a", "b", "d"]
