"""A topic of many partitions is read some of them at a time: where each of those stands has to fit into a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kompat.admin.problems import invalid
from kompat.extensions import cursors

AT_A_TIME = 256
LONGEST_CURSOR = cursors.LONGEST + 16


@dataclass(frozen=True, slots=True)
class Turn:
    partitions: Sequence[int]  # that are read together
    count: int  # of all that are to be read
    cursor: str | None  # within these

    def cursor_after(self, cursor: str | None) -> str | None:
        """For whoever goes on. `cursor`: within these partitions; None: they are done with."""
        if self.count <= AT_A_TIME:
            return cursor
        if cursor is not None:
            return f"{self.partitions[0]}.{cursor}"
        following = self.partitions[-1] + 1
        return f"{following}." if following < self.count else None


def turn_of(count: int, partition: int | None, cursor: str | None) -> Turn:
    """Of a topic with so many partitions, or of one of them. Raises a problem."""
    if partition is not None:
        return Turn([partition], 1, cursor)
    first, dot, rest = (cursor or "").rpartition(".")
    if dot and not (first.isascii() and first.isdigit() and len(first) < 10 and int(first) < count):
        raise invalid("cursor is not one of this list. Give the `nextCursor` of the page before.")
    start = int(first) if dot else 0
    return Turn(range(start, min(start + AT_A_TIME, count)), count, rest or None)
