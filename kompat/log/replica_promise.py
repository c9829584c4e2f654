"""What the appends of a leader wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from kompat.errors import KafkaError
from kompat.log.commit import Pending, settle
from kompat.log.intake import StateWrite
from kompat.log.partition import Partition
from kompat.types import Offset, RaftIndex


class Promise:
    """What a turn's appends wait for. One for all of them: there may be thousands."""

    __slots__ = ("applied", "committed", "end", "index", "written")

    def __init__(self, written: Pending) -> None:
        self.written = written
        self.committed = Pending()
        self.applied: Pending | None = None  # done when the states that came along are in the store
        self.index = RaftIndex(0)  # the last entry
        self.end = Offset(0)  # of the log, after it


class Promises:
    """Oldest first."""

    __slots__ = ("_given", "_partition")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._given: deque[Promise] = deque()

    def give(self, index: RaftIndex, writes: Sequence[StateWrite], turn: Pending) -> Pending:
        """Of the entry at `index`, the log's last: done when it is committed."""
        promise = self._given[-1] if self._given else None
        if promise is None or promise.written is not turn:
            promise = Promise(turn)
            self._given.append(promise)
        promise.index = index
        promise.end = self._partition.log_end_offset
        if writes and self._partition.intake is not None:
            if promise.applied is None:
                promise.applied = Pending()
            self._partition.intake.staged(writes, promise.applied)
        return promise.committed

    def of(self, offset: Offset) -> Promise | None:
        return next((promise for promise in self._given if promise.end > offset), None)

    def keep(self, index: RaftIndex) -> None:
        """All up to `index` is committed; states that came with it are staged."""
        while self._given and self._given[0].index <= index:
            promise = self._given.popleft()
            if promise.applied is not None:
                self._partition.join_turn().add_done_callback(partial(_resolve, promise.applied))
            settle(promise.committed, None)

    def give_up(self, error: KafkaError) -> None:
        given, self._given = self._given, deque()
        for promise in given:
            if promise.applied is not None:
                settle(promise.applied, None)
            settle(promise.committed, error)


def _resolve(applied: Pending, _: Pending) -> None:
    settle(applied, None)
