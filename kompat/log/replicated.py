"""What a partition asks of its replica, where it has others beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kompat.errors import DamagedBatch
from kompat.log.commit import Pending
from kompat.log.intake import StateWrite
from kompat.log.store import Entry
from kompat.types import Buffer, Offset, RaftIndex


class Replicated(Protocol):
    @property
    def is_leading(self) -> bool: ...

    def admit(self, *, internal: bool) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER where this broker does not lead, NOT_ENOUGH_REPLICAS where the broker itself asks
        and too few replicas are in sync."""
        ...

    def require_in_sync(self) -> None:
        """Raises NOT_ENOUGH_REPLICAS where fewer replicas are in sync than the topic demands, NOT_LEADER_OR_FOLLOWER where
        this broker cannot tell."""
        ...

    def spread(self, committed: Pending) -> Pending:
        """The promise that as many replicas have the log as it stands as the topic's min.insync.replicas demands, where that is
        more than the majority whose promise is given. Broken as NOT_ENOUGH_REPLICAS_AFTER_APPEND where too few are in sync."""
        ...

    def propose(self, batch: Buffer, writes: Sequence[StateWrite]) -> bytes:
        """Have the batch become the log's next entry; what is stored with it. Raises KafkaError, with nothing changed."""
        ...

    def staged(self, entry: Entry, payload: bytes, writes: Sequence[StateWrite], turn: Pending) -> Pending:
        """The proposed entry is on its way to the store: the promise that it is committed."""
        ...

    def propose_states(self, writes: Sequence[StateWrite]) -> Pending: ...

    def propose_start(self, offset: Offset) -> Pending:
        """Have the log start at `offset`, on every replica."""
        ...

    def promise_of(self, offset: Offset) -> tuple[Pending, Pending]:
        """The promises that what lies at `offset` is committed, and written here."""
        ...

    def settle(self) -> Pending:
        """The promise that the log as it stands is committed."""
        ...

    def written(self, turn: Pending) -> None:
        """What the turn staged is on this broker's disk."""
        ...

    def defer(self, changes: Sequence[Callable[[], None]]) -> Pending:
        """Make these changes to the store when the log as it stands is committed."""
        ...

    def may_forget_before(self, index: RaftIndex) -> RaftIndex:
        """Up to where entries have no more use, at most `index`."""
        ...

    async def mend(self, damage: DamagedBatch) -> None:
        """Put what another replica has in the place of damaged batches, or let another one lead, where that is better.

        Raises KafkaError where nothing was mended.
        """
        ...

    def failed(self) -> None:
        """The disk refused a turn; the partition has gone back to what is stored."""
        ...

    def close(self) -> None:
        """Stage what the next start would have to find out anew."""
        ...

    def drop(self) -> None: ...
