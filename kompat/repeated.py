"""Errors that repeat themselves: the first is worth a line of the log, its thousandth is worth a number in the next line. Pure."""

from __future__ import annotations

from collections.abc import Hashable

EVERY_SECONDS = 10.0
MOST = 256


class Repeated:
    """Bounded: where too much is remembered, the oldest is forgotten."""

    __slots__ = ("_every", "_logged")

    def __init__(self, every: float = EVERY_SECONDS) -> None:
        self._every = every
        self._logged: dict[Hashable, tuple[float, int]] = {}  # when it was logged, and how often it has come since

    def count(self, what: Hashable, now: float) -> int:
        """How often it has come since its last line, this time included; 0: it is too early for another line."""
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
    """To end a line with."""
    return f" ({count} times since the last line about it)" if count > 1 else ""
