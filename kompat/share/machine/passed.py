"""How the last records before a share partition's start ended: their acknowledgements may be repeated, or arrive late.

Only the start is persisted, so this is known in this process only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

MOST_RUNS: Final = 4096
MOST_RUNS_UNUSED: Final = 256  # while the share partition is not in use


class Passed:
    __slots__ = ("_accepted", "_firsts", "_lasts")

    def __init__(self) -> None:
        # Runs of offsets, ascending, and whether their records were accepted; else they were rejected.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._accepted: list[bool] = []

    def add(self, first: int, last: int, *, is_accepted: bool) -> None:
        """Add records that have ended; they follow all that were added before."""
        if self._lasts and self._lasts[-1] == first - 1 and self._accepted[-1] is is_accepted:
            self._lasts[-1] = last
            return
        if len(self._firsts) >= MOST_RUNS:
            self.shrink(MOST_RUNS // 2)
        self._firsts.append(first)
        self._lasts.append(last)
        self._accepted.append(is_accepted)

    def cut(self, end: int) -> None:
        """Remove records from here on: that they ended was not persisted."""
        place = bisect_left(self._firsts, end)
        for each in (self._firsts, self._lasts, self._accepted):
            del each[place:]
        if self._lasts:
            self._lasts[-1] = min(self._lasts[-1], end - 1)

    def was_accepted(self, offset: int) -> bool | None:
        """None: it is not known any more, or the log start passed the record first."""
        place = bisect_right(self._firsts, offset) - 1
        return self._accepted[place] if place >= 0 and offset <= self._lasts[place] else None

    def shrink(self, most: int) -> None:
        """Keep the newest of them."""
        for each in (self._firsts, self._lasts, self._accepted):
            del each[:-most]
