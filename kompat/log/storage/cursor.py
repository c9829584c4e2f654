"""Reads of one log's keys in the database, in any thread."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rocksdict import ReadOptions

from kompat.errors import DamagedData
from kompat.log.storage import keys
from kompat.log.storage.database import Database

T = TypeVar("T")
Item = tuple[bytes, bytes]
_CHUNK = 256  # items read at once: a database iterator that is kept would pin old data


class Cursor:
    """A database iterator that stays within one log.

    It is bounded: without, a search that finds nothing would go on through whatever was deleted behind the log. Backwards
    RocksDB ignores the bound, so that direction is only used where something will be found.
    """

    __slots__ = ("_database", "_iterator", "_log", "_options")

    def __init__(self, database: Database, family: Any, log: bytes) -> None:
        self._database = database
        self._options = ReadOptions()  # kept: it owns the bound that RocksDB's iterator refers to
        self._options.set_iterate_upper_bound(keys.log_end(log[: keys.LOG_SIZE]))
        self._iterator = database.read(family.iter, self._options)
        self._log = log

    def at(self, number: int) -> Item | None:
        """The item at `number`, or the first after it."""
        return self.at_name(keys.number(number))

    def at_name(self, name: bytes) -> Item | None:
        """The same for keys that end with something else."""
        self._iterator.seek(self._log + name)
        return self.item()

    def last(self) -> Item | None:
        if self.at(0) is None:
            return None
        self._iterator.seek_for_prev(keys.log_end(self._log))
        return self.item()

    def holding(self, offset: int) -> Item | None:
        """The batch that holds `offset`, or the first after it."""
        item = self.at(offset)
        if item is not None and keys.number_at_end(item[0]) == offset:
            return item
        try:
            first = self.at(0)
        except DamagedData:  # so there is something before it
            pass
        else:
            if first is None or keys.number_at_end(first[0]) >= offset:
                return first
        self._iterator.seek_for_prev(self._log + keys.number(offset))
        before = self.item()
        if before is None:
            return self.at(offset)
        return before if keys.head(before[1]).last_offset >= offset else self.next()

    def next(self) -> Item | None:
        self._iterator.next()
        return self.item()

    def previous(self) -> Item | None:
        self._iterator.prev()
        return self.item()

    def item(self) -> Item | None:
        iterator = self._iterator
        if not iterator.valid():
            self._database.checked(iterator)
            return None
        key: bytes = iterator.key()
        return (key, iterator.value()) if key.startswith(self._log) else None


def scan(
    cursor: Callable[[], Cursor], first: Callable[[Cursor], Item | None], decode: Callable[[bytes, bytes], T]
) -> Iterator[T]:
    """All items from the first on, read in chunks: what changes meanwhile may or may not be seen."""
    chunk = _chunk(cursor(), first, decode)
    while chunk:
        key = chunk[-1][0]
        yield from (decoded for _, decoded in chunk)
        after = keys.number_at_end(key) + 1
        chunk = _chunk(cursor(), lambda fresh, after=after: fresh.at(after), decode)  # type: ignore[misc]


def _chunk(
    cursor: Cursor, first: Callable[[Cursor], Item | None], decode: Callable[[bytes, bytes], T]
) -> list[tuple[bytes, T]]:
    chunk: list[tuple[bytes, T]] = []
    item = first(cursor)
    while item is not None and len(chunk) < _CHUNK:
        chunk.append((item[0], decode(*item)))
        item = cursor.next()
    return chunk
