"""Offsets by time. What is here reads the store and runs in a worker thread."""

from __future__ import annotations

from kompat.log.partition_api import FoundOffset
from kompat.log.storage.store import PartitionStore
from kompat.protocol.records import HEADER_SIZE, find_by_timestamp, iterate, read_header
from kompat.types import Buffer, LeaderEpoch, Millis, Offset


def first_at_or_after(
    store: PartitionStore, timestamp: Millis, *, segment: Offset, start: Offset, end: Offset
) -> FoundOffset | None:
    """The first record in [start, end) whose timestamp is at least `timestamp`; no segment before `segment` has one."""
    indexed = store.time_index(timestamp)
    for batch in store.batches(max(segment, start, indexed if indexed is not None else segment)):
        if batch.base_offset >= end:
            return None
        if batch.max_timestamp >= timestamp and batch.size > HEADER_SIZE:
            found = _in_batch(store, batch.base_offset, timestamp, start)
            if found is not None:
                return found if found.offset < end else None
    return None


def newest(
    store: PartitionStore, batch: Offset, timestamp: Millis, *, start: Offset, end: Offset
) -> FoundOffset | None:
    """The first record in [start, end) with the log's newest timestamp, which the batch at `batch` carries."""
    if start <= batch < end:
        found = _in_batch(store, batch, timestamp, start)
        if found is not None:
            return found
    # It was deleted or cleaned away, or is not committed: what is left has to be looked through.
    best: tuple[int, int] | None = None
    for stored in store.batches(start):
        if stored.base_offset >= end:
            break
        if stored.size <= HEADER_SIZE:  # it has no records
            continue
        time = stored.max_timestamp if stored.base_offset >= start else _newest_from(store, stored.base_offset, start)
        if best is None or time > best[0]:
            best = time, stored.base_offset
    return _in_batch(store, Offset(best[1]), Millis(best[0]), start) if best is not None else None


def _newest_from(store: PartitionStore, base_offset: Offset, start: Offset) -> int:
    """The newest timestamp in a batch whose first records were deleted."""
    run = store.read(base_offset, 1, Offset(base_offset + 1))
    return max((r.timestamp for r in iterate(run.buffers[0]) if r.offset >= start), default=-1) if run.buffers else -1


def _in_batch(store: PartitionStore, base_offset: Offset, timestamp: Millis, start: Offset) -> FoundOffset | None:
    run = store.read(base_offset, 1, Offset(base_offset + 1))  # the batch may be gone: then nothing begins there
    if not run.buffers:
        return None
    batch = run.buffers[0]
    found = find_by_timestamp(batch, timestamp)
    if found is not None and found[0] < start:
        found = _after(batch, timestamp, start)
    if found is None:
        return None
    return FoundOffset(Offset(found[0]), Millis(found[1]), LeaderEpoch(read_header(batch).leader_epoch))


def _after(batch: Buffer, timestamp: Millis, start: Offset) -> tuple[int, int] | None:
    """As find_by_timestamp, in a batch whose first records were deleted."""
    return next(
        ((r.offset, r.timestamp) for r in iterate(batch) if r.offset >= start and r.timestamp >= timestamp), None
    )
