"""The store's twin in memory: for `--data :memory:` and for tests. It behaves as the store on disk does, but forgets."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock

from kompat.errors import StorageError
from kompat.log.storage.incarnation import Incarnations
from kompat.log.storage.store import Entry, EntryKind, Rewrite, Run, StoredBatch
from kompat.types import Buffer, LogId, Millis, Offset, RaftIndex

Write = Callable[[], None]


class _Data:
    """What one partition holds: parallel lists, in order of their first."""

    __slots__ = (
        "bases",
        "batches",
        "contents",
        "entries",
        "indices",
        "names",
        "payloads",
        "size",
        "states",
        "time_offsets",
        "times",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.indices: list[RaftIndex] = []
        self.entries: list[Entry] = []
        self.payloads: dict[RaftIndex, bytes] = {}
        self.bases: list[Offset] = []
        self.batches: list[StoredBatch] = []
        self.contents: list[bytes] = []
        self.time_offsets: list[Offset] = []
        self.times: list[Millis] = []
        self.states: dict[bytes, bytes] = {}
        self.names: list[bytes] = []  # of the states, in order
        self.size = 0

    def is_empty(self) -> bool:
        return not (self.entries or self.batches or self.times or self.states)

    def append(self, entry: Entry, batch: bytes, payload: bytes) -> None:
        self.indices.append(entry.index)
        self.entries.append(entry)
        if entry.kind is not EntryKind.DATA:
            payload = batch
        else:
            self.append_batch(StoredBatch(entry.base_offset, entry.last_offset, len(batch), entry.max_timestamp), batch)
        if payload:
            self.payloads[entry.index] = payload

    def append_batch(self, batch: StoredBatch, content: bytes) -> None:
        self.bases.append(batch.base_offset)
        self.batches.append(batch)
        self.contents.append(content)
        self.size += len(content)

    def truncate_from(self, index: RaftIndex, offset: Offset) -> None:
        self._cut_entries(slice(bisect_left(self.indices, index), None))
        self._cut_batches(slice(bisect_left(self.bases, offset), None))
        self._cut_times(slice(bisect_left(self.time_offsets, offset), None))

    def drop_before(self, index: RaftIndex, offset: Offset) -> None:
        self._cut_entries(slice(bisect_left(self.indices, index)))
        self._cut_batches(slice(self.position(offset)))
        self._cut_times(slice(bisect_left(self.time_offsets, offset)))

    def rewrite(self, replacements: Sequence[tuple[Rewrite, bytes | None]]) -> None:
        for replacement, content in replacements:
            at = bisect_left(self.bases, replacement.base_offset)
            if at == len(self.bases) or self.bases[at] != replacement.base_offset:
                continue
            if content is None:
                self._cut_batches(slice(at, at + 1))
                continue
            self.size += len(content) - self.batches[at].size
            self.batches[at] = StoredBatch(
                replacement.base_offset, replacement.last_offset, len(content), replacement.max_timestamp
            )
            self.contents[at] = content

    def add_time(self, timestamp: Millis, offset: Offset) -> None:
        at = bisect_left(self.time_offsets, offset)
        if at < len(self.time_offsets) and self.time_offsets[at] == offset:
            self.times[at] = timestamp
        else:
            self.time_offsets.insert(at, offset)
            self.times.insert(at, timestamp)

    def put_state(self, name: bytes, value: bytes) -> None:
        if name not in self.states:
            insort(self.names, name)
        self.states[name] = value

    def delete_state(self, name: bytes) -> None:
        if self.states.pop(name, None) is not None:
            del self.names[bisect_left(self.names, name)]

    def delete_states(self, start: bytes, end: bytes) -> None:
        part = slice(bisect_left(self.names, start), bisect_left(self.names, end))
        for name in self.names[part]:
            del self.states[name]
        del self.names[part]

    def position(self, offset: Offset) -> int:
        """Of the batch that holds `offset`, or the first after it."""
        at = bisect_right(self.bases, offset) - 1
        return at if at >= 0 and self.batches[at].last_offset >= offset else at + 1

    def _cut_entries(self, part: slice) -> None:
        for index in self.indices[part]:
            self.payloads.pop(index, None)
        del self.indices[part], self.entries[part]

    def _cut_batches(self, part: slice) -> None:
        self.size -= sum(batch.size for batch in self.batches[part])
        del self.bases[part], self.batches[part], self.contents[part]

    def _cut_times(self, part: slice) -> None:
        del self.time_offsets[part], self.times[part]


class MemoryPartition:
    """PartitionStore in memory."""

    __slots__ = ("_data", "_lock", "_staged", "is_vital")

    def __init__(self, data: _Data, staged: list[Write], lock: Lock) -> None:
        self.is_vital = False
        self._data = data
        self._staged = staged
        self._lock = lock

    def append(self, entry: Entry, batch: Buffer, segment: Offset, payload: bytes = b"") -> None:
        self._staged.append(lambda: self._data.append(entry, bytes(batch), payload))

    def append_batch(self, batch: StoredBatch, content: Buffer, segment: Offset) -> None:
        self._staged.append(lambda: self._data.append_batch(batch, bytes(content)))

    def require_room(self) -> None:
        """Memory has it, or all is over."""

    def keep_inline(self) -> None:
        """There is no other place."""

    def truncate_from(self, index: RaftIndex, offset: Offset) -> None:
        self._staged.append(lambda: self._data.truncate_from(index, offset))

    def drop_before(self, index: RaftIndex, offset: Offset, segments: Sequence[Offset]) -> None:
        self._staged.append(lambda: self._data.drop_before(index, offset))

    def rewrite(self, replacements: Sequence[Rewrite], segment: Offset) -> None:
        kept = [(r, None if r.batch is None else bytes(r.batch)) for r in replacements]
        self._staged.append(lambda: self._data.rewrite(kept))

    def add_time_index(self, timestamp: Millis, offset: Offset) -> None:
        self._staged.append(lambda: self._data.add_time(timestamp, offset))

    def put_state(self, name: bytes, value: bytes) -> None:
        self._staged.append(lambda: self._data.put_state(name, value))

    def delete_state(self, name: bytes) -> None:
        self._staged.append(lambda: self._data.delete_state(name))

    def delete_states(self, start: bytes, end: bytes) -> None:
        self._staged.append(lambda: self._data.delete_states(start, end))

    def state(self, name: bytes) -> bytes | None:
        return self._data.states.get(name)

    def states(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            data, found = self._data, []
            for at in range(bisect_left(data.names, prefix), len(data.names)):
                name = data.names[at]
                if not name.startswith(prefix):
                    break
                found.append((name, data.states[name]))
            return iter(found)

    def state_range(self, start: bytes, end: bytes, limit: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        with self._lock:
            data = self._data
            found: list[tuple[bytes, bytes]] = []
            first = bisect_left(data.names, start)
            for name in data.names[first : min(first + limit, bisect_left(data.names, end))]:
                value = data.states[name]
                max_bytes -= len(value)
                if found and max_bytes < 0:
                    break
                found.append((name, value))
            return found

    def first_entry(self) -> Entry | None:
        with self._lock:
            return self._data.entries[0] if self._data.entries else None

    def last_entry(self) -> Entry | None:
        with self._lock:
            return self._data.entries[-1] if self._data.entries else None

    def entries(self, start: RaftIndex) -> Iterator[Entry]:
        with self._lock:
            return iter(self._data.entries[bisect_left(self._data.indices, start) :])

    def full_entries(self, start: RaftIndex) -> Iterator[tuple[Entry, bytes]]:
        with self._lock:
            data = self._data
            found = data.entries[bisect_left(data.indices, start) :]
            return iter([(entry, data.payloads.get(entry.index, b"")) for entry in found])

    def payload(self, index: RaftIndex) -> bytes | None:
        return self._data.payloads.get(index)

    def batches(self, offset: Offset) -> Iterator[StoredBatch]:
        with self._lock:
            return iter(self._data.batches[self._data.position(offset) :])

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> Run:
        with self._lock:
            return self._read(offset, max_bytes, end)

    def _read(self, offset: Offset, max_bytes: int, end: Offset) -> Run:
        data = self._data
        buffers: list[Buffer] = []
        size, next_offset = 0, offset
        for at in range(data.position(offset), len(data.batches)):
            batch = data.batches[at]
            if batch.base_offset >= end or (buffers and size + batch.size > max_bytes):
                break
            buffers.append(data.contents[at])
            size += batch.size
            next_offset = Offset(batch.last_offset + 1)
        return Run(buffers, size, next_offset)

    def time_index(self, timestamp: Millis) -> Offset | None:
        with self._lock:
            at = bisect_left(self._data.times, timestamp)
            return self._data.time_offsets[at - 1] if at else None

    def size(self) -> int:
        return self._data.size


class MemoryStore:
    """LogStore in memory."""

    def __init__(self) -> None:
        self.lost_power = False
        self.is_restored = False
        self.incarnations = Incarnations(None)
        self._logs: dict[LogId, _Data] = {}
        self._staged: list[Write] = []
        self._lock = Lock()  # cold reads come from other threads than flushes

    def open(self, log: LogId) -> MemoryPartition:
        return MemoryPartition(self._logs.setdefault(log, _Data()), self._staged, self._lock)

    def logs(self) -> Iterable[LogId]:
        return [log for log, data in self._logs.items() if not data.is_empty()]

    def drop(self, log: LogId) -> None:
        data = self._logs.get(log)
        if data is not None:
            self._staged.append(data.clear)  # in place: open partitions see it

    def has_staged(self) -> bool:
        return bool(self._staged)

    def require_room(self) -> None:
        """Memory has it, or all is over."""

    def flush(self) -> None:
        writes = list(self._staged)
        self._staged.clear()  # in place: the partitions share the list
        with self._lock:
            for write in writes:
                write()

    def sync(self) -> None:
        """Memory has nothing to sync to."""

    def checkpoint(self, directory: str) -> None:
        raise StorageError("a store in memory has no files to copy")

    def close(self) -> None:
        self._logs.clear()
