"""Reads of one log in the store on disk: of what has been flushed, in any thread."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kompat import _native
from kompat.errors import DamagedBatch, DamagedData, StorageError
from kompat.log.storage import keys
from kompat.log.storage.cursor import Cursor, scan
from kompat.log.storage.keys import Compacted
from kompat.log.storage.store import Entry, Run, StoredBatch
from kompat.log.storage.valuelog import MissingBytes, Stretch, ValueLog, file_name
from kompat.types import Buffer, LogId, Millis, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.log.storage.rocks import RocksStore

NEVER_COMPACTED = Compacted(0, 0)
NO_LIMIT = (1 << 63) - 1
_LOOKS = 4  # a batch may be moved or removed between finding its key and reading its bytes


Inline = list[tuple[int, memoryview]]  # base offsets and batches, as they lie in the database


class _Found:
    """Where the bytes of a run of batches lie."""

    __slots__ = ("_file", "_inline", "_log", "_stretch", "_values", "first", "next_offset", "parts", "size")

    def __init__(self, log: LogId, values: ValueLog) -> None:
        self._log = log
        self._values = values
        self._inline: Inline | None = None  # the last part, if it is inline
        self._stretch: Stretch | None = None  # the last part, if it lies in the value log
        self._file = (-1, -1)  # of that
        self.parts: list[Stretch | Inline] = []
        self.size = 0
        self.first: tuple[int, int] | None = None  # base and last offset of the first batch
        self.next_offset = Offset(0)

    def add_inline(self, base: int, value: bytes) -> None:
        if self._inline is None:
            self._inline, self._stretch = [], None
            self.parts.append(self._inline)
        self._inline.append((base, memoryview(value)[keys.HEAD_SIZE :]))

    def add_pointer(self, base: int, size: int, pointer: tuple[int, int, int]) -> None:
        segment, number, place = pointer
        last = self._stretch
        if last is not None and place == last.place + last.size and self._file == (segment, number):
            last.size += size
            last.batches.append((base, size))
            return
        path = self._values.path(file_name(self._log, segment, number))
        self._stretch, self._inline = Stretch(path, place, size, [(base, size)]), None
        self.parts.append(self._stretch)
        self._file = (segment, number)


class RocksReads:
    __slots__ = ("_counted", "_cuts", "_prefix", "_store", "log")

    def __init__(self, log: LogId, store: "RocksStore") -> None:
        self.log = log
        self._prefix = log.key
        self._store = store
        self._counted: Compacted | None = None  # what size() counted, until the next cut
        self._cuts = 0  # flushed: truncations, drops and rewrites

    # -- state -----------------------------------------------------------------------------------------------------
    def state(self, name: bytes) -> bytes | None:
        database = self._store.database
        value: bytes | None = database.read(database.state.get, keys.state_key(self._prefix, name))
        return value

    def states(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._states(prefix, lambda name: name.startswith(prefix)))

    def state_range(self, start: bytes, end: bytes, limit: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        return self._states(start, lambda name: name < end, limit, max_bytes)

    def _states(
        self, start: bytes, is_wanted: Callable[[bytes], bool], limit: int = NO_LIMIT, max_bytes: int = NO_LIMIT
    ) -> list[tuple[bytes, bytes]]:
        database = self._store.database
        cursor = Cursor(database, database.state, keys.state_key(self._prefix, b""))
        found: list[tuple[bytes, bytes]] = []
        item = cursor.at_name(start)
        while item is not None and len(found) < limit:
            name, value = item[0][keys.STATE_NAME_AT :], item[1]
            max_bytes -= len(value)
            if not is_wanted(name) or (found and max_bytes < 0):
                break
            found.append((name, value))
            item = cursor.next()
        return found

    # -- entries ---------------------------------------------------------------------------------------------------
    def first_entry(self) -> Entry | None:
        item = self._entries().at(0)
        return keys.stored_entry(*item) if item else None

    def last_entry(self) -> Entry | None:
        item = self._entries().last()
        return keys.stored_entry(*item) if item else None

    def entries(self, start: RaftIndex) -> Iterator[Entry]:
        return scan(self._entries, lambda cursor: cursor.at(start), keys.stored_entry)

    def full_entries(self, start: RaftIndex) -> Iterator[tuple[Entry, bytes]]:
        return scan(self._entries, lambda cursor: cursor.at(start), keys.full_entry)

    def payload(self, index: RaftIndex) -> bytes | None:
        database = self._store.database
        value: bytes | None = database.read(database.entries.get, self._prefix + keys.number(index))
        return (keys.payload(value) or None) if value else None

    # -- batches ---------------------------------------------------------------------------------------------------
    def batches(self, offset: Offset) -> Iterator[StoredBatch]:
        return scan(self._batches, lambda cursor: cursor.holding(offset), keys.stored_batch)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> Run:
        missing: MissingBytes | None = None
        for _ in range(_LOOKS):
            try:
                return self._run(self._find(offset, max_bytes, end))
            except MissingBytes as error:
                missing = error
            except OSError as error:  # of one log: the broker goes on with the others
                raise StorageError(f"log {self.log} cannot be read: {error}") from error
            except DamagedData as error:
                raise self._damaged_block(offset, end, error) from error
        assert missing is not None, self.log  # noqa: S101 - nothing else ends the loop
        return self._read_before(missing, offset, max_bytes, end)

    def _read_before(self, missing: MissingBytes, offset: Offset, max_bytes: int, end: Offset) -> Run:
        """The batches before one that is damaged. Raises DamagedBatch where there are none."""
        bad = missing.base_offset
        found = self._find(offset, 1, end)
        if found.first is None:  # removed meanwhile
            return self._run(found)
        if bad is None or found.first[0] < bad:
            try:
                return self._run(found if bad is None else self._find(offset, max_bytes, Offset(bad)))
            except MissingBytes as error:
                missing = error
        raise DamagedBatch(
            f"log {self.log} is damaged from offset {found.first[0]} to {found.first[1]}: {missing}", *found.first
        )

    def _damaged_block(self, offset: Offset, end: Offset, fault: DamagedData) -> StorageError:
        """A block of the database holds many small batches: find out where it ends."""
        low, step = int(offset), 1
        while (low + step < end) and not self._is_readable(low + step):
            low, step = low + step, 2 * step
        high = min(low + step, end)
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_readable(middle):
                high = middle
            else:
                low = middle
        return DamagedBatch(
            f"log {self.log} is damaged from offset {offset} to {high - 1}: {fault}", int(offset), high - 1
        )

    def _is_readable(self, offset: int) -> bool:
        try:
            self._batches().at(offset)
        except DamagedData:
            return False
        return True

    def _find(self, offset: Offset, max_bytes: int, end: Offset) -> "_Found":
        """A tight loop: a run of small batches has thousands, and the interpreter is held meanwhile."""
        found = _Found(self.log, self._store.values)
        size, next_offset = 0, offset
        self._store.database.warm_up(self._prefix + keys.number(offset))
        cursor = self._batches()
        item = cursor.holding(offset)
        if item is not None:
            found.first = keys.number_at_end(item[0]), keys.unpack_head(item[1])[2]
        advance = cursor.next
        while item is not None:
            base = keys.number_at_end(item[0])
            kind, _, last, batch_size, _ = keys.unpack_head(item[1])
            if base >= end or (size and size + batch_size > max_bytes):
                break
            if kind == keys.INLINE:
                found.add_inline(base, item[1])
            else:
                found.add_pointer(base, batch_size, keys.pointer(item[1]))
            size += batch_size
            next_offset = Offset(last + 1)
            try:
                item = advance()
            except DamagedData:  # the next read reports it
                break
        found.size, found.next_offset = size, next_offset
        return found

    def _run(self, found: "_Found") -> Run:
        return Run([self._content(part) for part in found.parts], found.size, found.next_offset)

    def _content(self, part: "Stretch | Inline") -> Buffer:
        if isinstance(part, Stretch):
            return self._store.values.read(part)
        content: Buffer = part[0][1] if len(part) == 1 else b"".join([batch for _, batch in part])
        whole = _native.whole_batches(content)
        if whole < len(content):
            for base, batch in part:
                whole -= len(batch)
                if whole < 0:
                    raise MissingBytes(f"the checksum of batch {base} is wrong", base)
        return content

    def time_index(self, timestamp: Millis) -> Offset | None:
        """Times do not fall with rising offsets, so the last one before `timestamp` is found by halving."""
        times = self._times()
        first, last = times.at(0), times.last()
        if first is None or last is None or keys.stored_time(first[1]) >= timestamp:
            return None
        low, high = keys.number_at_end(first[0]), keys.number_at_end(last[0]) + 1
        while high - low > 1:  # the time at `low` is before `timestamp`, those from `high` on are not
            middle = (low + high) // 2
            item = times.at(middle)
            if item is not None and keys.stored_time(item[1]) < timestamp:
                low = keys.number_at_end(item[0])
            else:
                high = middle
        return Offset(low)

    # -- size ------------------------------------------------------------------------------------------------------
    def size(self) -> int:
        compacted = self._stored_compacted()
        cursor = self._batches()
        return self._compacted_size(cursor, compacted) + stored_end(cursor) - position_of(cursor, compacted.below)

    def _compacted_size(self, cursor: Cursor, compacted: Compacted) -> int:
        if compacted.size >= 0:
            return compacted.size
        counted, cuts = self._counted, self._cuts
        if counted is None or counted.below != compacted.below:
            counted = Compacted(compacted.below, _count(cursor, compacted.below))
            if cuts == self._cuts:
                self._counted = counted
        return counted.size

    def _stored_compacted(self) -> Compacted:
        database = self._store.database
        value = database.read(database.state.get, keys.compacted_key(self._prefix))
        return keys.stored_compacted(value) if value else NEVER_COMPACTED

    def _batches(self) -> Cursor:
        return Cursor(self._store.database, self._store.database.batches, self._prefix)

    def _entries(self) -> Cursor:
        return Cursor(self._store.database, self._store.database.entries, self._prefix)

    def _times(self) -> Cursor:
        return Cursor(self._store.database, self._store.database.times, self._prefix)


def stored_end(batches: Cursor) -> int:
    """The position after the last batch."""
    item = batches.last()
    if item is None:
        return 0
    head = keys.head(item[1])
    return head.position + head.size


def position_of(batches: Cursor, offset: int) -> int:
    """The position of the first batch that begins at or after `offset`, or the end."""
    item = batches.at(offset)
    return stored_end(batches) if item is None else keys.head(item[1]).position


def _count(batches: Cursor, below: int) -> int:
    size = 0
    item = batches.at(0)
    while item is not None and keys.number_at_end(item[0]) < below:
        size += keys.head(item[1]).size
        item = batches.next()
    return size
