"""Which records are traced, under which id, and how events and offsets are written down."""

import json
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.extensions.tracing import context, events, index, offsets
from kompat.extensions.tracing.events import Happening, Kind, Place, RecordTrace, TraceEvent, details
from kompat.extensions.tracing.offsets import TracedOffsets, TracedPartition
from kompat.extensions.tracing.timeline import timelines
from kompat.types import Millis

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
LABEL = TracedPartition(b"log", "orders", 2)


# -- traceparent ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False), ("03", True), ("02", False)])
def test_a_traceparent_tells_trace_span_and_whether_it_is_sampled(flags: str, is_sampled: bool) -> None:
    found = context.parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}".encode())

    assert found == (bytes.fromhex(TRACE), bytes.fromhex(SPAN), is_sampled)


def test_a_later_version_may_say_more() -> None:
    assert context.parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-else".encode()) is not None
    assert context.parse_traceparent(f"cc-{TRACE}-{SPAN}-01.what".encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}{SPAN}--01",
        f"00_{TRACE}_{SPAN}_01",
    ],
)
def test_what_is_no_traceparent_is_not_for_us(text: str) -> None:
    assert context.parse_traceparent(text.encode()) is None


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_no_bytes_are_too_strange(value: bytes) -> None:
    context.parse_traceparent(value)


# -- sampling ------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 2000), st.integers(0, context.MILLION))
def test_a_range_has_as_many_sampled_offsets_as_its_rate_says(first: int, count: int, parts: int) -> None:
    found = list(context.sampled(first, first + count, parts))

    assert abs(len(found) - count * parts / context.MILLION) <= 1
    assert found == sorted(set(found))
    assert all(first <= offset < first + count for offset in found)


@settings(deadline=None)
@given(st.integers(0, 10**12), st.lists(st.integers(1, 500), max_size=6), st.integers(0, context.MILLION))
def test_how_records_are_batched_makes_no_difference(first: int, sizes: list[int], parts: int) -> None:
    whole = list(context.sampled(first, first + sum(sizes), parts))

    found: list[int] = []
    position = first
    for size in sizes:
        found += context.sampled(position, position + size, parts)
        position += size

    assert found == whole
    assert [offset for offset in range(first, min(position, first + 200)) if context.is_sampled(offset, parts)] == [
        offset for offset in whole if offset < first + 200
    ]


def test_rates_of_none_and_all() -> None:
    assert list(context.sampled(5, 9, context.per_million(0.0))) == []
    assert list(context.sampled(5, 9, context.per_million(1.0))) == [5, 6, 7, 8]


@settings(deadline=None)
@given(st.sets(st.integers(0, 2**62), max_size=50), st.binary(min_size=20, max_size=20))
def test_no_two_places_have_the_same_id(offsets_: set[int], log: bytes) -> None:
    found = {context.place_id(log, offset) for offset in offsets_}

    assert len(found) == len(offsets_)
    assert all(len(each) == 16 and any(each) for each in found)
    assert found.isdisjoint(context.place_id(log + b"x", offset) for offset in offsets_)


def test_the_ids_of_neighbours_are_spread_over_partitions() -> None:
    homes = [LABEL.trace(offset).partition_hash % 4 for offset in range(99, 40_000, 100)]

    assert all(80 < homes.count(label) < 120 for label in range(4))


# -- offsets -------------------------------------------------------------------------------------------------------
texts = st.none() | st.text(min_size=1, max_size=20)
traces = st.builds(
    lambda trace, parent, message, record: (trace, parent, message, record),
    st.none() | st.binary(min_size=16, max_size=16).filter(any),
    st.just(b"") | st.binary(min_size=8, max_size=8),
    texts,
    texts,
)


@settings(deadline=None)
@given(st.integers(0, 2**40), st.lists(st.tuples(st.integers(1, 100), traces), min_size=1, max_size=5))
def test_traced_offsets_are_what_they_were_when_they_are_read_back(base: int, given_entries: list) -> None:
    entries, position = [], base
    for step, (trace_id, parent, message_id, record) in given_entries:
        position += step
        trace = LABEL.trace(position, trace_id, parent, message_id)
        if record is not None:
            trace = RecordTrace(trace.trace_id, record, parent, message_id)
        entries.append((position, trace))

    assert LABEL.decode(base, LABEL.encode(base, entries)) == entries
    assert offsets.base_of(offsets.state_name(base)) == base


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.integers(4, 30),
    st.integers(0, 120),
)
def test_ranges_are_found_as_in_a_plain_list_and_the_oldest_are_forgotten(
    batches: list[list[int]], saves: list[bool], limit: int, log_start: int
) -> None:
    known, stored, model, position = TracedOffsets(), {}, [], 0
    for steps, is_saved in zip(batches, saves, strict=False):
        entries = []
        for step in steps:
            entries.append((position, LABEL.trace(position)))
            position += step
        known.add(entries)
        model += [offset for offset, _ in entries]
        if is_saved:
            for base in known.forget(limit, log_start):
                gone = [offset for offset, _ in stored.pop(base)]
                assert model[: len(gone)] == gone
                del model[: len(gone)]
            found = known.unsaved()
            stored[found[0][0]] = found
            assert [offset for offset, _ in chain.from_iterable(stored.values())] == model

    assert [offset for offset, _ in known.between(0, position + 1)] == model
    for first in range(0, position, 7):
        assert [offset for offset, _ in known.between(first, first + 9)] == [
            offset for offset in model if first <= offset < first + 9
        ]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=8), st.integers(0, 30))
def test_what_was_never_written_is_forgotten(batches: list[tuple[int, bool]], end: int) -> None:
    known, position = TracedOffsets(), 0
    for count, is_saved in batches:
        known.add([(position + i, LABEL.trace(position + i)) for i in range(count)])
        position += count
        if is_saved:
            known.unsaved()

    known.cut(end)
    known.add([(end + 5, LABEL.trace(end + 5))])

    kept = [*range(min(position, end)), end + 5]
    assert [offset for offset, _ in known.between(0, 100)] == kept
    assert [offset for offset, _ in known.unsaved()][-1] == end + 5


# -- events --------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.text(max_size=20), st.text(min_size=1, max_size=20), st.integers(0, 2**53))
def test_an_event_is_json_whatever_clients_call_themselves(client: str, message_id: str, at: int) -> None:
    trace = RecordTrace(bytes.fromhex(TRACE), "orders/2/5", bytes.fromhex(SPAN), message_id)
    more = details(client_id=client, group=None, due=7)
    [value] = Happening(Kind.DELIVERED, Millis(at), LABEL, [(5, trace)], more).values()

    assert json.loads(value) == {
        "event": "DELIVERED",
        "timestamp": at,
        "trace_id": TRACE,
        "parent_span_id": SPAN,
        "record": "orders/2/5",
        "message_id": message_id,
        "topic": "orders",
        "partition": 2,
        "offset": 5,
        "client_id": client,
        "due": 7,
    }
    read = events.decode(value)
    assert read is not None
    assert read.to_json() == json.loads(value)


def test_records_that_move_tell_where_each_of_them_went() -> None:
    traces = [(offset, LABEL.trace(offset)) for offset in (3, 4)]
    places = [Place("dlq.orders", 0, 7), Place("dlq.orders", 0, 8)]

    values = Happening(Kind.DEAD_LETTERED, Millis(1), LABEL, traces, details(group="g"), places).values()

    told = [json.loads(value) for value in values]
    assert [(event["offset"], event["to_topic"], event["to_offset"]) for event in told] == [
        (3, "dlq.orders", 7),
        (4, "dlq.orders", 8),
    ]
    assert [event["record"] for event in told] == ["orders/2/3", "orders/2/4"]


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"7", b'{"event":"PRODUCED"}', b"\xff"])
def test_what_is_no_event_is_passed_over(value: bytes | None) -> None:
    assert events.decode(value) is None


# -- index ---------------------------------------------------------------------------------------------------------
def test_the_index_of_a_batch_goes_with_the_batch() -> None:
    trace = RecordTrace(bytes.fromhex(TRACE), "orders/2/5", message_id="m-1")
    came = Happening(Kind.PRODUCED, Millis(1), LABEL, [(5, trace)])
    moved = Happening(Kind.FIRED, Millis(2), LABEL, [(5, trace)], "", [Place("orders", 2, 9)])
    written = dict(index.writes(40, index.names([(came, 0), (moved, 0)])))

    for place in (Place("orders", 2, 5), Place("orders", 2, 9)):
        assert index.record_value(written[index.record_name(place)] or b"") == (trace.trace_id, "orders/2/5")
    first, end = index.trace_range(trace.trace_id)
    assert [index.batch_of(name) for name in written if first <= name < end] == [40]
    first, end = index.message_range("m-1")
    assert [index.trace_of(name) for name in written if first <= name < end] == [trace.trace_id]
    first, end = index.batches_before(41)
    [batch] = [name for name in written if first <= name < end]
    assert {name for name, value in index.removals(batch, written[batch] or b"") if value is None} == set(written)
    first, end = index.batches_before(40)
    assert not [name for name in written if first <= name < end]


def test_a_record_whose_id_follows_from_its_place_needs_no_index_of_places() -> None:
    trace = LABEL.trace(5)
    written = dict(index.writes(40, index.names([(Happening(Kind.PRODUCED, Millis(1), LABEL, [(5, trace)]), 0)])))

    assert index.record_name(Place("orders", 2, 5)) not in written
    assert trace.trace_id == context.place_id(b"log", 5)


# -- timelines -----------------------------------------------------------------------------------------------------
def happened(kind: str, at: int, record: str = "orders/0/1", **more: object) -> TraceEvent:
    return TraceEvent(
        event=kind,
        timestamp=at,
        trace_id=TRACE,
        record=record,
        topic="orders",
        partition=0,
        offset=1,
        **more,  # type: ignore[arg-type]
    )


def test_a_timeline_is_in_order_and_tells_how_long_each_step_took() -> None:
    told = [
        happened("DELIVERED", 120),
        happened("PRODUCED", 100, message_id="m"),
        happened("REPLICATED", 103),
        happened("ACKNOWLEDGED", 150),
    ]

    [found] = timelines(told)

    assert [(step.event.event, step.since_start_ms, step.since_previous_ms) for step in found.steps] == [
        ("PRODUCED", 0, 0),
        ("REPLICATED", 3, 3),
        ("DELIVERED", 20, 17),
        ("ACKNOWLEDGED", 50, 30),
    ]
    assert (found.total_ms, found.message_id) == (50, "m")
    assert found.to_json()["events"][1]["since_previous_ms"] == 3


def test_in_one_millisecond_a_record_begins_before_it_is_delivered() -> None:
    [found] = timelines([happened("DELIVERED", 5), happened("REPLICATED", 5), happened("PRODUCED", 5)])

    assert [step.event.event for step in found.steps] == ["PRODUCED", "REPLICATED", "DELIVERED"]


def test_records_of_one_trace_have_timelines_of_their_own() -> None:
    found = timelines([happened("PRODUCED", 9, "orders/0/2"), happened("PRODUCED", 4), happened("REPLICATED", 10)])

    assert [(each.record, len(each.steps)) for each in found] == [("orders/0/1", 2), ("orders/0/2", 1)]
