"""When locks and back-offs end."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

_SLACK = 64  # outdated times in the heap, before they are removed


class Timers:
    """How many offsets wait for which time. Splitting and joining runs does not change it."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, int] = {}
        self._heap: list[int] = []  # every time in `_waiting`, and outdated ones

    def add(self, until: int, offsets: int) -> None:
        known = self._waiting.get(until)
        if known is None:
            self._waiting[until] = offsets
            heappush(self._heap, until)
            if len(self._heap) > 2 * len(self._waiting) + _SLACK:
                self._heap = list(self._waiting)
                heapify(self._heap)
        else:
            self._waiting[until] = known + offsets

    def remove(self, until: int, offsets: int) -> None:
        left = self._waiting[until] - offsets
        if left:
            self._waiting[until] = left
        else:
            del self._waiting[until]

    def next(self) -> int | None:
        heap = self._heap
        while heap and heap[0] not in self._waiting:
            heappop(heap)
        return heap[0] if heap else None
