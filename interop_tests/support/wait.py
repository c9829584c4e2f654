"""Waiting with a deadline: nothing in these tests sleeps and hopes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def until(check: Callable[[], T], what: str, *, seconds: float = 10.0) -> T:
    """Ask until the answer is truthy, and return it."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; last answer: {answer!r}")
        time.sleep(POLL_SECONDS)
    return answer


def despite(error: type[Exception], ask: Callable[[], T], what: str, *, seconds: float = 30.0) -> T:
    """Ask until there is an answer instead of this error: leaders and coordinators may be about to change."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except error as reason:
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}") from reason
        time.sleep(POLL_SECONDS)
