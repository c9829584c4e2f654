"""What becomes of traced records in a partition, as events."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.extensions import headers
from kompat.extensions.tracing import tracer as limits
from kompat.extensions.tracing.buffer import AT_ONCE, MOST_GATHERED, EventBuffer
from kompat.extensions.tracing.events import Happening, Kind, PartitionLabel, Place, RecordTrace
from kompat.extensions.tracing.offsets import state_name
from kompat.protocol.records import ControlType, Record, build_batch
from kompat.types import Millis, Offset
from tests.extensions.support import ExtendedLog, Headers, message

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
SAMPLED, UNSAMPLED = TRACEPARENT + "1", TRACEPARENT + "0"


class Event(NamedTuple):
    kind: Kind
    trace: RecordTrace
    place: Place
    more: str
    new_place: Place | None


def told(log: ExtendedLog) -> list[Event]:
    """What was gathered since one asked the last time."""
    found = []
    for each in log.tracer.events._gathered:
        places = each.new_places or [None] * len(each.entries)
        for (offset, trace), new_place in zip(each.entries, places, strict=True):
            found.append(Event(each.kind, trace, each.label.place(offset), each.more, new_place))
    log.tracer.events._gathered.clear()
    return found


def kinds(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.kind.value, event.place.offset) for event in events]


def with_headers(log: ExtendedLog, value: str, headers: Headers) -> Offset:
    listed = tuple((name, str(text).encode()) for name, text in headers.items())
    return log.send_all([Record(0, log.now, b"k", value.encode(), listed)])


def plain(log: ExtendedLog, count: int) -> Offset:
    return log.send_all([message(str(i), now=log.now) for i in range(count)])


# -- which ---------------------------------------------------------------------------------------------------------
def test_a_record_that_asks_for_it_is_traced_and_its_neighbours_are_not() -> None:
    log = ExtendedLog()
    records = [message("a", now=log.now), message("b", now=log.now, trace=1), message("c", now=log.now, trace=0)]

    log.send_all(records)

    assert kinds(told(log)) == [("PRODUCED", 1), ("REPLICATED", 1)]


def test_a_sampled_trace_context_is_joined_and_one_that_is_not_sampled_is_left_alone() -> None:
    log = ExtendedLog()
    with_headers(log, "unsampled", {"traceparent": UNSAMPLED})
    with_headers(log, "broken", {"traceparent": "00-nonsense"})
    with_headers(log, "sampled", {"traceparent": SAMPLED, "tracestate": "a=b"})

    [produced, _] = told(log)

    assert produced.place.offset == 2
    assert (produced.trace.trace_id.hex(), produced.trace.parent_id.hex()) == tuple(SAMPLED.split("-")[1:3])
    assert [dict(record.headers).get("traceparent") for record in log.records(Offset(0))] == [
        UNSAMPLED.encode(),
        b"00-nonsense",
        SAMPLED.encode(),
    ]


def test_a_trace_that_is_asked_for_takes_the_id_of_a_context_that_is_not_sampled() -> None:
    log = ExtendedLog()
    with_headers(log, "v", {"traceparent": UNSAMPLED, "kompat-trace": "1"})

    assert told(log)[0].trace.trace_id.hex() == UNSAMPLED.split("-")[1]


def test_a_rate_traces_records_by_their_offsets_and_never_opens_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ExtendedLog(kompat_trace_sample=0.25)
    monkeypatch.setattr("kompat.extensions.interceptor.iterate", lambda *_: pytest.fail("the batch was opened"))

    plain(log, 3)
    plain(log, 7)

    assert [event.place.offset for event in told(log) if event.kind is Kind.PRODUCED] == [3, 7]


def test_batches_are_not_opened_for_contexts_that_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers that are instrumented send one with every record, and few of them are sampled."""
    log = ExtendedLog(kompat_trace_sample=0.5)
    monkeypatch.setattr("kompat.extensions.interceptor.iterate", lambda *_: pytest.fail("the batch was opened"))

    with_headers(log, "v", {"traceparent": UNSAMPLED})
    with_headers(log, "v", {"traceparent": UNSAMPLED})

    [event, _] = told(log)
    assert (event.place.offset, event.trace.is_own) == (1, True)


def test_only_the_records_of_a_batch_that_ask_for_something_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ExtendedLog()
    looked_at = []
    real = headers.parse
    monkeypatch.setattr(headers, "parse", lambda given: looked_at.append(dict(given)) or real(given))
    contexts = [{"traceparent": UNSAMPLED}, {"traceparent": SAMPLED}, {}, {"kompat-ttl-ms": "9", "mine": "x"}]
    listed = [tuple((name, text.encode()) for name, text in each.items()) for each in contexts]

    log.stage(build_batch([Record(i, log.now, None, b"v", each) for i, each in enumerate(listed)]))
    log.commit.end_turn()

    assert [sorted(each) for each in looked_at] == [["traceparent"], ["kompat-ttl-ms", "mine"]]
    assert {event.place.offset for event in told(log)} == {1}


def test_a_topic_without_extensions_traces_nothing() -> None:
    log = ExtendedLog(kompat_trace_sample=1.0, kompat_extensions_enable=False)

    plain(log, 3)
    log.send("v", trace=1)

    assert (told(log), log.tracer.used) == ([], {})


def test_a_topic_that_traces_nothing_costs_nothing() -> None:
    log = ExtendedLog()

    plain(log, 10)

    assert (told(log), log.tracer.used, log.interceptor._is_used) == ([], {}, False)


# -- what ----------------------------------------------------------------------------------------------------------
def test_a_delayed_record_goes_on_under_its_new_offset() -> None:
    log = ExtendedLog()
    slot = log.send("later", delay_ms=50, trace=1, msg_id="m-1")
    plain(log, 2)
    log.pass_time(50)

    events = told(log)
    assert kinds(events) == [("PRODUCED", 0), ("REPLICATED", 0), ("PARKED", 0), ("FIRED", 0)]
    assert len({event.trace for event in events}) == 1
    assert events[0].trace.message_id == "m-1"
    fired = events[3].new_place
    assert fired is not None

    log.tracer.fetched(log.partition, 0, log.partition.high_watermark, "reader")

    [delivered] = told(log)
    assert (delivered.kind, delivered.place, delivered.trace) == (Kind.DELIVERED, fired, events[0].trace)
    assert delivered.place.offset != slot
    assert '"client_id":"reader"' in delivered.more


def test_a_record_in_a_lane_waits_and_is_fired_when_it_is_released() -> None:
    log = ExtendedLog(kompat_delivery_order="priority")
    log.send("first", trace=1)
    log.run(settled(log))

    events = told(log)
    assert kinds(events) == [("PRODUCED", 0), ("REPLICATED", 0), ("PARKED", 0), ("FIRED", 0)]
    fired = events[3].new_place
    log.tracer.fetched(log.partition, 0, log.partition.high_watermark, None)
    assert [event.place for event in told(log)] == [fired]


async def settled(log: ExtendedLog) -> None:
    fetch_listener = log.partition.fetch_listener
    assert fetch_listener is not None
    await fetch_listener.release_all()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_what_is_cancelled_or_replaced_is_told_so(rate: float) -> None:
    log = ExtendedLog(kompat_trace_sample=rate)
    first = log.send("a", delay_ms=50, trace=1, schedule_id="s")
    second = log.send("b", delay_ms=50, trace=1, schedule_id="s")
    log.run(log.delays.cancel("topic", 0, second))
    log.pass_time(100)

    events = [event for event in told(log) if event.kind not in (Kind.PRODUCED, Kind.REPLICATED, Kind.PARKED)]

    assert [(event.kind, event.place.offset) for event in events] == [(Kind.CANCELLED, first), (Kind.CANCELLED, second)]
    assert ['"reason":"replaced"' in event.more for event in events] == [True, False]


def test_a_record_that_repeats_another_has_no_trace() -> None:
    log = ExtendedLog(kompat_trace_sample=1.0)
    log.send("a", msg_id="m", trace=1)
    log.send("a", msg_id="m", trace=1)

    assert kinds(told(log)) == [("PRODUCED", 0), ("REPLICATED", 0)]


def test_what_the_disk_refuses_did_not_happen() -> None:
    log = ExtendedLog()
    log.send("a", trace=1)
    log.store.is_full = True
    log.stage(build_batch([message("b", now=log.now, trace=1)]))
    log.commit.end_turn()
    log.store.is_full = False
    log.send("c", trace=1)
    told_of = told(log)
    log.tracer.fetched(log.partition, 0, 10, None)

    assert kinds(told_of) == [("PRODUCED", 0), ("REPLICATED", 0), ("PRODUCED", 1), ("REPLICATED", 1)]
    assert kinds(told(log)) == [("DELIVERED", 0), ("DELIVERED", 1)]


def test_a_batch_that_is_refused_after_all_is_not_told_of_with_the_next_one() -> None:
    log = ExtendedLog(segment_bytes=2000)
    log.refuse(build_batch([message("x" * 3000, now=log.now, trace=1)]))
    log.send("y", delay_ms=5)

    assert told(log) == []


def test_who_is_faster_than_the_commit_hears_the_beginning_first() -> None:
    log = ExtendedLog()
    log.stage(build_batch([message("a", now=log.now, trace=1)]))
    log.tracer.fetched(log.partition, 0, 1, None)
    log.commit.end_turn()

    assert kinds(told(log)) == [("PRODUCED", 0), ("REPLICATED", 0), ("DELIVERED", 0)]


def test_the_client_that_sent_it_is_known() -> None:
    log = ExtendedLog()
    batch = build_batch([message("a", now=log.now, trace=1)])
    log.partition.append(memoryview(batch), client_id="sender")
    log.commit.end_turn()

    assert '"client_id":"sender"' in told(log)[0].more


def test_an_aborted_transaction_fires_nothing() -> None:
    log = ExtendedLog()
    log.send_all(
        [message("a", now=log.now, trace=1, delay_ms=10)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log.end_transaction(ControlType.ABORT, 7)
    log.pass_time(50)

    assert [event.kind for event in told(log)] == [Kind.PRODUCED, Kind.REPLICATED, Kind.PARKED]


# -- memory --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["kill", "restart"])
def test_traced_records_are_known_after_a_restart(how: str) -> None:
    log = ExtendedLog(kompat_trace_sample=0.5)
    plain(log, 10)
    with_headers(log, "own", {"traceparent": SAMPLED, "kompat-msg-id": "m"})
    log.send("later", delay_ms=10, trace=1)
    log.pass_time(10)
    before = told(log)
    log.tracer.save()
    log.commit.end_turn()
    getattr(log, how)()

    log.tracer.fetched(log.partition, 0, log.partition.high_watermark, None)

    produced = {event.trace for event in before if event.kind is Kind.PRODUCED}
    after = told(log)
    assert {event.trace for event in after} == produced
    assert {event.kind for event in after} == {Kind.DELIVERED}


@pytest.mark.parametrize("value", [b"\1\0", b"\1\0\0\0\0\4\0\1\xff"])
def test_a_damaged_memory_fails_nobody(value: bytes) -> None:
    log = ExtendedLog()
    log.send("a", trace=1)
    log.tracer.save()
    log.partition.write_states([(state_name(0), value)])
    log.commit.end_turn()
    log.kill()

    log.tracer.fetched(log.partition, 0, 1, None)

    assert told(log) == []


def test_what_is_remembered_outlives_a_disk_that_refused() -> None:
    log = ExtendedLog(kompat_trace_sample=1.0)
    plain(log, 3)
    log.tracer.save()
    log.commit.end_turn()
    log.store.is_full = True
    log.stage(build_batch([message("lost", now=log.now)]))
    log.commit.end_turn()
    log.store.is_full = False
    plain(log, 2)
    log.tracer.save()
    log.commit.end_turn()
    log.kill()

    assert [offset for offset, _ in log.interceptor.traces.between(0, 9)] == [0, 1, 2, 3, 4]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 9))
def test_only_so_many_are_remembered_in_memory_and_in_the_store(batches: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_OF_ONE", 20)
        patch.setattr(limits, "LEAST_OF_ONE", 20)
        log = ExtendedLog(kompat_trace_sample=1.0)
        for _ in range(batches):
            plain(log, size)
            log.tracer.save()
            log.commit.end_turn()
        end = log.partition.high_watermark
        known = [offset for offset, _ in log.interceptor.traces.between(0, end)]
        log.kill()
        again = [offset for offset, _ in log.interceptor.traces.between(0, end)]

    assert known == again == list(range(end - len(known), end))
    assert min(end, 15 - size) <= len(known) <= 20 + size


def test_when_too_much_happens_the_newest_is_dropped_and_counted() -> None:
    log = ExtendedLog()
    log.send("v", trace=1)
    [*_, happening] = log.tracer.events._gathered
    buffer = EventBuffer()
    for _ in range(MOST_GATHERED + 5):
        buffer.add(happening)

    assert (len(buffer._gathered), buffer.dropped, buffer.has_room) == (MOST_GATHERED, 5, False)


def test_what_happens_to_very_many_at_once_is_written_in_parts() -> None:
    """One fetch may pass over thousands of traced records: others must get their turns."""
    label = PartitionLabel("orders", 0)
    traces = [(offset, RecordTrace(bytes(15) + b"\1", f"orders/0/{offset}")) for offset in range(1234)]
    places = [Place("orders", 0, 5000 + offset) for offset, _ in traces]
    whole = Happening(Kind.FIRED, Millis(7), label, traces, "", places)
    buffer = EventBuffer()
    buffer.add(whole)

    taken = []
    while some := buffer.take_some():
        assert sum(len(each.entries) for each in some) <= 2 * AT_ONCE
        taken += [value for each in some for value in each.values()]

    assert taken == whole.values()


def test_while_too_much_happens_batches_are_not_opened_for_their_context(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ExtendedLog()
    monkeypatch.setattr("kompat.extensions.tracing.buffer.MOST_GATHERED", 0)
    monkeypatch.setattr("kompat.extensions.interceptor.iterate", lambda *_: pytest.fail("the batch was opened"))

    with_headers(log, "v", {"traceparent": SAMPLED})

    assert log.partition.high_watermark == 1
