"""Which batches get an entry in the time index."""

from typing import Any

from kompat.log.time_index import TIME_INDEX_EVERY, TimeIndexer
from kompat.types import NO_TIMESTAMP, Millis, Offset

HALF = TIME_INDEX_EVERY // 2


class Store:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def add_time_index(self, timestamp: int, offset: int) -> None:
        self.entries.append((timestamp, offset))


def indexed(*batches: tuple[int, int], every: int = 0) -> list[tuple[int, int]]:
    """Of batches with a size and a timestamp each."""
    store: Any = Store()
    indexer = TimeIndexer(NO_TIMESTAMP)
    for offset, (size, timestamp) in enumerate(batches):
        indexer.add(store, Offset(offset), size, Millis(timestamp), every)
    return store.entries


def test_entries_keep_their_distance() -> None:
    assert indexed((HALF, 1), (HALF, 2), (HALF, 3), (HALF, 4)) == [(1, 0), (3, 2)]


def test_a_topic_may_want_them_further_apart() -> None:
    assert indexed((HALF, 1), (HALF, 2), (HALF, 3), every=3 * TIME_INDEX_EVERY) == []


def test_a_batch_that_is_not_newer_gets_none() -> None:
    assert indexed((HALF, 5), (HALF, 5), (HALF, 4), (HALF, 6)) == [(5, 0), (6, 3)]


def test_a_batch_without_records_gets_none() -> None:
    assert indexed((61, 5)) == []
