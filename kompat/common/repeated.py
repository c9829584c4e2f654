"""Rate-limits log lines for errors that repeat: the first gets a line, the others are counted in the next line. Pure."""

from __future__ import annotations

from collections.abc import Hashable

EVERY_SECONDS = 10.0
MOST = 256


class Repeated:
    """Counts errors since their last log line. Bounded: the oldest entries are dropped."""

    __slots__ = ("_every", "_logged")

    def __init__(self, every: float = EVERY_SECONDS) -> None:
        self._every = every
        self._logged: dict[Hashable, tuple[float, int]] = {}  # when it was logged, and how often it occurred since

    def count(self, what: Hashable, now: float) -> int:
        """The occurrences since the last log line, including this one; 0 if it is too early for another line."""
        known = self._logged.get(what)
        if known is not None and now - known[0] < self._every:
            self._logged[what] = known[0], known[1] + 1
            return 0
        self._logged.pop(what, None)
        self._logged[what] = now, 0
        if len(self._logged) > MOST:
            del self._logged[next(iter(self._logged))]
        return 1 if known is None else known[1] + 1


def times(count: int) -> str:
    """The suffix of a log line."""
    return f" ({count} times since the last line about it)" if count > 1 else ""
