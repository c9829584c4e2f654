"""The interface of a partition to its replica, where the partition is replicated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kompat.common.promise import Promise
from kompat.errors import DamagedBatch
from kompat.log.interceptor import StateWrite
from kompat.log.storage.store import Entry
from kompat.types import Buffer, Offset, RaftIndex


class ReplicaApi(Protocol):
    @property
    def is_leading(self) -> bool: ...

    def admit(self, *, internal: bool) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER where this broker does not lead, NOT_ENOUGH_REPLICAS where the append is internal
        and too few replicas are in sync."""
        ...

    def require_in_sync(self) -> None:
        """Raises NOT_ENOUGH_REPLICAS where fewer replicas are in sync than min.insync.replicas,
        NOT_LEADER_OR_FOLLOWER where this broker does not lead."""
        ...

    def when_in_min_isr(self, committed: Promise[None]) -> Promise[None]:
        """The promise that min.insync.replicas have the log up to its end, where that is more than the majority of `committed`.
        It fails with NOT_ENOUGH_REPLICAS_AFTER_APPEND where too few are in sync."""
        ...

    def propose(self, batch: Buffer, writes: Sequence[StateWrite]) -> bytes:
        """Have the batch become the log's next entry; what is stored with it. Raises KafkaError, with nothing changed."""
        ...

    def staged(self, entry: Entry, payload: bytes, writes: Sequence[StateWrite], turn: Promise[None]) -> Promise[None]:
        """The proposed entry is on its way to the store: the promise that it is committed."""
        ...

    def propose_states(self, writes: Sequence[StateWrite]) -> Promise[None]: ...

    def propose_start(self, offset: Offset) -> Promise[None]:
        """Have the log start at `offset`, on every replica."""
        ...

    def promise_of(self, offset: Offset) -> tuple[Promise[None], Promise[None]]:
        """The promises that what lies at `offset` is committed, and written here."""
        ...

    def when_committed(self) -> Promise[None]:
        """The promise that the log up to its end is committed."""
        ...

    def written(self) -> None:
        """What a turn staged is on this broker's disk."""
        ...

    def defer(self, changes: Sequence[Callable[[], None]]) -> Promise[None]:
        """Make these changes to the store when the log up to its end is committed."""
        ...

    def may_forget_before(self, index: RaftIndex) -> RaftIndex:
        """The index before which entries are no longer needed, at most `index`."""
        ...

    async def mend(self, damage: DamagedBatch) -> None:
        """Replace damaged batches by those of another replica, or hand the leadership to it, where that is better.

        Raises KafkaError where nothing was repaired.
        """
        ...

    def failed(self) -> None:
        """A turn could not be written; the partition has gone back to what is stored."""
        ...

    def close(self) -> None:
        """Stage the progress, so that the next start does not have to recover it."""
        ...

    def drop(self) -> None: ...
