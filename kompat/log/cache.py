"""The newest batches of all partitions, in memory: what consumers at the tail read.

Bounded by bytes for the whole broker: the batch that was appended first leaves first, whichever partition it is of.
Small batches are copied: the copy is lighter than the view, and leaves the frame free, and the garbage collector has
nothing to do with it. A large one is kept as the slice of the frame it came in. It keeps all of that frame alive, so
the frame is what is counted: once, with the first of its slices. Slices of one frame follow each other here, and so
leave together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

from kompat.types import Buffer, Offset

COPIED = 4096  # bytes up to which a batch is copied
_SLACK = 256  # evicted places at a list's head that are tolerated before the list is moved up
_OVERHEAD = 150  # of the objects around a batch, so that millions of tiny batches are bounded too


class Tail:
    """One partition's newest batches: dense, in offset order, oldest first."""

    __slots__ = ("_bases", "_batches", "_costs", "_gone", "_head", "_positions", "end", "end_position")

    def __init__(self, end: Offset) -> None:
        self._bases: list[Offset] = []
        self._batches: list[Buffer | None] = []
        self._positions: list[int] = []  # where each batch begins, in bytes since the log was opened
        self._costs: list[int] = []
        self._head = 0  # everything before it has been evicted
        self._gone: deque[int] = deque()  # costs of what left out of turn: it still has its places in the queue
        self.end = end
        self.end_position = 0

    @property
    def start(self) -> Offset:
        return self._bases[self._head] if self._head < len(self._bases) else self.end

    def add(self, base_offset: Offset, end: Offset, batch: Buffer, cost: int) -> None:
        self._bases.append(base_offset)
        self._batches.append(batch)
        self._positions.append(self.end_position)
        self._costs.append(cost)
        self.end_position += len(batch)
        self.end = end

    def evict(self) -> int:
        """Let the oldest batch go: what it cost."""
        if self._gone:
            return self._gone.popleft()
        head = self._head
        cost = self._costs[head]
        self._batches[head] = None
        self._head = head = head + 1
        if head > _SLACK and head * 2 > len(self._bases):
            del self._bases[:head], self._batches[:head], self._positions[:head], self._costs[:head]
            self._head = 0
        return cost

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> tuple[list[Buffer], int, Offset] | None:
        """Whole batches from the one that holds `offset`, all before `end`; None where they are not here.

        At least one batch, however large, else at most `max_bytes`; with them their size and the offset after them.
        """
        bases = self._bases
        first = bisect_right(bases, offset, self._head) - 1
        if first < self._head:
            return None
        stop = bisect_left(bases, end, first)
        positions = self._positions
        limit = positions[first] + max_bytes
        if (
            self._ends(stop) > limit
        ):  # each batch ends where the next begins: the last that begins by `limit` is too much
            stop = max(first + 1, bisect_right(positions, limit, first + 1, stop) - 1)
        taken: list[Buffer] = self._batches[first:stop]  # type: ignore[assignment]  # none is evicted from head on
        return taken, self._ends(stop) - positions[first], bases[stop] if stop < len(bases) else self.end

    def _ends(self, stop: int) -> int:
        """Where the batch before `stop` ends, in bytes."""
        return self._positions[stop] if stop < len(self._positions) else self.end_position

    def bytes_between(self, offset: Offset, end: Offset) -> int | None:
        """Bytes of the batches from the one that holds `offset` up to `end`; None where they are not all here."""
        first = bisect_right(self._bases, offset, self._head) - 1
        if first < self._head:
            return None
        return self._ends(bisect_left(self._bases, end, first)) - self._positions[first]

    def drop_before(self, offset: Offset) -> None:
        """Forget the batches that begin before `offset`."""
        old, new = self._head, bisect_left(self._bases, offset, self._head)
        self._gone.extend(self._costs[old:new])
        self._batches[old:new] = [None] * (new - old)
        self._head = new

    def clear(self, end: Offset) -> None:
        """Forget all batches; the next one begins at `end`."""
        self._gone.extend(self._costs[self._head :])
        self._bases, self._batches, self._positions, self._costs = [], [], [], []
        self._head = 0
        self.end = end


class TailCache:
    __slots__ = ("_frame", "_limit", "_queue", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: deque[Tail] = deque()  # one place for every batch, in the order in which they came
        self._frame: object = None  # the newest frame, which has been counted
        self.size = 0

    def add(self, tail: Tail, base_offset: Offset, end: Offset, batch: Buffer) -> None:
        cost = len(batch) + _OVERHEAD
        if cost <= COPIED + _OVERHEAD:
            batch = bytes(batch)
        else:
            frame = batch.obj if type(batch) is memoryview else batch
            if frame is self._frame:
                cost = _OVERHEAD
            else:
                self._frame = frame
                cost = len(frame) + _OVERHEAD  # type: ignore[arg-type]  # frames are byte buffers
        tail.add(base_offset, end, batch, cost)
        self._queue.append(tail)
        self.size += cost
        if self.size > self._limit:
            self._shrink()

    def resize(self, limit: int) -> None:
        self._limit = limit
        self._shrink()

    def _shrink(self) -> None:
        queue = self._queue
        while self.size > self._limit:
            self.size -= queue.popleft().evict()
        if not queue:
            self._frame = None
