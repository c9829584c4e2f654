"""Records as lines, and lines as records."""

import argparse
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.formats import FORMATS, Shown, fields, format_named
from kompat.cli.messages import Message, NoMessage, extension_headers, from_json, from_line
from kompat.cli.shapes import record_of

NOTHING = Message(value=None)
RECORDS = st.builds(
    Shown,
    topic=st.just("orders"),
    partition=st.integers(0, 100),
    offset=st.integers(0, 1 << 60),
    timestamp=st.integers(0, 1 << 41),
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=50),
    headers=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=10)), max_size=3),
)


@settings(deadline=None)
@given(RECORDS)
def test_json_lines_bring_every_byte_to_another_topic(record: Shown) -> None:
    line = FORMATS["json"](record)

    sent = from_json(line, NOTHING)

    assert b"\n" not in line
    assert (sent.key, sent.value, sent.partition, sent.timestamp) == (*record[4:6], record.partition, record.timestamp)
    assert sent.headers == list(record.headers)


@settings(deadline=None)
@given(RECORDS)
def test_the_door_tells_records_in_the_same_shape(record: Shown) -> None:
    assert record_of("orders", json.loads(json.dumps(fields(record)))) == record


@settings(deadline=None)
@given(RECORDS)
def test_a_line_for_eyes_is_one_line_that_does_nothing_to_the_terminal(record: Shown) -> None:
    assert FORMATS["line"](record).decode().isprintable()


def test_values_and_keys_are_as_they_are() -> None:
    record = Shown("t", 0, 7, 0, b"\xff", b"\x00\xfe", [("h", b"x")])

    assert FORMATS["value"](record) == b"\x00\xfe"
    assert FORMATS["keyed"](record) == b"\xff\t\x00\xfe"
    assert format_named("{topic}:{offset}\\t{key}={value} {headers}")(record) == rb"t:7" + b"\t" + rb"\xff=\x00\xfe h=x"


@pytest.mark.parametrize("name", ["xml", "{nothing}", "{", "{0}", "{value.bit_length}"])
def test_what_is_no_format(name: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        format_named(name)


def test_a_line_is_a_value_or_has_its_key_before_the_separator() -> None:
    defaults = Message(value=None, key=b"k", headers=[("a", b"b")])

    assert from_line(b"a:b:c", None, defaults) == Message(value=b"a:b:c", key=b"k", headers=[("a", b"b")])
    assert from_line(b"a:b:c", b":", defaults).key == b"a"
    assert from_line(b"a:b:c", b":", defaults).value == b"b:c"
    with pytest.raises(NoMessage, match="separator"):
        from_line(b"abc", b":", defaults)


def test_json_may_ask_for_what_flags_ask_for() -> None:
    line = json.dumps(
        {"value": {"a": 1}, "headers": {"x": "y"}, "delay": "1m", "priority": 9, "ttl": 500, "messageId": "m"}
    )

    sent = from_json(line.encode(), Message(value=None, key=b"k"))

    assert (sent.key, sent.value) == (b"k", b'{"a": 1}')
    assert sent.headers == [("x", b"y"), *extension_headers(delay=60_000, priority=9, ttl=500, messageId="m")]
    assert dict(sent.headers)["kompat-delay-ms"] == b"60000"


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"[]",
        b'{"value": "x", "valeu": 1}',
        b'{"value": "?", "encoding": "base64"}',
        b'{"value": "x", "encoding": "rot13"}',
        b'{"value": "x", "headers": ["h"]}',
        b'{"value": "x", "partition": "0"}',
        b'{"value": "x", "partition": true}',
        b'{"value": "x", "delay": "soon"}',
    ],
)
def test_what_is_no_message(line: bytes) -> None:
    with pytest.raises(NoMessage):
        from_json(line, NOTHING)


def test_a_missing_value_is_a_tombstone() -> None:
    sent: Any = from_json(b'{"key": "k", "value": null}', NOTHING)

    assert (sent.key, sent.value) == (b"k", None)
