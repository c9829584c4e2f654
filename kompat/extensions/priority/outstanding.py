"""Released records of a partition that no group has committed yet: `kompat.priority.window` bounds them."""

from __future__ import annotations

from collections import deque

from kompat.extensions.priority import lanes
from kompat.extensions.states import Draft, View
from kompat.types import Offset

_END = lanes.RELEASED + b"\xff"


class Outstanding:
    """Counts them. The counts are also stored as states, for a restart."""

    __slots__ = ("_runs", "_total", "_view", "_void")

    def __init__(self, view: View) -> None:
        self._view = view
        self.reload()

    def reload(self) -> None:
        """Read everything from the states again."""
        self._runs: deque[tuple[Offset, int]] | None = None  # where, and how many, oldest first
        self._total = 0
        self._void: list[Offset] = []  # whose states are no longer needed

    def count(self, committed: Offset | None) -> int:
        """How many are at or after the highest offset that a group has committed."""
        runs = self._loaded()
        if committed is None:
            return self._total
        while runs and runs[0][0] + runs[0][1] <= committed:
            offset, count = runs.popleft()
            self._void.append(offset)
            self._total -= count
        return self._total - max(0, committed - runs[0][0]) if runs else 0

    def add(self, draft: Draft, offset: Offset, count: int) -> None:
        self._loaded().append((offset, count))
        self._total += count
        self._drop_void(draft)
        draft.put(lanes.released_name(offset), lanes.encode_released(count))

    def forget(self, draft: Draft) -> None:
        """They are not counted any more."""
        if self._runs is not None:
            self._void += [offset for offset, _ in self._runs]
            self._drop_void(draft)
            self.reload()

    def _drop_void(self, draft: Draft) -> None:
        for offset in self._void:
            draft.delete(lanes.released_name(offset))
        self._void.clear()

    def _loaded(self) -> deque[tuple[Offset, int]]:
        if self._runs is None:
            found = self._view.range(lanes.RELEASED, _END)
            self._runs = deque(lanes.decode_released(name, value) for name, value in found)
            self._total = sum(count for _, count in self._runs)
        return self._runs
