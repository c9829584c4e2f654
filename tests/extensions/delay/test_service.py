"""Listing, inspecting, cancelling and putting off what waits: what REST and the command line call."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.records import ControlType, Record
from kompat.types import Millis, Offset
from tests.extensions.support import ExtendedLog, message
from tests.log.support import NOW

HERE = ("topic", 0)


@pytest.fixture
def log() -> ExtendedLog:
    return ExtendedLog()


def test_a_list_is_in_the_order_of_delivery_and_goes_on_at_its_cursor(log: ExtendedLog) -> None:
    for name, delay in (("c", 30), ("a", 10), ("b", 20)):
        log.send(name, delay_ms=delay)

    first = log.run(log.delays.list("topic", limit=2))
    rest = log.run(log.delays.list("topic", cursor=first.cursor, limit=2))

    assert [(s.record.value, s.due, s.slot) for s in first.items] == [(b"a", NOW + 10, 1), (b"b", NOW + 20, 2)]
    assert [s.record.value for s in rest.items] == [b"c"]
    assert (first.cursor is None, rest.cursor) == (False, None)


def test_a_cursor_of_something_else_is_refused(log: ExtendedLog) -> None:
    with pytest.raises(KafkaError) as refused:
        log.run(log.delays.list("topic", cursor="rubbish"))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_record_is_found_by_slot_and_by_schedule_id_as_it_was_sent(log: ExtendedLog) -> None:
    log.send("other")
    slot = log.send("v", delay_ms=10, schedule_id="id")

    found = log.run(log.delays.find(*HERE, slot))

    assert found == log.find_by_schedule_id("id")
    assert found is not None
    assert (found.slot, found.due, found.schedule_id, found.is_undecided) == (1, NOW + 10, "id", False)
    asked = (("kompat-delay-ms", b"10"), ("kompat-schedule-id", b"id"))
    assert found.record == Record(1, NOW, b"k", b"v", asked)
    assert log.run(log.delays.find(*HERE, Offset(0))) is None
    assert log.find_by_schedule_id("none") is None


def test_what_is_cancelled_is_not_delivered(log: ExtendedLog) -> None:
    slot = log.send("never", delay_ms=10, schedule_id="id")
    log.send("later", delay_ms=20)

    cancelled = log.run(log.delays.cancel(*HERE, slot))

    assert cancelled.record.value == b"never"
    assert log.find_by_schedule_id("id") is None
    log.kill()
    log.pass_time(100)
    assert log.texts() == ["later"]


def test_what_does_not_wait_cannot_be_cancelled(log: ExtendedLog) -> None:
    slot = log.send("gone", delay_ms=10)
    log.pass_time(10)

    for absent in (slot, Offset(99)):
        with pytest.raises(KafkaError) as refused:
            log.run(log.delays.cancel(*HERE, absent))
        assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(("due", "expected"), [(NOW + 5, ["moved", "other"]), (NOW + 50, ["other", "moved"])])
def test_what_is_put_off_or_brought_forward_is_delivered_at_its_new_time(
    log: ExtendedLog, due: int, expected: list[str]
) -> None:
    slot = log.send("moved", delay_ms=10, schedule_id="id")
    log.send("other", delay_ms=10)

    moved = log.run(log.delays.reschedule(*HERE, slot, Millis(due)))

    assert (moved.slot, moved.due, moved.schedule_id) == (slot, due, "id")
    log.pass_time(100)
    assert log.texts() == expected


@pytest.mark.parametrize("due", [NOW - 5, 0, -1])
def test_what_is_put_off_into_the_past_is_delivered_at_once_and_at_the_present_time(log: ExtendedLog, due: int) -> None:
    slot = log.send("moved", delay_ms=10_000)

    log.run(log.delays.reschedule(*HERE, slot, Millis(due)))
    log.deliver()

    [record] = log.records()
    assert (record.value, record.timestamp) == (b"moved", NOW)  # by an older one, retention might take it at once


def test_nothing_is_put_off_beyond_the_topics_limit(log: ExtendedLog) -> None:
    slot = log.send("v", delay_ms=10)
    limit = log.config.kompat_delay_max_ms

    with pytest.raises(KafkaError) as refused:
        log.run(log.delays.reschedule(*HERE, slot, Millis(NOW + limit + 1)))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_record_of_an_open_transaction_is_shown_but_not_changed(log: ExtendedLog) -> None:
    batch = [message("v", now=NOW, delay_ms=10)]
    log.send_all(batch, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    found = log.run(log.delays.find(*HERE, Offset(0)))

    assert found is not None
    assert found.is_undecided
    with pytest.raises(KafkaError) as refused:
        log.run(log.delays.cancel(*HERE, Offset(0)))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    log.end_transaction(ControlType.COMMIT, 7)
    assert log.waiting() == ["v"]


def test_statistics_count_what_waits(log: ExtendedLog) -> None:
    assert log.delay_statistics().waiting == 0
    log.send("a", delay_ms=30)
    log.send("b", delay_ms=20)

    found = log.run(log.delays.statistics("topic"))

    assert (found.waiting, found.undecided, found.next_due) == (2, 0, NOW + 20)
    log.pass_time(100)
    found = log.delay_statistics()
    assert (found.waiting, found.size, found.next_due, log.scheduler.fired) == (0, 0, None, 2)


def test_unknown_partitions_and_the_brokers_own_are_refused(log: ExtendedLog) -> None:
    with pytest.raises(KafkaError) as unknown:
        log.run(log.delays.list("topic", partitions=[1]))
    log.partition.interceptor = None
    with pytest.raises(KafkaError) as internal:
        log.run(log.delays.list("topic"))

    assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert internal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
