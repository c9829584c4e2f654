"""What the appends of a leader wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.log.interceptor import StateWrite
from kompat.log.partition import Partition
from kompat.types import Offset, RaftIndex


class Proposal:
    """What a turn's appends wait for. One for all of them: there may be thousands."""

    __slots__ = ("applied", "committed", "end", "index", "written")

    def __init__(self, written: Promise[None]) -> None:
        self.written = written
        self.committed: Promise[None] = Promise()
        self.applied: Promise[None] | None = None  # done when the states that came along are in the store
        self.index = RaftIndex(0)  # the last entry
        self.end = Offset(0)  # of the log, after it


class Proposals:
    """Oldest first."""

    __slots__ = ("_given", "_partition", "count")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._given: deque[Proposal] = deque()
        self.count = 0  # of entries that were given to Raft

    def give(self, index: RaftIndex, writes: Sequence[StateWrite], turn: Promise[None]) -> Promise[None]:
        """Of the entry at `index`, the log's last: done when it is committed."""
        proposal = self._given[-1] if self._given else None
        if proposal is None or proposal.written is not turn:
            proposal = Proposal(turn)
            self._given.append(proposal)
        proposal.index = index
        proposal.end = self._partition.log_end_offset
        if writes and self._partition.interceptor is not None:
            if proposal.applied is None:
                proposal.applied = Promise()
            self._partition.interceptor.staged(writes, proposal.applied)
        return proposal.committed

    def of(self, offset: Offset) -> Proposal | None:
        return next((proposal for proposal in self._given if proposal.end > offset), None)

    def keep(self, index: RaftIndex) -> None:
        """All up to `index` is committed; states that came with it are staged."""
        while self._given and self._given[0].index <= index:
            proposal = self._given.popleft()
            if proposal.applied is not None:
                self._partition.log.join_turn().add_done_callback(partial(_resolve, proposal.applied))
            proposal.committed.resolve()

    def give_up(self, error: KafkaError) -> None:
        given, self._given = self._given, deque()
        for proposal in given:
            if proposal.applied is not None:
                proposal.applied.resolve()
            proposal.committed.fail(error)


def _resolve(applied: Promise[None], _: Promise[None]) -> None:
    applied.resolve()
