"""Parses the arguments of commands."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from typing import Final, NamedTuple

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"([0-9]+)(ms|s|m|h|d)")


def moment(text: str) -> int:
    """Milliseconds since 1970, or a time as in 2026-01-31T12:00:00Z."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: {error}") from None
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; 2026-01-31T12:00:00Z has one")
    return round(found.timestamp() * 1000)


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def duration(text: str) -> int:
    """Milliseconds, or a time span as in 1m30s."""
    if text.isascii() and text.isdecimal():
        return int(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms, 30s or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


class Place(NamedTuple):
    """A record, or a partition if there is no offset."""

    topic: str
    partition: int
    offset: int | None = None


def place(text: str) -> Place:
    """A record as in orders/2/45678. A topic's name has no slashes."""
    topic, *numbers = text.split("/")
    if not topic or len(numbers) != 2 or not all(each.isascii() and each.isdecimal() for each in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC/PARTITION/OFFSET, such as orders/2/45678")
    return Place(topic, int(numbers[0]), int(numbers[1]))


def partition(text: str) -> Place:
    """A partition as in orders/2."""
    topic, slash, number = text.rpartition("/")
    if not topic or not slash or not (number.isascii() and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC/PARTITION, such as orders/2")
    return Place(topic, int(number))


def count(text: str) -> int:
    """A number of at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def brokers(text: str) -> list[int]:
    """Broker ids as in 1,2,3."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of broker ids, such as 1,2,3") from None
