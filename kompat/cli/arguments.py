"""Values that commands take as text."""

from __future__ import annotations

import argparse
from datetime import datetime


def moment(text: str) -> int:
    """Milliseconds since 1970, or a time as in 2026-01-31T12:00:00Z."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: {error}") from None
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} does not say its time zone: 2026-01-31T12:00:00Z does")
    return round(found.timestamp() * 1000)


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
