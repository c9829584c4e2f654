"""What a replica does to its partition's log: the leader's entries come in, and those of a leader that lost go."""

from __future__ import annotations

from kompat import _native
from kompat.errors import DamagedData, ErrorCode, KafkaError
from kompat.log import checkpoint, recovery
from kompat.log.commit import Pending
from kompat.log.partition_append import Appending
from kompat.log.partition_core import CHECKPOINT_EVERY
from kompat.log.results import Origin
from kompat.log.store import Entry, EntryKind
from kompat.protocol.records import read_header
from kompat.types import NO_TIMESTAMP, Buffer, LeaderEpoch, Offset, RaftIndex


class Copying(Appending):
    __slots__ = ()

    def join_turn(self) -> Pending:
        """What a replica stages in this turn is written with it; this partition hears of its end."""
        return self._join_turn()

    @property
    def newest_turn(self) -> Pending | None:
        """The last turn under way that this partition takes part in."""
        return next(reversed(self._turns), None)

    def copy(self, term: LeaderEpoch, batch: Buffer, payload: bytes) -> Entry:
        """Append a batch as the leader has written it."""
        header, state = read_header(batch), self.state
        base = state.log_end_offset
        if _native.whole_batches(batch) != len(batch):
            self.damages.refuse(f"{self.topic}-{self.index}", base)
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self} was sent a damaged batch for offset {base}")
        if header.base_offset != base:
            raise DamagedData(f"{self} was sent offset {header.base_offset} where {base} comes next")
        turn = self._join_turn()
        # The leader has let it in: it is not for this replica to find it too large.
        self._make_room(len(batch), header, self._clock.now(), Origin.INTERNAL)
        state.epochs.assign(term, base)
        entry = self._stage(batch, header, base, term, payload)
        if entry.producer_id >= 0:
            marker = recovery.end_marker(batch) if header.is_control else None
            if marker is not None or not header.is_control:
                self._note_producer(entry, marker)
        self._turns[turn] = state.log_end_offset
        return entry

    def note(self, kind: EntryKind, term: LeaderEpoch, payload: bytes) -> Entry:
        """Append an entry that has no offsets. Raises StorageError."""
        state = self.state
        self._join_turn()
        if self._since_checkpoint >= CHECKPOINT_EVERY and self._since_checkpoint >= 4 * len(state.producers):
            self.write_checkpoint()
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

    def cut(self, index: RaftIndex, offset: Offset) -> None:
        """Stage the removal of all from `index` on, which begins at `offset`. What is in memory goes by `restore`, once
        this is written."""
        self._join_turn()
        self.store.truncate_from(index, offset)
        self.store.delete_states(checkpoint.aborted_name(offset), checkpoint.AFTER_ABORTED)


NO_ID = -1
