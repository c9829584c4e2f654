"""The headers by which a record asks for something."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.extensions import headers
from kompat.extensions.headers import HeaderError, RecordOptions, parse
from kompat.protocol.records import Record, build_batch, check_batch
from kompat.types import Millis

NOW = Millis(1_700_000_000_000)


def options(*named: tuple[str, str]) -> RecordOptions:
    found = parse([(name, value.encode()) for name, value in named])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "value", "due"),
    [
        ("kompat-delay-ms", "1500", NOW + 1500),
        ("x-delay", "1500", NOW + 1500),
        ("TIMER_DELAY_MS", "007", NOW + 7),
        ("TIMER_DELAY_SEC", "2", NOW + 2000),
        ("TIMER_DELIVER_MS", str(NOW + 3), NOW + 3),
        ("kompat-deliver-at", str(NOW + 3), NOW + 3),
        ("kompat-deliver-at", "2030-01-31T12:00:00Z", 1_896_091_200_000),
        ("kompat-deliver-at", "2030-01-31t14:00:00.5+02:00", 1_896_091_200_500),
        ("kompat-deliver-at", "2030-01-31 12:00:00.123456789z", 1_896_091_200_123),
        ("kompat-deliver-at", "0001-01-01T00:00:00Z", None),
        ("kompat-delay-ms", "0", None),
        ("kompat-deliver-at", str(NOW), None),
    ],
)
def test_a_delay_and_a_time_are_understood_in_every_spelling(name: str, value: str, due: int | None) -> None:
    assert options((name, value)).due(NOW) == due


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("kompat-delay-ms", value) for value in ("", "-1", "+1", "1.5", " 1", "1e3", "soon", "1_000", "٣", "9" * 19)),
        *(
            ("kompat-deliver-at", value)
            for value in ("tomorrow", "2030-01-31", "2030-01-31T12:00:00", "20300131T120000Z")
        ),
        *(("kompat-deliver-at", value) for value in ("2030-02-31T12:00:00Z", "2030-01-31T25:00:00Z", "-5")),
        ("x-delay", "never"),
        ("TIMER_DELAY_SEC", "1s"),
        ("TIMER_DELIVER_MS", "2030-01-31T12:00:00Z"),
        ("kompat-schedule-id", ""),
        ("kompat-schedule-id", "i" * 1025),
        ("kompat-msg-id", ""),
        ("Nats-Msg-Id", "ü" * 513),
        ("kompat-priority", "10"),
        ("kompat-priority", "urgent"),
        ("kompat-ttl-ms", "a while"),
        ("kompat-trace", "yes"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name_and_value(name: str, value: str) -> None:
    with pytest.raises(HeaderError, match=re.escape(f"{name}: {value[:20]!r}"[:-1])):
        options((name, value))


def test_a_value_that_is_missing_or_not_text_is_refused() -> None:
    with pytest.raises(HeaderError, match="kompat-delay-ms has no value"):
        parse([("kompat-delay-ms", None)])
    with pytest.raises(HeaderError, match="is not UTF-8"):
        parse([("kompat-msg-id", b"\xff")])


def test_the_last_header_counts_whatever_its_spelling() -> None:
    assert options(("kompat-delay-ms", "1"), ("kompat-delay-ms", "2")).due(NOW) == NOW + 2
    assert options(("kompat-delay-ms", "1"), ("kompat-deliver-at", str(NOW + 9))).due(NOW) == NOW + 9
    assert options(("kompat-deliver-at", str(NOW + 9)), ("x-delay", "1")).due(NOW) == NOW + 1
    assert options(("priority", "3"), ("kompat-priority", "high")).priority == 7


def test_an_invalid_header_is_refused_even_where_a_later_one_counts() -> None:
    with pytest.raises(HeaderError):
        options(("kompat-delay-ms", "x"), ("kompat-delay-ms", "1"))


@pytest.mark.parametrize(
    ("value", "priority"),
    [("0", 0), ("9", 9), ("critical", 9), ("high", 7), ("normal", 4), ("low", 2), ("background", 0)],
)
@pytest.mark.parametrize("name", ["kompat-priority", "priority", "x-priority"])
def test_a_priority_is_a_digit_or_a_word(name: str, value: str, priority: int) -> None:
    assert options((name, value)).priority == priority


@pytest.mark.parametrize("value", [b"urgent", b"10", b"\xff", b"", None])
def test_what_applications_call_a_priority_is_left_alone_unless_it_is_one(value: bytes | None) -> None:
    found = parse([("kompat-priority", b"2"), ("priority", value)])

    assert found is not None
    assert found.priority == 2


def test_other_headers_ask_for_nothing() -> None:
    assert parse([("Kompat-Delay-Ms", b"1"), ("delay", None), ("", b"")]) is None


def test_ids_times_to_live_and_traces_are_understood() -> None:
    found = options(("kompat-msg-id", "m"), ("kompat-schedule-id", "s"), ("kompat-ttl-ms", "5"), ("kompat-trace", "1"))

    assert (found.message_id, found.schedule_id, found.time_to_live, found.trace) == ("m", "s", 5, True)
    assert options(("Nats-Msg-Id", "n")).message_id == "n"


def test_every_name_is_found_natively_and_told_by_its_bit() -> None:
    sampled = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for name in headers._ALL:
        value = sampled if name == headers.TRACEPARENT else b"1"
        batch = build_batch([Record(0, NOW, None, None, ((name, value),))], compression=3)
        assert check_batch(batch, names=headers.NAMES).named == headers.bits(name)
        assert bool(headers.bits(name) & headers.STRICT) == (name not in ("priority", "x-priority", "traceparent"))


@given(st.lists(st.tuples(st.sampled_from(headers._ALL), st.one_of(st.none(), st.binary(max_size=30)))))
def test_whatever_stands_in_a_header_is_taken_or_refused(given_headers: list[tuple[str, bytes | None]]) -> None:
    refusal = ""
    try:
        found = parse(given_headers)
    except HeaderError as error:
        refusal = str(error)
        found = None
    assert any(name in refusal for name, _ in given_headers) if refusal else (found is None) == (not given_headers)


def test_a_trace_context_is_handed_on_as_it_is() -> None:
    found = parse([("traceparent", b"\xff not one")])

    assert found is not None
    assert found.traceparent == b"\xff not one"
