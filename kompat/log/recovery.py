"""Recovers a partition's state from the last checkpoint and the entries after it."""

from __future__ import annotations

import logging
from struct import Struct

from kompat.log.aborted import Aborted
from kompat.log.checkpoint import LogState, load
from kompat.log.producers import LAST_SEQUENCE, PastBatch, Producers
from kompat.log.segments import Segment, Segments
from kompat.log.storage.store import Entry, EntryKind, PartitionStore
from kompat.protocol.batch import CONTROL, TRANSACTIONAL
from kompat.protocol.records import ControlType, iterate
from kompat.types import Buffer, Millis, Offset, RaftIndex

logger = logging.getLogger(__name__)

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


def recover(store: PartitionStore, now: Millis) -> LogState:
    """Markers of transactions are not final by this: that depends on what is committed."""
    state = load(store)
    if state is None:
        return LogState.fresh(now)
    last = store.last_entry()
    end = last.index + 1 if last is not None else state.start_index
    if end < state.next_index:
        logger.warning("a partition lost %d entries at its end; its state is rebuilt", state.next_index - end)
        state = _without_tail(store, state, now)
    if end > state.next_index:
        for entry in store.entries(state.next_index):
            replay(state, entry, store)
    return state


def recover_until(store: PartitionStore, now: Millis, end: RaftIndex) -> LogState | None:
    """The state before the entry at `end`; None where the checkpoint is already past it."""
    state = load(store) or LogState.fresh(now)
    if state.next_index > end:
        return None
    for entry in store.entries(state.next_index):
        if entry.index >= end:
            break
        replay(state, entry, store)
    return state


def replay(state: LogState, entry: Entry, store: PartitionStore) -> None:
    """Take in one entry that is in the store already."""
    state.next_index = RaftIndex(entry.index + 1)
    if entry.kind is not EntryKind.DATA:
        if entry.kind is EntryKind.NOOP:
            state.epochs.assign(entry.term, entry.base_offset)
        return
    state.log_end_offset = Offset(entry.last_offset + 1)
    state.epochs.assign(entry.term, entry.base_offset)
    state.segments.active.add(entry.base_offset, entry.size, entry.max_timestamp)
    if entry.producer_id >= 0:
        _replay_producer(state, entry, store)


def _replay_producer(state: LogState, entry: Entry, store: PartitionStore) -> None:
    if not entry.attributes & CONTROL:
        add_batch(state.producers, entry)
        return
    run = store.read(entry.base_offset, 1, Offset(entry.base_offset + 1))
    marker = end_marker(run.buffers[0]) if run.buffers else None
    if marker is not None:
        end_transaction(state, entry, *marker)


def add_batch(producers: Producers, entry: Entry) -> None:
    """Note a producer's batch."""
    first = entry.base_sequence
    last = (first + entry.last_offset - entry.base_offset) & LAST_SEQUENCE if first >= 0 else first
    past = PastBatch(first, last, entry.base_offset, entry.last_offset, entry.max_timestamp)
    producers.add(entry.producer_id, entry.producer_epoch, past, transactional=bool(entry.attributes & TRANSACTIONAL))


def end_transaction(state: LogState, entry: Entry, kind: ControlType, coordinator_epoch: int) -> Aborted | None:
    """Note the end of a producer's transaction: the aborted one, if it is that."""
    aborted = state.producers.end_transaction(
        entry.producer_id,
        entry.producer_epoch,
        coordinator_epoch,
        entry.base_offset,
        entry.max_timestamp,
        aborts=kind is ControlType.ABORT,
    )
    if aborted is not None:
        state.aborted.add(aborted)
    return aborted


def end_marker(batch: Buffer) -> tuple[ControlType, int] | None:
    """How a control batch ends its producer's transaction, and the coordinator's epoch; None: it is none of those."""
    for record in iterate(batch):
        if record.key is None or record.value is None or len(record.key) < _MARKER_KEY.size:
            return None
        kind = _MARKER_KEY.unpack_from(record.key)[1]
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return ControlType(kind), _MARKER_VALUE.unpack_from(record.value)[1]
    return None


def _without_tail(store: PartitionStore, state: LogState, now: Millis) -> LogState:
    """The checkpoint includes entries that the disk lost (it was not synced before the machine died).

    Segments and what lies before the first kept entry are taken from the checkpoint, all else from the entries.
    """
    known = state.segments.all()
    # The cleaner drops entries of whole segments and keeps their batches: those segments are as they were.
    at = next((i for i, s in enumerate(known) if s.base_index >= state.start_index), len(known) - 1)
    current, following = known[at], known[at + 1 :]
    rebuilt = LogState.fresh(now)
    rebuilt.segments = Segments(Segment(current.base_offset, current.base_index, current.created), known[:at])
    rebuilt.start_index = rebuilt.next_index = state.start_index
    rebuilt.log_end_offset = current.base_offset
    for entry in store.entries(state.start_index):
        while following and entry.base_offset >= following[0].base_offset:
            begun = following.pop(0)
            rebuilt.segments.roll(begun.base_offset, begun.base_index, begun.created)
        replay(rebuilt, entry, store)
    rebuilt.log_start_offset = min(state.log_start_offset, rebuilt.log_end_offset)
    rebuilt.cleaned_offset = min(state.cleaned_offset, rebuilt.log_end_offset)
    rebuilt.is_rebuilt = True
    return rebuilt
