"""What jobs understand on the command line, without Spark."""

import argparse

import pytest

from spark.options import moment, setting
from spark.traces import duration


@pytest.mark.parametrize(
    ("text", "millis"), [("0s", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1d", 86_400_000)]
)
def test_lengths_of_time(text: str, millis: int) -> None:
    assert duration(text) == millis


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5y", "1.5h", "5mm"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="30s, 5m or 2h"):
        duration(text)


def test_moments() -> None:
    assert moment("1700000000000") == 1_700_000_000_000
    assert moment("2026-01-31T12:00:00Z") == moment("2026-01-31T13:00:00+01:00") == 1_769_860_800_000
    for text in ("yesterday", "2026-01-31T12:00:00"):
        with pytest.raises(argparse.ArgumentTypeError):
            moment(text)


def test_settings() -> None:
    assert setting("a.b=c=d") == ("a.b", "c=d")
    for text in ("a", "=b"):
        with pytest.raises(argparse.ArgumentTypeError):
            setting(text)
