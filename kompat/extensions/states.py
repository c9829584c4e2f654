"""A partition's states, with everything that is staged but not written yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import TypeVar

from kompat.common.promise import Promise
from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log.interceptor import StateWrite
from kompat.log.storage.store import PartitionStore

Item = tuple[bytes, bytes]
T = TypeVar("T")
NO_LIMIT = 2**62


class View:
    """The store, and over it the writes of turns in progress."""

    __slots__ = ("_staged", "_store")

    def __init__(self, store: PartitionStore) -> None:
        self._store = store
        self._staged: dict[Promise[None], dict[bytes, bytes | None]] = {}  # oldest first

    def get(self, name: bytes) -> bytes | None:
        for writes in reversed(self._staged.values()):
            if name in writes:
                return writes[name]
        return _read(lambda: self._store.state(name))

    def range(self, start: bytes, end: bytes, limit: int = NO_LIMIT, max_bytes: int = NO_LIMIT) -> list[Item]:
        """The first states in [start, end): at most `limit`, and at most `max_bytes` of values, but at least one."""
        over: dict[bytes, bytes | None] = {}
        for writes in self._staged.values():
            over |= {name: value for name, value in writes.items() if start <= name < end}
        if not over:
            return self._read_range(start, end, limit, max_bytes)
        stored = (item for item in self._stored(start, end, limit, max_bytes) if item[0] not in over)
        found: list[Item] = []
        for item in merge(stored, sorted((name, value) for name, value in over.items() if value is not None)):
            max_bytes -= len(item[1])
            if len(found) == limit or (found and max_bytes < 0):
                break
            found.append(item)
        return found

    def _stored(self, start: bytes, end: bytes, limit: int, max_bytes: int) -> Iterator[Item]:
        while page := self._read_range(start, end, limit, max_bytes):
            yield from page
            start = page[-1][0] + b"\0"

    def _read_range(self, start: bytes, end: bytes, limit: int, max_bytes: int) -> list[Item]:
        return _read(lambda: self._store.state_range(start, end, limit, max_bytes))

    # -- turns -----------------------------------------------------------------------------------------------------
    def staged(self, writes: Sequence[StateWrite], turn: Promise[None]) -> None:
        known = self._staged.get(turn)
        if known is None:
            self._staged[turn] = dict(writes)
            turn.add_done_callback(self._written)
        else:
            known.update(writes)

    def _written(self, turn: Promise[None]) -> None:
        self._staged.pop(turn, None)

    def clear(self) -> None:
        """The staged writes have failed."""
        self._staged.clear()

    @property
    def newest_turn(self) -> Promise[None]:
        """The last turn in progress that writes something here."""
        return next(reversed(self._staged), None) or Promise.resolved(None)


class Draft:
    """Changes on top of a view that are not staged yet."""

    __slots__ = ("_changes", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self._changes: dict[bytes, bytes | None] = {}

    def get(self, name: bytes) -> bytes | None:
        return self._changes[name] if name in self._changes else self.view.get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self._changes[name] = value

    def delete(self, name: bytes) -> None:
        self._changes[name] = None

    def writes(self) -> list[StateWrite]:
        return list(self._changes.items())


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (StorageError, DamagedData) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
