"""Which batches get an entry in the time index: those with a new highest timestamp, at some distance from each other."""

from __future__ import annotations

from kompat.log.storage.store import PartitionStore
from kompat.protocol.records import HEADER_SIZE
from kompat.types import Millis, Offset

# Bytes between two entries, at least: a look-up walks over the batches in between, which is cheap, while every entry is
# one more key to write.
TIME_INDEX_EVERY = 64 * 1024


class TimeIndexer:
    __slots__ = ("_since", "newest")

    def __init__(self, newest: Millis) -> None:
        self.newest = newest  # of all timestamps in the log
        self._since = TIME_INDEX_EVERY  # bytes

    def add(self, store: PartitionStore, base_offset: Offset, size: int, timestamp: Millis, every: int) -> None:
        """Of the log's next batch. `every`: the topic's index.interval.bytes."""
        self._since = since = self._since + size
        if timestamp > self.newest and size > HEADER_SIZE:
            self.newest = timestamp
            if since >= TIME_INDEX_EVERY and since >= every:
                store.add_time_index(timestamp, base_offset)
                self._since = 0
