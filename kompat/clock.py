"""The clock as a dependency: code that needs the time takes a Clock, so that tests and replays control it."""

import time
from typing import Protocol

from kompat.types import Millis


class Clock(Protocol):
    def now(self) -> Millis:
        """Wall-clock milliseconds since the epoch, for timestamps that clients see."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds, for timeouts."""
        ...


class SystemClock:
    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that tests move by hand."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._jumped = 0

    def now(self) -> Millis:
        return Millis(self._now)

    def monotonic(self) -> float:
        return (self._now - self._jumped) / 1000

    def advance(self, ms: int) -> None:
        self._now += ms

    def jump(self, ms: int) -> None:
        """Change the wall clock, as an operator may: no time passes."""
        self._now += ms
        self._jumped += ms
