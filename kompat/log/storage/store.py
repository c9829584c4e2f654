"""The interface of a partition log to its store.

A store holds all partitions of a broker. Writes are *staged* and reach the disk together, once per turn of the event
loop, by `LogStore.flush` (group commit: see commit.py). Until then no read sees them. Reads may be called from any
thread; staging and flushing belong to the event loop's thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from kompat.log.storage.incarnation import Incarnations
from kompat.types import Buffer, LogId, Millis, Offset, RaftIndex


class EntryKind(IntEnum):
    DATA = 0  # a record batch: has offsets
    NOOP = 1  # a new leader's first entry: has none
    MEMBERSHIP = 2  # a change of the replica set: has none
    STATES = 3  # states of an extension, without a batch: has none
    START = 4  # the log begins later from here on: has none


@dataclass(slots=True)  # not frozen: one is made for every append, and a frozen one costs five times as much
class Entry:
    """One entry of the Raft log, without its bytes: enough to recover a partition's state without opening batches."""

    index: RaftIndex
    term: int
    kind: EntryKind
    base_offset: Offset
    last_offset: Offset  # base_offset - 1 where the entry has no offsets
    size: int  # of the batch, in bytes
    max_timestamp: Millis
    attributes: int  # of the batch: compression, timestamp type, transactional, control
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Where a batch is and what it spans, without its bytes."""

    base_offset: Offset
    last_offset: Offset
    size: int
    max_timestamp: Millis


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A batch's replacement by the cleaner; None removes the batch."""

    base_offset: Offset
    last_offset: Offset
    max_timestamp: Millis
    batch: Buffer | None


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring batches as read, in offset order."""

    buffers: Sequence[Buffer]  # each holds one or more whole batches
    size: int
    next_offset: Offset  # where to go on reading


class PartitionStore(Protocol):
    """One partition's part of the store."""

    # May append while the disk is below its reserve: what the operator needs to make room again.
    is_vital: bool

    # -- staged writes ---------------------------------------------------------------------------------------------
    def append(self, entry: Entry, batch: Buffer, segment: Offset, payload: bytes = b"") -> None:
        """Add an entry at the end. Large batches go to the value-log file of `segment`, named by its first offset.

        `batch` is kept by reference until the flush: the caller leaves its bytes alone. Entries that have no offsets
        may carry a small payload instead of a batch, others `payload` besides theirs (see `payload`).

        Raises StorageError at once, with nothing staged, while the disk has less than its reserve.
        """
        ...

    def append_batch(self, batch: StoredBatch, content: Buffer, segment: Offset) -> None:
        """Add a batch without an entry, at the end: how a copy of another replica's log is made."""
        ...

    def require_room(self) -> None:
        """Raises StorageError where `append` would."""
        ...

    def keep_inline(self) -> None:
        """From here on no batch goes to the value log, however large. What is written later, to any log, then never
        outlives it: a machine that stops loses the end of the write-ahead log, but any part of the value log."""
        ...

    def truncate_from(self, index: RaftIndex, offset: Offset) -> None:
        """Remove the entries from `index` on, and the batches and time index that begin at or after `offset`."""
        ...

    def drop_before(self, index: RaftIndex, offset: Offset, segments: Sequence[Offset]) -> None:
        """Remove entries before `index`, batches that end before `offset`, their time index, and the value-log files of
        the named segments, of which no batch is left."""
        ...

    def rewrite(self, replacements: Sequence[Rewrite], segment: Offset) -> None:
        """Replace batches of `segment` (the cleaner's work): all of one call or none; the new bytes go to a new file beside the old.

        A batch that is no longer there, or not flushed yet, is passed over. The bytes are written with the turn, so keep one call
        small (a few MiB); files that no batch points into any more are removed on their own. Entries keep the size that was appended.
        """
        ...

    def add_time_index(self, timestamp: Millis, offset: Offset) -> None:
        """Remember that the newest timestamp up to and including the batch at `offset` is `timestamp`.

        So timestamps do not fall from one call to the next, but after a truncation.
        """
        ...

    def put_state(self, name: bytes, value: bytes) -> None: ...

    def delete_state(self, name: bytes) -> None: ...

    def delete_states(self, start: bytes, end: bytes) -> None:
        """Remove the states in [start, end) by name."""
        ...

    # -- reads: of what has been flushed ---------------------------------------------------------------------------
    def state(self, name: bytes) -> bytes | None: ...

    def states(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def state_range(self, start: bytes, end: bytes, limit: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """The first states in [start, end) by name: at most `limit`, and at most `max_bytes` of values, but at least one."""
        ...

    def first_entry(self) -> Entry | None: ...

    def last_entry(self) -> Entry | None: ...

    def entries(self, start: RaftIndex) -> Iterator[Entry]: ...

    def full_entries(self, start: RaftIndex) -> Iterator[tuple[Entry, bytes]]:
        """As `entries`, each with its payload."""
        ...

    def payload(self, index: RaftIndex) -> bytes | None:
        """What an entry carries besides a batch; None: nothing."""
        ...

    def batches(self, offset: Offset) -> Iterator[StoredBatch]:
        """From the batch that holds `offset`, or the first after it."""
        ...

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> Run:
        """Whole batches from the one that holds `offset` (or the first after it) and begin before `end`.

        At least one batch where there is one, however large; else at most `max_bytes`. Where there is none, the run is
        empty and goes on at `offset`. Raises StorageError where the disk cannot give the bytes.
        """
        ...

    def time_index(self, timestamp: Millis) -> Offset | None:
        """An offset at or before the first batch whose max timestamp is at least `timestamp`; None: start at the log's start."""
        ...

    def size(self) -> int:
        """Bytes of all batches."""
        ...


class LogStore(Protocol):
    # The machine stopped while a broker worked here: what was written and not synced may be gone.
    lost_power: bool
    # It was restored from a backup: what was acknowledged later is gone, however it was written.
    is_restored: bool
    # Which directory it is, and how often a broker has begun in it.
    incarnations: Incarnations

    def open(self, log: LogId) -> PartitionStore: ...

    def logs(self) -> Iterable[LogId]:
        """Every log that has anything stored, for finding what a deleted topic left behind."""
        ...

    def drop(self, log: LogId) -> None:
        """Remove a log and give its space back. Staged, like a write."""
        ...

    def require_room(self) -> None:
        """Raises StorageError while the disk is below its reserve."""
        ...

    def has_staged(self) -> bool: ...

    def flush(self) -> None:
        """Write what is staged: value-log bytes first, then one WriteBatch. All or nothing.

        Raises StorageError, with the staged writes discarded, where the disk refuses.
        """
        ...

    def sync(self) -> None:
        """Force what has been flushed onto the disk. Called from a worker thread."""
        ...

    def checkpoint(self, directory: str) -> None:
        """A consistent copy of the store while it runs."""
        ...

    def close(self) -> None: ...
