"""A partition's log on this broker: its state in memory, its part of the store, and a cache of the newest batches.

Here batches become entries, segments are rolled, checkpoints are written, and all of it is recovered. The partition decides
what may be appended and what is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log import checkpoint, recovery
from kompat.log.cache import Tail, TailCache
from kompat.log.interceptor import StateWrite
from kompat.log.replica_api import ReplicaApi
from kompat.log.segments import Segment
from kompat.log.storage.store import Entry, EntryKind, PartitionStore
from kompat.log.time_index import TimeIndexer
from kompat.log.turns import NEVER, Turns
from kompat.protocol.records import BatchHeader, ControlType
from kompat.types import NO_TIMESTAMP, Buffer, LeaderEpoch, LogId, Millis, Offset, RaftIndex

CHECKPOINT_EVERY = 4096  # entries: what a restart has to replay at most
NO_ID: Final = -1
_DATA: Final = EntryKind.DATA

Change = Callable[[], None]


class LocalLog:
    __slots__ = (
        "_cache",
        "_jitter",
        "_jitter_seed",
        "_since_checkpoint",
        "_time_index",
        "clock",
        "config",
        "replica",
        "state",
        "store",
        "tail",
        "turns",
    )

    def __init__(
        self,
        log_id: LogId,
        *,
        store: PartitionStore,
        turns: Turns,
        config: TopicConfig,
        clock: Clock,
        cache: TailCache,
    ) -> None:
        """Recover the log from its store."""
        self.store = store
        self.turns = turns
        self.config = config  # may be replaced at any time
        self.clock = clock
        self.replica: ReplicaApi | None = None  # where there are other replicas of it
        self._cache = cache
        self._jitter_seed = crc32(log_id.key)
        self._recover()
        self.tail = Tail(self.state.log_end_offset)

    def join_turn(self) -> Promise[None]:
        """What is staged so far is committed with this turn."""
        return self.turns.join(self.state.log_end_offset)

    # -- growing ---------------------------------------------------------------------------------------------------
    def make_room(self, size: int, timestamp: int, now: Millis, must_fit: bool) -> None:
        """Open a new segment where the next batch needs one. `must_fit`: raises RECORD_LIST_TOO_LARGE where none is large enough.

        What the broker itself writes (a delayed record that is due), or gets from its leader, was accepted before: it is appended.
        """
        if must_fit and size > self.config.segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes does not fit in a segment")
        if self.state.segments.active.is_full(size, Millis(timestamp), now, self.config, self._jitter):
            self.roll(now)
        elif self._since_checkpoint >= CHECKPOINT_EVERY:
            self._checkpoint_if_due()

    def _checkpoint_if_due(self) -> None:
        if self._since_checkpoint >= max(CHECKPOINT_EVERY, 4 * len(self.state.producers)):
            self.write_checkpoint()  # all of it at once: the more producers, the less often

    def stage(self, batch: Buffer, header: BatchHeader, base: Offset, epoch: LeaderEpoch, payload: bytes) -> Entry:
        """Make the batch the log's next entry. Raises KafkaError, with nothing changed."""
        state, config, store = self.state, self.config, self.store
        size, timestamp = len(batch), Millis(header.max_timestamp)
        last = Offset(base + header.last_offset_delta)
        entry = Entry(
            state.next_index,
            epoch,
            _DATA,
            base,
            last,
            size,
            timestamp,
            header.attributes,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        active = state.segments.active
        try:
            store.append(entry, batch, active.base_offset, payload)
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        active.add(base, size, timestamp)
        self._since_checkpoint += 1
        self._time_index.add(store, base, size, timestamp, config.index_interval_bytes)
        if config.flush_messages != NEVER or config.flush_ms != NEVER:
            self.turns.force(last - base + 1, config)
        state.next_index = RaftIndex(entry.index + 1)
        state.log_end_offset = end = Offset(last + 1)
        self._cache.add(self.tail, base, end, batch)
        return entry

    def stage_copy(self, batch: Buffer, header: BatchHeader, base: Offset, term: LeaderEpoch, payload: bytes) -> Entry:
        """Make the batch, as the leader has written it, the log's next entry. Raises KafkaError."""
        turn = self.join_turn()
        self.make_room(len(batch), header.max_timestamp, self.clock.now(), False)
        self.state.epochs.assign(term, base)
        entry = self.stage(batch, header, base, term, payload)
        if entry.producer_id >= 0:
            marker = recovery.end_marker(batch) if header.is_control else None
            if marker is not None or not header.is_control:
                self.note_producer(entry, marker)
        self.turns.under_way[turn] = self.state.log_end_offset
        return entry

    def stage_note(self, kind: EntryKind, term: LeaderEpoch, payload: bytes) -> Entry:
        """Make an entry that has no offsets the log's next one. Raises StorageError."""
        state = self.state
        self.join_turn()
        self._checkpoint_if_due()
        end = state.log_end_offset
        entry = Entry(
            state.next_index, term, kind, end, Offset(end - 1), len(payload), NO_TIMESTAMP, 0, NO_ID, NO_ID, NO_ID
        )
        self.store.append(entry, payload, state.segments.active.base_offset)
        if kind is EntryKind.NOOP:
            state.epochs.assign(term, end)
        state.next_index = RaftIndex(entry.index + 1)
        self._since_checkpoint += 1
        return entry

    def note_producer(self, entry: Entry, marker: tuple[ControlType, int] | None) -> None:
        """Update the producer's state by its batch, or by the marker that ends its transaction."""
        if marker is None:
            recovery.add_batch(self.state.producers, entry)
            return
        aborted = recovery.end_transaction(self.state, entry, *marker)
        if aborted is not None:
            self.store.put_state(checkpoint.aborted_name(aborted.last_offset), aborted.encode())

    def stage_states(self, writes: Sequence[StateWrite]) -> None:
        store = self.store
        for name, value in writes:
            if value is None:
                store.delete_state(name)
            else:
                store.put_state(name, value)

    # -- segments and checkpoints ----------------------------------------------------------------------------------
    def roll(self, now: Millis) -> None:
        """Seal the active segment and open another."""
        state = self.state
        sealed = state.segments.roll(state.log_end_offset, state.next_index, now)
        name, value = checkpoint.segment_name(sealed.base_offset), sealed.encode()
        self._jitter = self._roll_jitter(state.segments.active)
        self.write_checkpoint([lambda: self.store.put_state(name, value)])

    def _roll_jitter(self, segment: Segment) -> int:
        """Up to segment.jitter.ms, so that partitions do not all roll at once; the same after a restart."""
        most = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return crc32(segment.base_offset.to_bytes(8, "big"), self._jitter_seed) % (most + 1) if most > 0 else 0

    def segments_changed(self) -> None:
        """Some of them are gone, or the cleaner has rewritten them: the newest timestamp may have been theirs."""
        self._time_index.newest = self.state.segments.max_timestamp

    def producers_changed(self) -> None:
        """A restart must not bring back expired producers: the next checkpoint is due at close."""
        self._since_checkpoint += 1

    def write_checkpoint(self, changes: Sequence[Change] = ()) -> Promise[None]:
        """Stage the state as it is, and in the same write the changes to the store that belong to it.

        Where there are other replicas, that waits until all of it is committed: what was not may be taken back, and then
        an older checkpoint is needed.
        """
        encoded = checkpoint.encode(self.state)
        self._since_checkpoint = 0
        if self.replica is not None:
            return self.replica.defer([*changes, lambda: self.store.put_state(checkpoint.CHECKPOINT, encoded)])
        turn = self.join_turn()
        for change in changes:
            change()
        self.store.put_state(checkpoint.CHECKPOINT, encoded)
        return turn

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the next start would have to replay something."""
        return self._since_checkpoint > 0 and self.state.next_index > 1

    def move_start(self, offset: Offset) -> None:
        """Move the log start offset. The next checkpoint stores it."""
        state = self.state
        state.log_start_offset = offset
        state.epochs.drop_before(offset)
        state.cleaned_offset = max(state.cleaned_offset, offset)
        for last in state.aborted.drop_before(offset):
            self.store.delete_state(checkpoint.aborted_name(last))

    # -- going back ------------------------------------------------------------------------------------------------
    def cut(self, index: RaftIndex, offset: Offset) -> None:
        """Stage the removal of all from `index` on, which begins at `offset`. What is in memory goes by `restore`, once
        this is written."""
        self.join_turn()
        self.store.truncate_from(index, offset)
        self.store.delete_states(checkpoint.aborted_name(offset), checkpoint.AFTER_ABORTED)

    def restore(self) -> None:
        """Forget what is in memory, and take up what the store holds."""
        self._recover()
        self.turns.rewind(self.state.log_end_offset)
        self.tail.clear(self.state.log_end_offset)

    def _recover(self) -> None:
        self.state = state = recovery.recover(self.store, self.clock.now())
        # A log that has never been written to gets its first checkpoint with its first append.
        self._since_checkpoint = 0 if state.next_index > 1 else CHECKPOINT_EVERY
        self._time_index = TimeIndexer(state.segments.max_timestamp)
        self._jitter = self._roll_jitter(state.segments.active)
        if state.is_rebuilt:
            self._write_anew()

    def _write_anew(self) -> None:
        """Make what is stored beside the entries agree with them, before the log grows over it."""
        for name in checkpoint.stale(self.store, self.state):
            self.store.delete_state(name)
        for segment in self.state.segments.sealed:
            self.store.put_state(checkpoint.segment_name(segment.base_offset), segment.encode())
        self.store.put_state(checkpoint.CHECKPOINT, checkpoint.encode(self.state))
        self.join_turn()
        self.state.is_rebuilt = False
