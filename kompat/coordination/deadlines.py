"""Deadlines by key. A heartbeat moves its member's deadline again and again, so moving one later costs no heap work."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from kompat.types import Millis

K = TypeVar("K", bound=Hashable)
P = TypeVar("P")


class Timers(Generic[K, P]):
    __slots__ = ("_heap", "_serial", "_set")

    def __init__(self) -> None:
        # key → deadline, deadline of its entry in the heap (never later), payload
        self._set: dict[K, tuple[Millis, Millis, P]] = {}
        self._heap: list[tuple[Millis, int, K]] = []
        self._serial = 0  # keeps keys from being compared, and ties in the order they were set

    def schedule(self, key: K, deadline: Millis, payload: P) -> None:
        known = self._set.get(key)
        if known is not None and known[1] <= deadline:
            self._set[key] = (deadline, known[1], payload)
            return
        self._set[key] = (deadline, deadline, payload)
        self._push(key, deadline)

    def cancel(self, key: K) -> None:
        self._set.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._set

    def __len__(self) -> int:
        return len(self._set)

    def deadline(self, key: K) -> Millis | None:
        known = self._set.get(key)
        return known[0] if known else None

    def next_deadline(self) -> Millis | None:
        self._fix_top()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: Millis) -> tuple[K, P] | None:
        """Remove and return the key that has been due longest."""
        self._fix_top()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        _, _, payload = self._set.pop(key)
        return key, payload

    def shift(self, by: int) -> None:
        """Move all of them, after the clock was set."""
        self._set = {
            key: (Millis(due + by), Millis(queued + by), payload) for key, (due, queued, payload) in self._set.items()
        }
        self._heap = [(Millis(queued + by), serial, key) for queued, serial, key in self._heap]

    def clear(self) -> None:
        self._set.clear()
        self._heap.clear()

    def _push(self, key: K, deadline: Millis) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (deadline, self._serial, key))

    def _fix_top(self) -> None:
        """Bring a valid deadline to the top: drop entries of cancelled keys, push those that were moved later again."""
        while self._heap:
            queued, _, key = self._heap[0]
            known = self._set.get(key)
            if known is None or known[1] != queued:
                heapq.heappop(self._heap)
            elif known[0] > queued:
                heapq.heappop(self._heap)
                self._set[key] = (known[0], known[0], known[2])
                self._push(key, known[0])
            else:
                return
