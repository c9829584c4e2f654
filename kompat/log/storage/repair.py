"""After the machine stopped: batches whose key reached the disk and whose bytes did not.

Only what was never acknowledged with `fsync=always` can be affected. A log keeps everything up to its first batch that is not
whole. Files of finished segments are synced when their segment ends, so the last two segments are looked at.
"""

import logging
from typing import TYPE_CHECKING

from kompat.log.storage import keys
from kompat.log.storage.cursor import Cursor, Item
from kompat.log.storage.valuelog import MissingBytes, Stretch, ValueLog, file_name
from kompat.types import LogId, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.log.storage.rocks import RocksStore
    from kompat.log.storage.rocks_partition import RocksPartition

logger = logging.getLogger(__name__)

SEGMENTS = 2


def repair_tail(partition: "RocksPartition", store: "RocksStore") -> None:
    """Cut the log where its first batch is not whole."""
    prefix = partition.log.key
    batches = Cursor(store.database, store.database.batches, prefix)
    broken = _first_broken(batches, partition.log, store.values)
    if broken is None:
        return
    last = partition.last_entry()
    index = _index_of(Cursor(store.database, store.database.entries, prefix), broken)
    logger.warning(
        "log %s: the batch at offset %d did not reach the disk before the machine stopped; removed it and what follows, up to offset %d",
        partition.log,
        broken,
        last.last_offset if last else broken,
    )
    partition.truncate_from(index, Offset(broken))
    store.flush()


def _first_broken(batches: Cursor, log: LogId, values: ValueLog) -> int | None:
    start = _start(batches)
    item = None if start is None else batches.at(start)
    while item is not None:
        if item[1][0] == keys.POINTER and not _is_whole(item, log, values):
            return keys.number_at_end(item[0])
        item = batches.next()
    return None


def _start(batches: Cursor) -> int | None:
    """The first batch in the value log that belongs to one of the last segments."""
    start: int | None = None
    segments: set[int] = set()
    item = batches.last()
    while item is not None:
        if item[1][0] == keys.POINTER:
            segments.add(keys.pointer(item[1])[0])
            if len(segments) > SEGMENTS:
                break
            start = keys.number_at_end(item[0])
        item = batches.previous()
    return start


def _is_whole(item: Item, log: LogId, values: ValueLog) -> bool:
    size = keys.head(item[1]).size
    segment, number, place = keys.pointer(item[1])
    path = values.path(file_name(log, segment, number))
    try:
        values.read(Stretch(path, place, size, [(keys.number_at_end(item[0]), size)]))
    except MissingBytes:
        return False
    return True


def _index_of(entries: Cursor, offset: int) -> RaftIndex:
    """The first entry that begins at or after `offset`."""
    index = 0
    item = entries.last()
    while item is not None:
        entry = keys.stored_entry(*item)
        if entry.base_offset < offset:
            return RaftIndex(entry.index + 1)
        index = entry.index
        item = entries.previous()
    return RaftIndex(index)
