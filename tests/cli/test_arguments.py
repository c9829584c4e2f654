"""Values that people type."""

import argparse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.arguments import Place, brokers, count, duration, moment, partition, place, setting


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250", 250), ("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), ("7d", 604_800_000)]
)
def test_spans(text: str, milliseconds: int) -> None:
    assert duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "5 s", "-1s", "1.5s", "5x", "5s5", "٣s"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="duration"):
        duration(text)


def test_times_have_a_zone() -> None:
    assert moment("1700000000123") == 1_700_000_000_123
    assert moment("2023-11-14T22:13:20.123Z") == moment("2023-11-14T23:13:20.123+01:00") == 1_700_000_000_123
    for text in ("2023-11-14T22:13:20", "yesterday"):
        with pytest.raises(argparse.ArgumentTypeError):
            moment(text)


@settings(deadline=None)
@given(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 1000), st.integers(0, 1 << 60))
def test_places_are_written_as_they_are_read(topic: str, index: int, offset: int) -> None:
    assert place(f"{topic}/{index}/{offset}") == Place(topic, index, offset)
    assert partition(f"{topic}/{index}") == Place(topic, index)


@pytest.mark.parametrize("text", ["orders", "orders/1", "orders/1/x", "/1/2", "orders/-1/2", "a/b/1/2"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="orders/2/45678"):
        place(text)


def test_what_is_no_count_setting_or_list_of_brokers() -> None:
    for read, text in ((count, "0"), (count, "x"), (setting, "x"), (setting, "=1"), (brokers, "1,x"), (brokers, "")):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
    assert setting("a=b=c") == ("a", "b=c")
    assert brokers("3,1") == [3, 1]
