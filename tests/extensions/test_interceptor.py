"""Records that ask to be delivered later: parked, and appended when they are due."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import interceptor
from kompat.extensions.delay import scheduler
from kompat.log import packing
from kompat.log.interceptor import Costly
from kompat.log.partition import Appended
from kompat.protocol.records import Compression, ControlType, Record, build_batch, split_batches
from kompat.types import Millis, Offset
from tests.extensions.support import COMMITTED, ExtendedLog, delivered, message, run
from tests.log.support import NOW

DAY = 86_400_000


@pytest.fixture
def log() -> ExtendedLog:
    return ExtendedLog()


# -- parking -----------------------------------------------------------------------------------------------------------
def test_a_delayed_record_is_delivered_at_its_time_and_not_before(log: ExtendedLog) -> None:
    log.send("later", delay_ms=1000)

    log.pass_time(999)
    assert log.texts() == []
    log.pass_time(1)
    assert log.texts() == ["later"]


def test_a_delivered_record_has_its_due_time_and_tells_its_slot_and_original_time(log: ExtendedLog) -> None:
    log.send("first")
    slot = log.send("later", delay_ms=1000)

    log.pass_time(5000)

    [_, record] = log.records()
    assert (record.offset, record.timestamp, record.key) == (2, NOW + 1000, b"k")
    assert delivered(record) == (slot, NOW) == (1, NOW)
    assert record.headers[0] == ("kompat-delay-ms", b"1000")


def test_the_slot_of_a_delayed_batch_is_an_empty_batch_with_its_producer_and_offsets(log: ExtendedLog) -> None:
    batch = [message(str(i), now=NOW, delay_ms=1000) for i in range(3)]

    base = log.send_all(batch, producer_id=7, producer_epoch=2, base_sequence=5, compression=4)

    [slot] = log.headers_of_batches()
    assert (base, slot.record_count, slot.last_offset_delta, slot.compression) == (0, 0, 2, 0)
    assert (slot.producer_id, slot.producer_epoch, slot.base_sequence) == (7, 2, 5)
    assert log.partition.log_end_offset == 3


@pytest.mark.parametrize("codec", range(5))
def test_a_mixed_batch_keeps_its_other_records_their_offsets_and_its_codec(log: ExtendedLog, codec: int) -> None:
    batch = [message(v, now=NOW, **({"delay_ms": 10} if v == "late" else {})) for v in ("a", "late", "b", "late")]

    log.send_all(batch, compression=codec)

    [header] = log.headers_of_batches()
    assert (header.record_count, header.last_offset_delta, header.compression) == (2, 3, codec)
    assert [(r.offset, r.value) for r in log.records()] == [(0, b"a"), (2, b"b")]
    log.pass_time(10)
    assert [(r.offset, r.value) for r in log.records(3)] == [(4, b"late"), (5, b"late")]
    assert log.headers_of_batches()[-1].compression == codec


def test_large_records_wait_compressed_and_are_delivered_whole(log: ExtendedLog) -> None:
    record = message("x" * 100_000, now=NOW, delay_ms=10)
    log.send_all([record], compression=4)

    assert log.delay_statistics().size < 1000
    log.pass_time(10)
    assert log.texts() == ["x" * 100_000]


def test_a_time_that_has_passed_delivers_at_once(log: ExtendedLog) -> None:
    log.send("past", deliver_at=NOW - 1)
    log.send("now", delay_ms=0)
    log.send("longago", deliver_at="1999-12-31T23:59:59Z")

    assert log.texts() == ["past", "now", "longago"]
    assert log.delay_statistics().waiting == 0


def test_a_retry_of_a_delayed_batch_is_recognised(log: ExtendedLog) -> None:
    batch = [message("once", now=NOW, delay_ms=1000)]
    numbers = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = log.send_all(batch, **numbers)

    log.restart()
    again = log.send_all(batch, **numbers)

    assert (first, again) == (0, 0)
    log.pass_time(1000)
    log.send_all(batch, **numbers)
    assert log.texts() == ["once"]


def test_a_topic_may_turn_extensions_off(log: ExtendedLog) -> None:
    log.send("parked", delay_ms=1000)
    log.configure(kompat_extensions_enable=False)
    log.send("plain", delay_ms=1000)
    log.send("nonsense", delay_ms="soon")

    assert log.texts() == ["plain", "nonsense"]
    log.pass_time(1000)
    assert log.texts() == ["plain", "nonsense", "parked"]


# -- refusing ----------------------------------------------------------------------------------------------------------
def test_a_wrong_header_refuses_the_batch_and_names_header_value_and_records(log: ExtendedLog) -> None:
    batch = [message("v", now=NOW, **asked) for asked in ({}, {"delay_ms": "soon"}, {"delay_ms": 1}, {"ttl_ms": -1})]

    with pytest.raises(KafkaError) as raised:
        log.stage_all(batch)

    assert raised.value.code is ErrorCode.INVALID_RECORD
    errors = raised.value.record_errors  # type: ignore[attr-defined]
    assert [(e.batch_index, "kompat-delay-ms: 'soon'" in e.message) for e in errors] == [(1, True), (3, False)]
    assert "kompat-ttl-ms: '-1'" in errors[1].message
    assert log.partition.log_end_offset == 0
    assert not log.store.has_staged()


def test_a_delay_beyond_the_topics_limit_is_refused(log: ExtendedLog) -> None:
    assert "kompat.delay.max.ms" in log.refused(delay_ms=7 * DAY + 1).message
    assert log.refused(deliver_at=NOW + 7 * DAY + 1).code is ErrorCode.INVALID_RECORD
    log.send("v", delay_ms=7 * DAY)
    log.configure(kompat_delay_max_ms=0)
    assert "(0)" in log.refused(delay_ms=1).message
    log.send("v", delay_ms=0)


# -- order -------------------------------------------------------------------------------------------------------------
def test_records_are_delivered_by_due_time_and_then_by_slot(log: ExtendedLog) -> None:
    for name, delay in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20)):
        log.send(name, delay_ms=delay)

    log.pass_time(100)

    assert log.texts() == ["a", "b1", "b2", "c"]
    assert len({h.base_offset for h in log.headers_of_batches()[4:]}) == 1  # all in one batch


def test_many_that_are_due_together_are_delivered_in_several_appends(
    log: ExtendedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "AT_ONCE", 4)
    log.send_all([message(str(i), now=NOW, delay_ms=10) for i in range(10)])

    log.pass_time(10)

    assert log.texts() == [str(i) for i in range(10)]
    assert [h.record_count for h in log.headers_of_batches()] == [0, 4, 4, 2]


def test_one_append_delivers_no_more_bytes_than_others_can_wait_for(
    log: ExtendedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "BATCH_BYTES", 1000)
    log.send_all([message("x" * size, now=NOW, delay_ms=10) for size in (100, 100, 1000, 10)])

    log.pass_time(10)

    assert [h.record_count for h in log.headers_of_batches()] == [0, 2, 1, 1]


@pytest.mark.parametrize("codec", Compression)
def test_what_is_delivered_at_once_is_small_before_compression_too(log: ExtendedLog, codec: Compression) -> None:
    """Clients unpack batches in memory, and refuse those that are too large."""
    texts = [str(number) + "x" * 50_000 for number in range(40)]
    for text in texts:
        log.send_all([message(text, now=NOW, delay_ms=10)], compression=codec)

    log.pass_time(10)

    assert log.texts() == texts
    assert max(log.plain_sizes()) <= packing.BATCH_BYTES
    assert all(header.compression == codec for header in log.headers_of_batches() if header.record_count)


def test_a_record_that_is_larger_than_a_batch_should_be_is_delivered_alone(log: ExtendedLog) -> None:
    texts = ["a", "x" * 2 * packing.BATCH_BYTES, "b"]
    for text in texts:
        log.send_all([message(text, now=NOW, delay_ms=10)], compression=Compression.ZSTD)

    log.pass_time(10)

    assert log.texts() == texts
    assert [h.record_count for h in log.headers_of_batches() if h.record_count] == [1, 1, 1]


def test_what_is_delivered_at_once_is_no_larger_than_the_topic_allows() -> None:
    log = ExtendedLog(max_message_bytes=1000)
    for number in range(9):
        log.send_all([message(str(number) * 200, now=NOW, delay_ms=10)])

    log.pass_time(10)

    run = log.partition.store.read(Offset(0), 1 << 30, log.partition.high_watermark)
    assert max(len(batch) for buffer in run.buffers for batch in split_batches(memoryview(buffer))) <= 1000
    assert [h.record_count for h in log.headers_of_batches() if h.record_count] == [2, 2, 2, 2, 1]


def test_records_of_several_codecs_are_delivered_in_that_of_most_bytes(log: ExtendedLog) -> None:
    log.send_all([message("small", now=NOW, delay_ms=10)])
    log.send_all([message("large" * 1000, now=NOW, delay_ms=10)], compression=Compression.LZ4)

    log.pass_time(10)

    assert [h.compression for h in log.headers_of_batches() if h.record_count] == [Compression.LZ4]


# -- batches that take long --------------------------------------------------------------------------------------------
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "delay_ms": st.sampled_from([0, 5, 90, "soon"]),
        "msg_id": st.sampled_from("ab"),
        "schedule_id": st.sampled_from("ab"),
        "priority": st.sampled_from([0, 9]),
    },
)


@settings(deadline=None)
@given(st.lists(st.lists(WISHES, min_size=1, max_size=5), max_size=4), st.sampled_from([0, 4]), st.booleans())
def test_a_batch_that_is_looked_at_in_steps_comes_to_the_same_as_at_once(
    batches: list[list[dict[str, object]]], codec: int, broker_times: bool
) -> None:
    given = {"message_timestamp_type": "LogAppendTime"} if broker_times else {}
    at_once, in_steps = ExtendedLog(**given), ExtendedLog(**given)
    for number, wishes in enumerate(batches):
        records = [message(f"{number}-{place}" * 400, now=NOW, **each) for place, each in enumerate(wishes)]
        numbered = [Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)]
        batch = build_batch(numbered, compression=codec)

        assert _outcome(partial(_append_in_steps, in_steps, batch)) == _outcome(partial(at_once.stage, batch))

        for log in (at_once, in_steps):
            log.commit.end_turn()
            log.pass_time(5)
    assert list(in_steps.partition.store.states(b"")) == list(at_once.partition.store.states(b""))
    assert in_steps.records() == at_once.records()


def _outcome(append: Callable[[], Appended]) -> object:
    try:
        return append().base_offset
    except KafkaError as error:
        return error.code, error.message


def _append_in_steps(log: ExtendedLog, batch: bytearray) -> Appended:
    records = memoryview(bytearray(batch))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interceptor, "Slice", lambda: SimpleNamespace(is_over=True))
        try:
            return log.partition.append(records, is_patient=True)
        except Costly as costly:
            return log.partition.append(records, prepared=run(costly.prepare()), is_patient=True)


async def test_others_have_their_turns_while_a_large_batch_is_looked_at() -> None:
    log, others = ExtendedLog(), 0

    async def work() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    records = [Record(n, NOW, None, b"v", (("kompat-delay-ms", b"10"),)) for n in range(20_000)]
    batch = memoryview(build_batch(records))
    with pytest.raises(Costly) as costly:
        log.partition.append(batch, is_patient=True)
    task = asyncio.ensure_future(work())
    prepared = await costly.value.prepare()
    task.cancel()

    assert others > 5
    assert log.partition.append(batch, prepared=prepared, is_patient=True).last_offset == 19_999


def test_a_batch_with_headers_has_so_many_records_and_no_more(log: ExtendedLog) -> None:
    records = [Record(n, NOW, None, None, ()) for n in range(interceptor.MOST_HEEDED)]
    last = Record(interceptor.MOST_HEEDED, NOW, None, None, (("kompat-delay-ms", b"10"),))

    error = log.refuse(build_batch([*records, last], compression=Compression.ZSTD))

    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


# -- schedule ids ------------------------------------------------------------------------------------------------------
def test_a_record_takes_the_place_of_the_one_that_waits_under_its_schedule_id(log: ExtendedLog) -> None:
    log.send("old", delay_ms=10, schedule_id="reminder")
    log.send("other", delay_ms=10, schedule_id="another")
    log.send("new", delay_ms=20, schedule_id="reminder")

    assert log.waiting() == ["other", "new"]
    log.pass_time(100)
    assert log.texts() == ["other", "new"]


def test_a_schedule_id_is_free_again_after_delivery(log: ExtendedLog) -> None:
    log.send("one", delay_ms=10, schedule_id="id")
    log.pass_time(10)
    log.send("two", delay_ms=10, schedule_id="id")
    log.pass_time(10)

    assert log.texts() == ["one", "two"]


def test_within_a_batch_the_last_of_a_schedule_id_counts(log: ExtendedLog) -> None:
    log.send_all([message(v, now=NOW, delay_ms=10, schedule_id="id") for v in ("a", "b", "c")])

    log.pass_time(10)

    assert log.texts() == ["c"]
    assert log.delay_statistics().waiting == 0


def test_a_record_without_delay_ends_the_wait_of_its_schedule_id(log: ExtendedLog) -> None:
    log.send("later", delay_ms=10, schedule_id="id")
    log.send(None, schedule_id="id")

    log.pass_time(10)

    assert log.texts() == ["-"]


# -- transactions ------------------------------------------------------------------------------------------------------
def in_transaction(log: ExtendedLog, *records: Record, producer: int = 7, sequence: int = 0) -> Offset:
    return log.send_all(records, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def test_a_commit_lets_a_transactions_records_wait_and_an_abort_drops_them(log: ExtendedLog) -> None:
    in_transaction(log, message("kept", now=NOW, delay_ms=10), producer=7)
    in_transaction(log, message("dropped", now=NOW, delay_ms=10), producer=8)
    assert log.waiting() == []

    log.end_transaction(ControlType.COMMIT, 7)
    log.end_transaction(ControlType.ABORT, 8)

    assert log.waiting() == ["kept"]
    log.pass_time(10)
    assert "kept" in log.texts(COMMITTED)
    assert "dropped" not in log.texts()


def test_a_transaction_cannot_hold_more_delayed_records_than_a_commit_can_move(
    log: ExtendedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kompat.extensions.interceptor.MOST_UNDECIDED", 2)
    in_transaction(log, message("a", now=NOW, delay_ms=10), message("b", now=NOW, delay_ms=10))

    with pytest.raises(KafkaError, match="kompat-delay-ms: '10': 2 delayed records are in open transactions"):
        in_transaction(log, message("c", now=NOW, delay_ms=10), sequence=2)

    in_transaction(log, message("at once", now=NOW), sequence=2)
    log.send("outside", delay_ms=10)
    log.end_transaction(ControlType.COMMIT, 7)
    log.pass_time(10)
    assert {"a", "at once", "b", "outside"} <= set(log.texts(COMMITTED))


def test_an_open_transaction_has_no_more_message_ids_than_can_be_decided_at_once(
    log: ExtendedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kompat.extensions.interceptor.MOST_UNDECIDED", 2)
    in_transaction(log, message("a", now=NOW, msg_id="a"), message("b", now=NOW, msg_id="b"))

    with pytest.raises(KafkaError, match="kompat-msg-id: the transaction has 2 message ids in the partition already"):
        in_transaction(log, message("c", now=NOW, msg_id="c"), sequence=2)

    in_transaction(log, message("without", now=NOW), sequence=2)
    log.send("outside", msg_id="c")
    log.end_transaction(ControlType.COMMIT, 7)
    log.send("again", msg_id="a")
    in_transaction(log, message("d", now=NOW, msg_id="d"), message("e", now=NOW, msg_id="e"), sequence=3)
    log.end_transaction(ControlType.COMMIT, 7)
    assert {"a", "b", "without", "outside", "d", "e"} <= set(log.texts(COMMITTED))
    assert "again" not in log.texts(COMMITTED)


def test_a_record_of_an_open_transaction_is_not_delivered_when_due_but_when_committed(log: ExtendedLog) -> None:
    in_transaction(log, message("late", now=NOW, delay_ms=10))
    log.pass_time(1000)
    assert log.texts() == []

    log.end_transaction(ControlType.COMMIT, 7)
    log.deliver()

    [record] = [r for r in log.records() if r.value == b"late"]
    assert record.timestamp == NOW + 10


def test_a_delivered_record_is_outside_its_transaction_and_others(log: ExtendedLog) -> None:
    in_transaction(log, message("late", now=NOW, delay_ms=10))
    log.end_transaction(ControlType.COMMIT, 7)
    log.pass_time(10)

    header = log.headers_of_batches()[-1]
    assert (header.producer_id, header.is_transactional) == (-1, False)


def test_a_transaction_replaces_a_schedule_only_when_it_is_committed(log: ExtendedLog) -> None:
    log.send("old", delay_ms=10, schedule_id="id")
    in_transaction(log, message("new", now=NOW, delay_ms=20, schedule_id="id"), producer=7)
    in_transaction(log, message(None, now=NOW, schedule_id="id"), producer=8)
    log.end_transaction(ControlType.ABORT, 8)
    assert log.waiting() == ["old"]

    log.end_transaction(ControlType.COMMIT, 7)
    assert log.waiting() == ["new"]

    in_transaction(log, message(None, now=NOW, schedule_id="id"), producer=8, sequence=1)
    log.end_transaction(ControlType.COMMIT, 8)
    assert log.waiting() == []
    assert log.delay_statistics().undecided == 0


# -- what else happens to a log ----------------------------------------------------------------------------------------
def test_neither_retention_nor_delete_records_touch_what_waits(log: ExtendedLog) -> None:
    log.configure(retention_ms=1000, segment_ms=1000)
    log.send("survivor", delay_ms=100_000)
    log.send("gone")
    log.clock.advance(50_000)
    log.partition.upkeep.enforce_retention(log.now)
    log.run(log.partition.delete_records(Offset(-1)))
    log.restart()
    assert log.texts() == []

    log.pass_time(50_000)
    assert log.texts() == ["survivor"]
    log.partition.upkeep.enforce_retention(log.now)
    assert log.texts() == ["survivor"]


def test_compaction_does_not_touch_what_waits_and_then_keeps_the_newest_by_delivery() -> None:
    log = ExtendedLog(compact=True, delete=False, segment_bytes=200)
    log.send("waited", key="a", delay_ms=1000)
    log.send("at once", key="a")
    for _ in range(5):
        log.send("filler", key="b")
    log.compact()
    log.pass_time(1000)
    for _ in range(5):
        log.send("filler", key="b")
    log.compact()

    assert [r.value for r in log.records() if r.key == b"a"] == [b"waited"]


def test_a_dropped_topic_delivers_nothing(log: ExtendedLog) -> None:
    log.send("never", delay_ms=10)

    log.partition.drop()
    log.pass_time(1000)

    assert log.scheduler.fired == 0


def test_offsets_by_time_are_those_of_records_that_are_there(log: ExtendedLog) -> None:
    log.send("first")
    log.clock.advance(50)
    log.send("later", delay_ms=1000)

    newest = run(log.partition.max_timestamp_offset())
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (0, NOW)
    assert run(log.partition.offset_for_time(Millis(NOW + 1))) is None
    log.restart()
    log.pass_time(1000)
    found = run(log.partition.offset_for_time(Millis(NOW + 1)))
    assert found is not None
    assert (found.offset, found.timestamp) == (2, NOW + 1050)


def test_under_log_append_time_a_record_has_the_time_of_its_delivery() -> None:
    log = ExtendedLog(message_timestamp_type="LogAppendTime")
    log.send("later", delay_ms=1000)
    log.pass_time(1500)

    [record] = log.records()
    assert record.timestamp == NOW + 1500
    assert delivered(record) == (0, NOW)


# -- restarts and refusals ---------------------------------------------------------------------------------------------
def test_what_waits_is_delivered_after_a_restart_however_it_ended(log: ExtendedLog) -> None:
    log.send("a", delay_ms=1000)
    log.kill()
    log.send("b", delay_ms=500)
    log.restart()

    log.pass_time(2000)

    assert log.texts() == ["b", "a"]


def test_a_kill_before_the_delivery_is_written_delivers_it_afterwards_once(log: ExtendedLog) -> None:
    log.send("once", delay_ms=10)
    log.clock.advance(10)
    log.scheduler.wake()  # staged
    assert log.partition.log_end_offset == 2

    log.kill()
    assert log.partition.log_end_offset == 1
    log.deliver()
    log.kill()
    log.deliver()

    assert log.texts() == ["once"]


def test_a_full_disk_puts_a_delivery_off(log: ExtendedLog) -> None:
    log.send("once", delay_ms=10)
    log.store.is_full = True
    log.pass_time(10)
    log.store.is_full = False
    assert log.texts() == []
    assert log.waiting() == ["once"]

    log.pass_time(scheduler.RETRY_MS)

    assert log.texts() == ["once"]


def test_a_disk_below_its_reserve_puts_a_delivery_off(log: ExtendedLog) -> None:
    log.send("once", delay_ms=10)
    log.store.is_refusing = True
    log.pass_time(10)
    log.store.is_refusing = False
    assert log.texts() == []

    log.pass_time(scheduler.RETRY_MS)

    assert log.texts() == ["once"]


def test_a_delay_that_the_disk_refused_is_not_delivered(log: ExtendedLog) -> None:
    log.stage_all([message("never", now=NOW, delay_ms=10)])
    log.store.is_full = True
    log.commit.end_turn()
    log.store.is_full = False

    log.pass_time(10_000)

    assert log.texts() == []
    assert log.waiting() == []


@pytest.mark.parametrize(("retention_ms", "is_old"), [(1_000_000, False), (100_000, True), (-1, False)])
def test_what_is_long_overdue_does_not_go_as_it_comes(retention_ms: int, is_old: bool) -> None:
    """The broker may have been down for longer than records are kept."""
    log = ExtendedLog(retention_ms=retention_ms)
    log.send("late", delay_ms=10)
    log.clock.advance(90_000)
    log.kill()
    log.deliver()

    [record] = log.records()
    assert record.timestamp == (log.now if is_old else NOW + 10)


def test_a_record_that_outgrows_a_segment_by_its_headers_is_delivered_all_the_same() -> None:
    """It must neither be lost nor hold up what is due after it."""
    log = ExtendedLog(segment_bytes=2000)
    log.send("x" * 1880, delay_ms=100)
    log.send("after it", delay_ms=100)

    log.pass_time(100)

    assert [len(text) for text in log.texts()] == [1880, 8]
    assert log.waiting() == []
