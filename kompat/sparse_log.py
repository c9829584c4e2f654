"""Log lines that a client can cause as often as it likes: only the first ones of an interval are written.

The first line of the next interval tells how many were left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

LINES = 20
SECONDS = 10.0


class SparseLog:
    def __init__(
        self,
        log: logging.Logger,
        level: int = logging.INFO,
        *,
        lines: int = LINES,
        seconds: float = SECONDS,
        time: Callable[[], float] = monotonic,
    ) -> None:
        self._log = log
        self._level = level
        self._lines = lines
        self._seconds = seconds
        self._time = time
        self._ends = float("-inf")
        self._written = 0
        self._left_out = 0

    def write(self, message: str, facts: Callable[[], dict[str, object]]) -> None:
        """`facts`: the line's extra; called only if it is written."""
        now = self._time()
        if now >= self._ends:
            self._ends = now + self._seconds
            self._written = 0
        if self._written >= self._lines:
            self._left_out += 1
            return
        self._written += 1
        extra = facts()
        if self._left_out:
            extra["left_out"] = self._left_out
            self._left_out = 0
        self._log.log(self._level, message, extra=extra)
