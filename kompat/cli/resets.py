"""Plans the reset of a group's offsets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Places = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a reset: one of these. Times are converted to offsets already."""

    offset: int | None = None
    shift: int | None = None
    to_earliest: bool = False
    to_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    topic: str
    partition: int
    was: int | None  # None: no offset was committed
    to: int
    is_clamped: bool  # the requested offset is not in the log

    @property
    def row(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.was,
            "to": self.to,
            "clamped": self.is_clamped,
        }


def moves(target: Target, committed: Places, ends: Mapping[tuple[str, int], tuple[int, int]]) -> list[Move]:
    """The new offset of each partition in `ends`, which has the start and end offsets of logs. A shift needs a committed offset."""
    found = []
    for place, (start, end) in sorted(ends.items()):
        was = committed.get(place)
        wanted = _wanted(target, was, start, end)
        if wanted is None:
            continue
        to = min(max(wanted, start), end)
        found.append(Move(topic=place[0], partition=place[1], was=was, to=to, is_clamped=to != wanted))
    return found


def _wanted(target: Target, was: int | None, start: int, end: int) -> int | None:
    if target.to_earliest:
        return start
    if target.to_latest:
        return end
    if target.shift is not None:
        return None if was is None else was + target.shift
    return target.offset
