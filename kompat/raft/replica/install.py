"""Replaces this replica's log by a copy of the leader's.

The replica takes no part in elections from when its old log is removed until the copy is whole: it may have acknowledged
entries that it does not have now. If it stops in between, it starts over (`raft/installing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kompat import _native
from kompat.errors import ErrorCode, KafkaError
from kompat.log import checkpoint
from kompat.log.checkpoint import CHECKPOINT
from kompat.log.epochs import Epochs
from kompat.log.segments import Segment, Segments
from kompat.log.storage.store import StoredBatch
from kompat.log.time_index import TimeIndexer
from kompat.protocol.records import read_header, split_batches
from kompat.raft import states as states
from kompat.raft.engine import Message, Snapshot
from kompat.raft.replica.log import wipe
from kompat.raft.replica.replica import Replica
from kompat.raft.states import Hard
from kompat.types import NO_TIMESTAMP, Buffer, Millis, Offset, RaftIndex


def needs_copy(replica: Replica, message: Message) -> bool:
    """False: what is offered is old, or this replica has its last entry, and so all before it."""
    offered, group = message.snapshot, replica.group
    if offered is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the message offers no copy")
    return message.term >= group.term and offered.index > group.commit and group.term_at(offered.index) != offered.term


class Installation:
    def __init__(self, replica: Replica, message: Message, encoded: bytes, segments: Sequence[Segment]) -> None:
        offered = message.snapshot
        assert offered is not None, message  # noqa: S101 - `needs_copy` has checked it
        self._replica = replica
        self._partition = replica.partition
        self._store = replica.partition.store
        self._offered: Snapshot = offered
        self._term = message.term
        self._checkpoint = encoded
        # They are filled again: the leader's cleaner may have been at work since the checkpoint was made.
        self._segments = [Segment(each.base_offset, each.base_index, each.created) for each in segments]
        self._at = 0
        self._time_index = TimeIndexer(NO_TIMESTAMP)

    async def begin(self) -> None:
        log = self._replica.log
        self._partition.log.join_turn()
        wipe(self._partition, max(log.last, log.last_ever or RaftIndex(0)), log.hard)
        await self.written()
        self._partition.restore()

    def take_batches(self, chunk: memoryview) -> None:
        if _native.whole_batches(chunk) != len(chunk):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch of the copy is not as it was written")
        for batch in split_batches(chunk):
            self._take_batch(batch)

    def _take_batch(self, batch: Buffer) -> None:
        header = read_header(batch)
        base, size, timestamp = Offset(header.base_offset), len(batch), Millis(header.max_timestamp)
        while self._at + 1 < len(self._segments) and base >= self._segments[self._at + 1].base_offset:
            self._at += 1
        segment = self._segments[self._at]
        segment.add(base, size, timestamp)
        stored = StoredBatch(base, Offset(header.last_offset), size, timestamp)
        self._store.append_batch(stored, batch, segment.base_offset)
        self._time_index.add(self._store, base, size, timestamp, self._partition.config.index_interval_bytes)

    def take_states(self, chunk: bytes) -> None:
        for name, value in states.decode_writes(chunk):
            if value is not None:
                self._store.put_state(name, value)

    async def written(self) -> None:
        """Before more is taken: so no more than a chunk of it is in memory."""
        await self._partition.log.join_turn()
        if self._partition.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def end(self) -> None:
        store, offered = self._store, self._offered
        sealed, active = self._segments[:-1], self._segments[-1]
        for segment in sealed:
            store.put_state(checkpoint.segment_name(segment.base_offset), segment.encode())
        await self.written()
        state = checkpoint.decode(self._checkpoint, store)
        state.segments = Segments(active, sealed)
        index, before = RaftIndex(offered.index), self._replica.log.hard
        term = max(self._term, before.term)
        hard = Hard(term, before.vote if term == before.term else 0, index, index)
        store.put_state(CHECKPOINT, checkpoint.encode(state))
        store.put_state(states.HARD, hard.encode())
        store.put_state(states.TERMS, states.encode_terms(Epochs([(offered.term, offered.index)])))
        store.put_state(states.MEMBERS, states.encode_members(offered.members))
        store.delete_state(states.INSTALLING)
        await self.written()
