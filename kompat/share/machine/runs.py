"""Runs of offsets in the same state. There is one object for a run, not for a record: most records are processed in batches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kompat.share.machine.messages import RecordState


class Run:
    __slots__ = ("deliveries", "first", "last", "member", "state", "until")

    def __init__(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str | None = None, until: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        self.member = member  # that holds the records
        self.until = (
            until  # when the lock or the back-off ends: until then no other member gets them; 0 if there is none
        )

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} {self.deliveries} {self.member} {self.until}>"


class Runs:
    """Ascending and not overlapping. Offsets between runs have no state yet."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._firsts: list[int] = []  # of each run: for bisect
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, index: int) -> Run:
        return self._runs[index]

    @property
    def end(self) -> int | None:
        """The offset after the last run."""
        return self._runs[-1].last + 1 if self._runs else None

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that have an offset in common with [first, last]."""
        runs, firsts = self._runs, self._firsts
        if not runs or first > runs[-1].last or first > last:
            return []
        low = bisect_right(firsts, first) - 1
        if low < 0 or runs[low].last < first:
            low += 1
            if firsts[low] > last:
                return []
        elif runs[low].last >= last:
            return [runs[low]]
        return runs[low : bisect_right(firsts, last, low)]

    def are_terminal(self, first: int, last: int) -> bool:
        """Whether none of these offsets will be delivered again."""
        position = first
        for run in self.overlapping(first, last):
            if run.first > position or run.state is RecordState.AVAILABLE or run.state is RecordState.ACQUIRED:
                return False
            position = run.last + 1
        return position > last

    def cut(self, first: int, last: int) -> tuple[int, int]:
        """Split runs at both ends of [first, last]; returns the indexes where the runs inside begin and end."""
        runs = self._runs
        if not runs or first > runs[-1].last:
            return len(runs), len(runs)
        low = bisect_left(self._firsts, first)
        if low < len(runs):  # usually it is one run, or none
            found = runs[low]
            if found.first == first and found.last == last:
                return low, low + 1
            if found.first > last and (low == 0 or runs[low - 1].last < first):
                return low, low
        low = self._split(first)
        high = self._split(last + 1)
        return low, high

    def _split(self, offset: int) -> int:
        """Split the run that contains the offset, if any; returns the index of the first run from the offset on."""
        index = bisect_left(self._firsts, offset)
        if index == 0:
            return 0
        run = self._runs[index - 1]
        if run.last < offset:
            return index
        rest = Run(offset, run.last, run.state, run.deliveries, run.member, run.until)
        run.last = offset - 1
        self._runs.insert(index, rest)
        self._firsts.insert(index, offset)
        return index

    def inside(self, low: int, high: int) -> list[Run]:
        return self._runs[low:high]

    def replace(self, low: int, high: int, run: Run) -> None:
        """Replace the runs from `low` up to `high` by one that covers them."""
        self._runs[low:high] = [run]
        self._firsts[low:high] = [run.first]

    def remove(self, low: int, high: int) -> None:
        del self._runs[low:high], self._firsts[low:high]

    def append(self, run: Run) -> None:
        self._runs.append(run)
        self._firsts.append(run.first)

    def join(self, index: int, *, exactly: bool) -> None:
        """Merge the run with adjacent ones in the same state."""
        runs = self._runs
        run = runs[index]
        after = runs[index + 1] if index + 1 < len(runs) else None
        if after is not None and run.last + 1 == after.first and _same(run, after, exactly=exactly):
            run.last = after.last
            self.remove(index + 1, index + 2)
        before = runs[index - 1] if index else None
        if before is not None and before.last + 1 == run.first and _same(before, run, exactly=exactly):
            before.last = run.last
            self.remove(index, index + 1)


def _same(left: Run, right: Run, *, exactly: bool) -> bool:
    """Whether two adjacent runs are in the same state."""
    return (
        left.state is right.state
        and (left.deliveries == right.deliveries or not exactly)
        and left.member == right.member
        and left.until == right.until
    )
