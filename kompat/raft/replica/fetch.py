"""Entries for followers that are further behind than memory reaches: read from the store, in a worker thread."""

from __future__ import annotations

from collections.abc import Iterator

from kompat.log.storage.store import Entry, EntryKind, PartitionStore
from kompat.protocol.records import read_header, split_batches
from kompat.raft import engine
from kompat.raft import states as states
from kompat.raft.engine import EntryTuple
from kompat.types import Buffer, Offset, RaftIndex

MOST_ENTRIES = 4096


def read_entries(store: PartitionStore, first: RaftIndex, end: RaftIndex, max_bytes: int) -> list[EntryTuple]:
    """Those from `first` on, about `max_bytes` of them; as far as they are still as they were written."""
    found = _entries(store, first, end, max_bytes)
    batches = _batches(store, [entry for entry, _ in found if entry.kind is EntryKind.DATA])
    read: list[EntryTuple] = []
    for entry, payload in found:
        if entry.kind is EntryKind.MEMBERSHIP:
            read.append((entry.index, entry.term, engine.RaftEntryKind.MEMBERSHIP, b"", payload))
            continue
        batch: Buffer = next(batches, b"") if entry.kind is EntryKind.DATA else b""
        if entry.kind is EntryKind.DATA and not _is_as_written(batch, entry):
            break
        context = states.context(entry.kind, payload)
        read.append((entry.index, entry.term, engine.RaftEntryKind.NORMAL, context, batch))
    return read


def _is_as_written(batch: Buffer, entry: Entry) -> bool:
    """Not if the cleaner has been here."""
    return len(batch) == entry.size and read_header(batch).base_offset == entry.base_offset


def _entries(store: PartitionStore, first: RaftIndex, end: RaftIndex, max_bytes: int) -> list[tuple[Entry, bytes]]:
    found: list[tuple[Entry, bytes]] = []
    size = 0
    for entry, payload in store.full_entries(first):
        size += entry.size + len(payload)
        if entry.index >= end or entry.index != first + len(found) or len(found) == MOST_ENTRIES:
            break
        if found and size > max_bytes:
            break
        found.append((entry, payload))
    return found


def _batches(store: PartitionStore, entries: list[Entry]) -> Iterator[Buffer]:
    if not entries:
        return
    offset, end = entries[0].base_offset, Offset(entries[-1].last_offset + 1)
    left = sum(entry.size for entry in entries)
    while offset < end:
        run = store.read(offset, left, end)
        if not run.buffers:
            return
        for buffer in run.buffers:
            yield from split_batches(memoryview(buffer))
        offset = run.next_offset
