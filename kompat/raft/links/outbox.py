"""What waits to be sent on a link: lanes by urgency, each bounded in bytes.

Heartbeats and Raft messages pass calls and streams. Those are patient, but not starved: when much has passed them, one
frame of theirs goes ahead, and none is longer than a piece.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

from kompat.raft.links.frames import Parcel
from kompat.types import Buffer

# Bytes that may pass while calls or streams wait; then one of their frames goes ahead.
PATIENCE = 1024 * 1024
BULK_ROOM = 1024 * 1024


class Lane(IntEnum):
    URGENT = 0  # signs of life, heartbeats, credits
    RAFT = 1
    CALLS = 2
    BULK = 3  # pieces of streams and of large bodies


_LANES = tuple(Lane)
_PATIENT = (Lane.CALLS, Lane.BULK)


class Outbox:
    """`limit` is for all lanes together, in bytes. A lane that is empty takes one parcel of any size."""

    __slots__ = ("_bounds", "_lanes", "_passed", "_sizes", "_turn")

    def __init__(self, limit: int) -> None:
        self._lanes: tuple[deque[Parcel], ...] = tuple(deque() for _ in _LANES)
        self._sizes = [0] * len(_LANES)
        bulk = min(BULK_ROOM, limit // 8)
        self._bounds = (limit // 8, limit // 2, limit // 4, bulk)
        self._passed = 0  # bytes that have passed waiting calls and streams
        self._turn = 0  # whose turn it is among them

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def has_room(self, lane: Lane, size: int) -> bool:
        held = self._sizes[lane]
        return held == 0 or held + size <= self._bounds[lane]

    def add(self, lane: Lane, parcel: Parcel) -> None:
        self._lanes[lane].append(parcel)
        self._sizes[lane] += parcel[1]

    def offer(self, lane: Lane, parcel: Parcel) -> bool:
        """Take it if there is room."""
        if not self.has_room(lane, parcel[1]):
            return False
        self.add(lane, parcel)
        return True

    def take(self, most: int) -> list[Buffer]:
        """The buffers that go out next: parcels until `most` bytes are reached, at least one if there is any."""
        taken: list[Buffer] = []
        size = 0
        while size < most:
            lane = self._next()
            if lane is None:
                break
            buffers, count = self._lanes[lane].popleft()
            self._sizes[lane] -= count
            taken += buffers
            size += count
            self._passed = 0 if lane in _PATIENT else self._passed + count
        return taken

    def _next(self) -> Lane | None:
        if self._passed >= PATIENCE:
            self._turn ^= 1
            for lane in (_PATIENT[self._turn], _PATIENT[self._turn ^ 1]):
                if self._lanes[lane]:
                    return lane
            self._passed = 0
        for lane in _LANES:
            if self._lanes[lane]:
                return lane
        return None

    def clear(self) -> None:
        for lane in self._lanes:
            lane.clear()
        self._sizes = [0] * len(_LANES)
