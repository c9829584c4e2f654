"""Messages as JSON, and the records that they are; what a fetch holds for readers; cursors."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.admin.following import visible
from kompat.admin.messages import NewMessage, duration, message, record_of
from kompat.admin.problems import Problem
from kompat.admin.producing import partition_for
from kompat.admin.routes.tail import _resumed
from kompat.errors import KafkaError
from kompat.extensions.reads import cursors
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, iterate, read_header

NOW = 1_700_000_000_000
PARTS = st.none() | st.binary(max_size=20)
RECORDS = st.builds(
    Record,
    st.integers(0, 2**40),
    st.integers(0, NOW),
    PARTS,
    PARTS,
    st.lists(st.tuples(st.text(max_size=5), PARTS), max_size=3),
)


@settings(deadline=None)
@given(RECORDS)
async def test_what_is_shown_of_a_record_can_be_sent_as_it_is(record: Record) -> None:
    shown = msgspec.to_builtins(await message(3, record))
    given = {
        name: shown[name]
        for name in ("key", "keyEncoding", "value", "encoding", "timestamp", "headers")
        if name in shown
    }

    again = await record_of(msgspec.json.decode(msgspec.json.encode(given), type=NewMessage), NOW)

    assert (again.key, again.value, again.timestamp) == (record.key, record.value, record.timestamp)
    assert list(again.headers) == list(record.headers)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (0, 0),
        (1500, 1500),
        ("250", 250),
        ("30s", 30_000),
        ("1m30s", 90_000),
        ("1.5h", 5_400_000),
        ("2d1ms", 172_800_001),
    ],
)
def test_a_duration_is_a_number_of_milliseconds_or_has_units(text: int | str, ms: int) -> None:
    assert duration(text, "delay") == ms


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 s", "1w", "1e3s", "1s1", "٣s", "9" * 15 + "d", "1s" * 9, "1" * 40])
def test_what_is_no_duration_is_a_problem(text: str) -> None:
    with pytest.raises(Problem, match=r"^delay: "):
        duration(text, "delay")


async def test_fields_are_the_headers_that_any_client_could_have_sent() -> None:
    new = NewMessage(
        value=None, delay="2s", priority="high", ttl=5, message_id="m", schedule_id="s", trace=True, headers={"a": "b"}
    )
    record = await record_of(new, NOW)
    assert (record.value, record.timestamp, dict(record.headers)) == (
        None,
        NOW,
        {
            "a": b"b",
            "kompat-delay-ms": b"2000",
            "kompat-priority": b"high",
            "kompat-ttl-ms": b"5",
            "kompat-msg-id": b"m",
            "kompat-schedule-id": b"s",
            "kompat-trace": b"1",
        },
    )


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (NewMessage(value="v", delay=1, deliver_at=1), "cannot have both"),
        (NewMessage(value="v", encoding="base64"), "value is not base64"),
        (NewMessage(value="v", key="k", key_encoding="base64"), "key is not base64"),
        (NewMessage(value="v", deliver_at="2030-01-01T00:00:00"), "time zone"),
        (NewMessage(value="v", headers={"kompat-priority": "11"}), "kompat-priority"),
    ],
)
async def test_a_message_that_makes_no_sense_says_why(new: NewMessage, why: str) -> None:
    with pytest.raises(Problem, match=why):
        await record_of(new, NOW)


def test_keys_go_where_kafkas_own_clients_send_them() -> None:
    # As `org.apache.kafka.common.utils.Utils.murmur2` has them, in its tests.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, hashed in known.items():
        assert partition_for(key, 1000, 7) == (hashed & 0x7FFFFFFF) % 1000
    assert partition_for(None, 10, 7) == 7


@st.composite
def transactions(draw: Any) -> tuple[bytes, list[Any], list[int]]:
    """A log of transactions, those of them that were aborted, and the offsets that a reader sees."""
    log, aborted, seen = bytearray(), [], []
    offset = 0
    opened: dict[int, int] = {}
    begun: dict[int, list[int]] = {}
    for producer, step in draw(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("rrrac")), max_size=15)):
        if step == "r":
            records = [Record(i, 1, None, b"v") for i in range(draw(st.integers(1, 3)))]
            batch = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
            size = len(records)
            opened.setdefault(producer, offset)
            begun.setdefault(producer, []).extend(range(offset, offset + size))
        elif producer in opened:
            kind = ControlType.ABORT if step == "a" else ControlType.COMMIT
            batch = control_batch(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1)
            size = 1
            first, offsets = opened.pop(producer), begun.pop(producer)
            if kind is ControlType.ABORT:
                aborted.append(SimpleNamespace(producer_id=producer, first_offset=first))
            else:
                seen += offsets
        else:
            continue
        batch[:8] = offset.to_bytes(8, "big")
        log += batch
        offset += size
    open_ones = [each for offsets in begun.values() for each in offsets]
    return bytes(log), aborted, sorted(seen + open_ones)


@settings(deadline=None)
@given(transactions())
def test_a_reader_sees_all_but_what_was_aborted(found: tuple[bytes, list[Any], list[int]]) -> None:
    log, aborted, seen = found
    batches = [batch for batch in visible(log, aborted) if not read_header(batch).is_control]
    assert [record.offset for batch in batches for record in iterate(batch)] == seen


def test_who_comes_again_says_where_it_stood() -> None:
    assert _resumed("") == {}
    assert _resumed("0:5,12:0") == {0: 5, 12: 0}
    for wrong in ("0", "0:", ":5", "a:1", "1:b", "1:-1", "0:5,", "1:" + "9" * 19, "0:1," * 5000):
        with pytest.raises(Problem, match="Last-Event-ID"):
            _resumed(wrong)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**63 - 1), min_size=3, max_size=3), min_size=1, max_size=20))
def test_a_cursor_comes_back_as_it_was(rows: list[list[int]]) -> None:
    assert cursors.decode(cursors.encode(rows), 3) == rows


@settings(deadline=None)
@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="cursor"):
        cursors.decode(text, 3)


def test_cursors_of_many_partitions_fit_into_an_address() -> None:
    rows = [[partition, 10**12 + partition * 7919, 10**12 + partition * 15_485_863] for partition in range(256)]
    assert len(cursors.encode(rows)) < cursors.LONGEST
