"""One partition's writes to the store on disk. Everything is staged in the turn's WriteBatch, in order."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kompat.log.storage import keys
from kompat.log.storage.garbage import Freed
from kompat.log.storage.keys import Compacted
from kompat.log.storage.rocks_files import PartitionFiles
from kompat.log.storage.rocks_reads import NEVER_COMPACTED, RocksReads, position_of, stored_end
from kompat.log.storage.store import Entry, EntryKind, Rewrite, StoredBatch
from kompat.types import Buffer, LogId, Millis, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.log.storage.rocks import RocksStore

INLINE_BELOW = 2048  # bytes: docs/adr/0002-value-log-threshold.md
_MAX = (1 << 63) - 1
_LOOK_AHEAD = 64


class _Turn:
    """What this turn does to the partition, as far as later writes of the same turn have to know."""

    __slots__ = ("appended", "ceiling", "floor", "is_cut", "removed")

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, int]] = []  # base offset, last offset, position
        self.floor = 0  # stored batches below are dropped
        self.ceiling = _MAX  # stored batches from here on are truncated
        self.removed: set[int] = set()  # stored batches that the cleaner removes
        self.is_cut = False  # a read no longer shows what the log will be


class RocksPartition(RocksReads):
    """PartitionStore on disk. There is one for each log, so it may remember where the log ends."""

    __slots__ = ("_compacted", "_end", "_files", "_inline_below", "_turn", "is_vital")

    def __init__(self, log: LogId, store: "RocksStore") -> None:
        super().__init__(log, store)
        self._turn: _Turn | None = None
        self._end: int | None = None  # the position of the next batch; None: not looked up yet
        self._compacted: Compacted | None = None  # None: not looked up yet
        self._files = PartitionFiles(log, store)
        self._inline_below = INLINE_BELOW
        self.is_vital = False

    def keep_inline(self) -> None:
        self._inline_below = _MAX

    def require_room(self) -> None:
        store = self._store
        if store.is_refusing and not (self.is_vital and store.database.is_open):
            store.check()

    def append(self, entry: Entry, batch: Buffer, segment: Offset, payload: bytes = b"") -> None:
        store = self._store
        if store.is_refusing:
            self.require_room()
        if entry.kind is not EntryKind.DATA:
            self._begin()
            payload = bytes(batch)
        else:
            self._put_batch(entry.base_offset, entry.last_offset, entry.max_timestamp, batch, segment)
        value = keys.entry_value(entry)
        if payload:
            value += payload
        store.writes.put(self._prefix + keys.number(entry.index), value, store.database.entries_handle)

    def append_batch(self, batch: StoredBatch, content: Buffer, segment: Offset) -> None:
        self._put_batch(batch.base_offset, batch.last_offset, batch.max_timestamp, content, segment)

    def _put_batch(self, base: Offset, last: Offset, max_timestamp: Millis, batch: Buffer, segment: Offset) -> None:
        store, size = self._store, len(batch)
        turn = self._turn or self._begin()
        file = self._files.for_append(segment, base) if size >= self._inline_below else None
        position = self._end
        if position is None:
            position = stored_end(self._batches())
        if file is None:
            value = b"".join((keys.pack_head(keys.INLINE, position, last, size, max_timestamp), batch))
        else:
            place = store.values.stage(file, batch)
            value = keys.pack_pointer(
                keys.POINTER, position, last, size, max_timestamp, file.segment, file.number, place
            )
        store.writes.put(self._prefix + keys.number(base), value, store.database.batches_handle)
        turn.appended.append((base, last, position))
        self._end = position + size

    def truncate_from(self, index: RaftIndex, offset: Offset) -> None:
        turn = self._begin()
        self._end = self._end_before(turn, offset)
        if offset < self._compaction().below:
            self._set_compaction(Compacted(offset, -1))
        turn.ceiling = min(turn.ceiling, offset)
        turn.is_cut = True
        self._files.truncate(offset)
        self._delete((index, _MAX), (offset, _MAX), (offset, _MAX))

    def drop_before(self, index: RaftIndex, offset: Offset, segments: Sequence[Offset]) -> None:
        turn = self._begin()
        bound, kept = self._first_kept(turn, offset)
        compacted = self._compaction()
        if compacted.below:
            self._set_compaction(NEVER_COMPACTED if bound >= compacted.below else Compacted(compacted.below, -1))
        self._note_freed(index, bound)
        turn.floor = max(turn.floor, bound)
        turn.is_cut = True
        self._files.remove({segment for segment in segments if kept is None or segment < kept})
        if kept is not None:  # whatever the caller still calls a segment
            self._files.remove_before(kept)
        self._delete((0, index), (0, bound), (0, offset))

    def rewrite(self, replacements: Sequence[Rewrite], segment: Offset) -> None:
        turn = self._begin()
        store = self._store
        old = self._stored(turn, replacements)
        for left in {keys.pointer(value)[:2] for _, value in old if value[0] == keys.POINTER}:
            self._files.leave(*left)
        new = [(replacement.base_offset, self._replacement(replacement, value)) for replacement, value in old]
        for base, value in new:  # only now: a failure above leaves nothing staged
            key = self._prefix + keys.number(base)
            if value is None:
                turn.removed.add(base)
                store.writes.delete(key, store.database.batches_handle)
            else:
                store.writes.put(key, value, store.database.batches_handle)
        change = sum(len(r.batch or b"") - keys.head(value).size for r, value in old)
        if old:
            self._set_compaction(self._compaction_after(turn, max(r.base_offset for r, _ in old) + 1, change))
            turn.is_cut = True

    def add_time_index(self, timestamp: Millis, offset: Offset) -> None:
        self._begin()
        key = self._prefix + keys.number(offset)
        self._store.writes.put(key, keys.time_value(timestamp), self._store.database.times_handle)

    def put_state(self, name: bytes, value: bytes) -> None:
        self._begin()
        self._store.writes.put(keys.state_key(self._prefix, name), value, self._store.database.state_handle)

    def delete_state(self, name: bytes) -> None:
        self._begin()
        self._store.writes.delete(keys.state_key(self._prefix, name), self._store.database.state_handle)

    def delete_states(self, start: bytes, end: bytes) -> None:
        self._begin()
        first, last = keys.state_key(self._prefix, start), keys.state_key(self._prefix, end)
        if first < last:
            self._store.writes.delete_range(first, last, self._store.database.state_handle)

    def drop(self) -> None:
        """Everything goes."""
        turn = self._begin()
        self._note_freed(_MAX, _MAX)
        turn.ceiling = 0
        turn.appended.clear()
        turn.is_cut = True
        self._end, self._compacted = 0, NEVER_COMPACTED
        self._delete((0, _MAX), (0, _MAX), (0, _MAX))
        store = self._store
        store.writes.delete_range(self._prefix, keys.log_end(self._prefix), store.database.state_handle)
        self._files.remove_all()

    # -- the turn's end: called by the store -----------------------------------------------------------------------
    def finish(self) -> None:
        if self._turn is not None and self._turn.is_cut:
            self._cuts += 1
            self._counted = None
        self._turn = None

    def discard(self) -> None:
        """Nothing of the turn was written: forget what was known of the end."""
        self._turn = self._end = self._compacted = None
        self._files.discard()

    def _begin(self) -> _Turn:
        if self._turn is None:
            self._store.begin(self)
            self._turn = _Turn()
        return self._turn

    # -- what a cut leaves -----------------------------------------------------------------------------------------
    def _end_before(self, turn: _Turn, offset: int) -> int:
        """The position of the next batch when those from `offset` on are gone."""
        cursor = self._batches()
        end = stored_end(cursor) if self._end is None else self._end
        while turn.appended and turn.appended[-1][0] >= offset:
            end = turn.appended.pop()[2]
        item = cursor.at(offset)
        if item is not None and keys.number_at_end(item[0]) < turn.ceiling:
            end = keys.head(item[1]).position
        return end

    def _first_kept(self, turn: _Turn, offset: int) -> tuple[int, int | None]:
        """Where a drop ends that keeps the batch that holds `offset`, and the first segment that has files from there on.

        That is None where it is not known: all of a long stretch lies in the database.
        """
        for base, last, _ in turn.appended:
            if base < offset <= last:
                return base, self._files.segment
        cursor = self._batches()
        item = cursor.holding(offset)
        bound = offset
        if item is not None and keys.number_at_end(item[0]) < turn.ceiling:
            bound = min(offset, keys.number_at_end(item[0]))
        for _ in range(_LOOK_AHEAD):
            if item is None or keys.number_at_end(item[0]) >= turn.ceiling:
                break
            if item[1][0] == keys.POINTER:
                return bound, keys.pointer(item[1])[0]
            item = cursor.next()
        return bound, None

    def _delete(self, indices: tuple[int, int], offsets: tuple[int, int], times: tuple[int, int]) -> None:
        database, writes = self._store.database, self._store.writes
        for (start, end), handle in (
            (indices, database.entries_handle),
            (offsets, database.batches_handle),
            (times, database.times_handle),
        ):
            writes.delete_range(self._prefix + keys.number(start), self._prefix + keys.number(end), handle)

    def _note_freed(self, index: int, offset: int) -> None:
        """What of the database becomes free below `index` and `offset`; the value log's bytes are counted with it."""
        entries, batches = self._entries(), self._batches()
        first, last = entries.at(0), entries.last()
        if first is None or last is None:
            return
        count = min(index, keys.number_at_end(last[0]) + 1) - keys.number_at_end(first[0])
        size = position_of(batches, offset) - position_of(batches, 0)
        if count > 0:
            start, number = self._prefix + keys.number(0), keys.number
            ends = self._prefix + number(offset), self._prefix + number(index)
            self._store.garbage.freed.append(Freed(count, size, (start, ends[0]), (start, ends[1])))

    # -- rewriting -------------------------------------------------------------------------------------------------
    def _stored(self, turn: _Turn, replacements: Iterable[Rewrite]) -> list[tuple[Rewrite, bytes]]:
        """The replacements whose batch is there, with its value."""
        found: list[tuple[Rewrite, bytes]] = []
        database = self._store.database
        for replacement in replacements:
            base = replacement.base_offset
            if turn.floor <= base < turn.ceiling and base not in turn.removed:
                key = self._prefix + keys.number(base)
                value: bytes | None = database.read(database.batches.get, key)
                if value is not None:
                    found.append((replacement, value))
        return found

    def _replacement(self, replacement: Rewrite, value: bytes) -> bytes | None:
        """A batch stays where it was, inline or in a file of its segment: so a file's segment determines which offsets it may hold."""
        batch = replacement.batch
        if batch is None:
            return None
        position = keys.head(value).position
        last, size, timestamp = replacement.last_offset, len(batch), replacement.max_timestamp
        if size < INLINE_BELOW or value[0] == keys.INLINE:
            return b"".join((keys.pack_head(keys.INLINE, position, last, size, timestamp), batch))
        file = self._files.for_rewrite(keys.pointer(value)[0])
        place = self._store.values.stage(file, batch)
        return keys.pack_pointer(keys.POINTER, position, last, size, timestamp, file.segment, file.number, place)

    def _compaction(self) -> Compacted:
        if self._compacted is None:
            self._compacted = self._stored_compacted()
        return self._compacted

    def _set_compaction(self, compacted: Compacted) -> None:
        self._compacted = compacted
        key, handle = keys.compacted_key(self._prefix), self._store.database.state_handle
        if compacted.below:
            self._store.writes.put(key, keys.compacted_value(compacted), handle)
        else:
            self._store.writes.delete(key, handle)

    def _compaction_after(self, turn: _Turn, rewritten_below: int, change: int) -> Compacted:
        """Positions give the bytes of what becomes compacted; after another cut in this turn they do not, so count later."""
        before = self._compaction()
        below = max(before.below, rewritten_below)
        if before.size < 0 and self._counted is not None and self._counted.below == before.below:
            before = self._counted
        if turn.is_cut or before.size < 0:
            return Compacted(below, -1)
        cursor = self._batches()
        grown = position_of(cursor, below) - position_of(cursor, before.below)
        return Compacted(below, before.size + grown + change)
