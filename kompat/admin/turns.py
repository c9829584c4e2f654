"""Reads a topic of many partitions some of them at a time, because their positions have to fit into a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kompat.admin.problems import invalid
from kompat.extensions.reads import cursors

AT_A_TIME = 256
LONGEST_CURSOR = cursors.LONGEST + 16


@dataclass(frozen=True, slots=True)
class Turn:
    partitions: Sequence[int]  # that are read together
    count: int  # of all partitions
    cursor: str | None  # within `partitions`

    def cursor_after(self, cursor: str | None) -> str | None:
        """The cursor of the next page. `cursor` is that within these partitions; None if they are read to their end."""
        if self.count <= AT_A_TIME:
            return cursor
        if cursor is not None:
            return f"{self.partitions[0]}.{cursor}"
        following = self.partitions[-1] + 1
        return f"{following}." if following < self.count else None


def turn_of(count: int, partition: int | None, cursor: str | None) -> Turn:
    """The turn of a topic with `count` partitions, or of one partition. Raises a problem if the cursor is invalid."""
    if partition is not None:
        return Turn([partition], 1, cursor)
    first, dot, rest = (cursor or "").rpartition(".")
    if dot and not (first.isascii() and first.isdigit() and len(first) < 10 and int(first) < count):
        raise invalid("The cursor does not belong to this list. Use the `nextCursor` of the previous page.")
    start = int(first) if dot else 0
    return Turn(range(start, min(start + AT_A_TIME, count)), count, rest or None)
