"""Processes a replica's readies: send, write, apply, in the order that raft/engine.py requires.

- messages to followers leave before this broker has written anything; those that acknowledge something leave when it has;
- entries of another leader are staged; if they contradict the log, its end is cut first, and the rest waits for that;
- what is committed is applied: the high watermark passes it, states that came with it are written, members change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kompat.common.promise import Promise
from kompat.log.storage.store import EntryKind
from kompat.raft import states as states
from kompat.raft.engine import Message, Ready
from kompat.raft.replica.log import Unapplied
from kompat.types import RaftIndex

if TYPE_CHECKING:
    from kompat.raft.replica.replica import Replica
    from kompat.raft.replication import Replication


class _Waiting(NamedTuple):
    """A ready whose writes are under way."""

    turn: Promise[None]
    number: int
    messages: Sequence[Message]


class ReadyLoop:
    __slots__ = ("_broker", "_held", "_replica", "_waiting", "first_of_term", "is_applying")

    def __init__(self, replica: Replica, broker: Replication) -> None:
        self._replica = replica
        self._broker = broker
        self._waiting: deque[_Waiting] = deque()
        self._held: tuple[Promise[None], Ready] | None = None  # its entries wait until the log's end is cut
        self.first_of_term: tuple[int, RaftIndex] | None = None  # the term that this broker leads, and its first entry
        self.is_applying = False

    @property
    def is_held(self) -> bool:
        """Whether the log's end is about to be cut."""
        return self._held is not None

    def reset(self) -> None:
        """The replica starts over from what is stored."""
        self._waiting.clear()
        self._held = None
        self.first_of_term = None

    def go_on(self) -> None:
        """Continue with what had to wait for turns that are written now."""
        if self._held is not None and self._held[0].is_done:
            ready, self._held = self._held[1], None
            self._replica.log.restore()
            self._take_entries(ready)
        while self._waiting and self._waiting[0].turn.is_done:
            waiting = self._waiting.popleft()
            self._persisted(waiting.number, waiting.messages)

    def run(self) -> None:
        while self._held is None and (ready := self._replica.group.ready()) is not None:
            self._take(ready)

    def _take(self, ready: Ready) -> None:
        replica = self._replica
        replica.send(ready.messages)
        if ready.read_states:
            replica.recovery.answered(RaftIndex(ready.read_states[-1].index))
        if ready.hard_state is not None and replica.log.take_hard(ready.hard_state):
            # A vote that is forgotten may be given twice: it is synced to disk, whatever `fsync` is for records.
            replica.log.stage_hard()
            self._broker.require_sync()
        cut = replica.log.conflicts(ready.entries)
        if cut is not None:
            replica.log.cut(cut)
            replica.log.stage_hard()
            self._held = replica.partition.log.join_turn(), ready
        else:
            self._take_entries(ready)

    def _take_entries(self, ready: Ready) -> None:
        replica = self._replica
        log, group = replica.log, replica.group
        for entry in log.without_known(ready.entries):
            kind = log.append(entry)
            if kind is EntryKind.NOOP and group.is_leader and entry.term == group.term:
                self.first_of_term = (entry.term, RaftIndex(entry.index))
        if ready.must_sync:
            log.stage_hard()
        turn = replica.partition.log.turns.newest
        if turn is not None:
            self._waiting.append(_Waiting(turn, ready.number, ready.messages_after_persist))
        else:
            self._persisted(ready.number, ready.messages_after_persist)
        if ready.wanted:
            self._broker.fetch(replica, ready)
        if ready.committed_to:
            self._apply(RaftIndex(ready.committed_to))

    def _persisted(self, number: int, messages: Sequence[Message]) -> None:
        self._replica.group.persisted(number)
        self._replica.send(messages)

    # -- what is committed -----------------------------------------------------------------------------------------
    def _apply(self, index: RaftIndex) -> None:
        replica = self._replica
        self.is_applying = True
        special = replica.log.take_committed(index)
        for entry in special:
            self.apply_one(entry)
        replica.group.applied(index)
        self.is_applying = False
        if any(entry.kind is not EntryKind.NOOP for entry in special):
            replica.log.stage_hard()
        self.run_deferred()
        replica.recovery.caught_up_to(index)
        replica.proposals.keep(index)

    def apply_one(self, entry: Unapplied) -> None:
        replica = self._replica
        match entry.kind:
            case EntryKind.DATA | EntryKind.STATES:
                replica.log.apply_states(entry.payload)
            case EntryKind.START:
                replica.log.apply_start(states.decode_start(entry.payload))
            case EntryKind.MEMBERSHIP:
                replica.log.apply_members(replica.group.apply_membership(entry.index, entry.payload))
                self._broker.members_changed(replica)

    def run_deferred(self) -> None:
        """Make the changes to the store that waited for what is applied now."""
        start = self._replica.log.run_deferred()
        if start is not None:
            self._replica.group.compact(start - 1)
