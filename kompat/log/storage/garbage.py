"""Frees space, in a thread of its own: files without references, and ranges of the database that were deleted.

A file is removed only after the deletion of its pointers is on the disk; else a machine that crashes in between would
come back with pointers into nothing. What is to be removed is noted in the database together with that deletion, so that a
broker that was killed in between goes on with it when it starts.
"""

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock

from kompat.errors import DamagedData, StorageError
from kompat.log.storage import keys
from kompat.log.storage.database import MIB, Database
from kompat.log.storage.valuelog import ValueLog, file_name

logger = logging.getLogger(__name__)

COMPACT_FROM = 8 * MIB  # less than this is left to RocksDB's own compaction
FLUSH_FROM = 1000  # deleted keys that may be in memory
REMEMBERED = 1000

KeyRange = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Freed:
    """Ranges of keys of one log, or of some neighbouring logs, that were deleted."""

    keys: int  # how many
    size: int  # of their batches
    batches: KeyRange
    entries: KeyRange

    def joined(self, other: "Freed") -> "Freed":
        return Freed(
            self.keys + other.keys,
            self.size + other.size,
            (min(self.batches[0], other.batches[0]), max(self.batches[1], other.batches[1])),
            (min(self.entries[0], other.entries[0]), max(self.entries[1], other.entries[1])),
        )


@dataclass(slots=True)
class Garbage:
    """What a turn leaves behind."""

    doomed: list[str] = field(default_factory=list)  # names of files and directories
    sweeps: list[tuple[bytes, int, int]] = field(default_factory=list)  # log, segment, number: maybe pointed to no more
    freed: list[Freed] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)  # paths that are not written to any more
    rewritten: set[str] = field(default_factory=set)  # paths of what replaces batches of the swept files

    def is_empty(self) -> bool:
        return not (self.doomed or self.sweeps or self.freed or self.finished)


class Collector:
    def __init__(self, database: Database, values: ValueLog) -> None:
        self._database = database
        self._values = values
        self._freed: list[Freed] = []
        self._deleted_in_memory = 0
        self.doomed: set[str] = set()  # names of files that will be removed
        self._executor = ThreadPoolExecutor(1, "kompat-garbage")
        self._last: Future[None] | None = None
        self.lock = Lock()  # held while files go: who copies the store holds it too

    def recover(self) -> None:
        """Go on with what the last broker left undone. At start, before anything is written."""
        garbage = Garbage()
        for key in self._noted():
            if key[:1] == b"f":
                garbage.doomed.append(key[1:].decode())
            else:
                garbage.sweeps.append(keys.swept_file(key))
        # Which files hold what replaces those is forgotten: it may be any of the same log.
        for log in {keys.log_id(log) for log, _, _ in garbage.sweeps}:
            garbage.rewritten.update(self._values.path(name) for _, _, name in self._values.names(log))
        self._collect(garbage)

    def submit(self, garbage: Garbage) -> None:
        self.doomed.update(garbage.doomed)
        self._last = self._executor.submit(self._run, garbage)

    def wait(self) -> None:
        """Until everything submitted has been worked on."""
        if self._last is not None:
            wait([self._last])

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)  # what is left is noted in the database

    def _run(self, garbage: Garbage) -> None:
        try:
            self._collect(garbage)
            self._compact(garbage.freed)
        except (OSError, StorageError, DamagedData) as error:
            logger.warning("space could not be given back, the next start tries again: %s", error)
        except Exception:
            logger.exception("space could not be given back")

    def _collect(self, garbage: Garbage) -> None:
        for path in garbage.finished:
            self._values.sync_file(path)
        if not (garbage.doomed or garbage.sweeps):
            return
        # What replaces a file's batches has to be on the disk before that file goes: it may have been there for years.
        self._values.sync_files(garbage.rewritten)
        self._database.sync()
        notes = [keys.doomed_key(name) for name in garbage.doomed]
        doomed = list(garbage.doomed)
        for log, segment, number in garbage.sweeps:
            notes.append(keys.sweep_key(log, segment, number))
            if not self._is_pointed_to(log, segment, number):
                doomed.append(file_name(keys.log_id(log), segment, number))
        with self.lock:
            self._values.remove(sorted(doomed, reverse=True))  # a directory's files before the directory
        self.doomed.difference_update(doomed)
        writes = self._database.new_writes()
        for note in notes:
            writes.delete(note)
        self._database.write(writes)

    def _is_pointed_to(self, log: bytes, segment: int, number: int) -> bool:
        """Segments do not fall with rising offsets, so the search ends where a later one begins."""
        iterator = self._database.batches.iter()
        iterator.seek(log + keys.number(segment))
        while iterator.valid() and iterator.key().startswith(log):
            value = iterator.value()
            if value[0] == keys.POINTER:
                found, found_number, _ = keys.pointer(value)
                if (found, found_number) == (segment, number):
                    return True
                if found > segment:
                    break
            iterator.next()
        self._database.checked(iterator)
        return False

    def _compact(self, freed: list[Freed]) -> None:
        """A deleted range gives nothing back until RocksDB happens to compact there.

        As long as it lies in memory, it also makes searches slow that pass over it: they look at every deleted key.
        """
        if not freed:
            return
        database = self._database
        self._deleted_in_memory += sum(one.keys for one in freed)
        if self._deleted_in_memory >= FLUSH_FROM:
            self._deleted_in_memory = 0
            database.flush()
        all_freed = merged([*self._freed, *freed])
        for one in all_freed:
            if one.size >= COMPACT_FROM:
                database.read(database.batches.compact_range, *one.batches)
                database.read(database.entries.compact_range, *one.entries)
        left = [one for one in all_freed if one.size < COMPACT_FROM]
        self._freed = sorted(left, key=lambda one: one.size)[-REMEMBERED:]

    def _noted(self) -> Iterator[bytes]:
        iterator = self._database.default.iter()
        iterator.seek_to_first()
        while iterator.valid():
            yield iterator.key()
            iterator.next()
        self._database.checked(iterator)


def merged(freed: Iterable[Freed]) -> list[Freed]:
    """Joined where they concern the same log or neighbouring partitions: a topic is compacted in one go."""
    result: list[Freed] = []
    for one in sorted(freed, key=lambda one: one.batches):
        if result and _log(one.batches[0]) - _log(result[-1].batches[1]) <= 1:
            result[-1] = result[-1].joined(one)
        else:
            result.append(one)
    return result


def _log(key: bytes) -> int:
    """Topic and partition as one number."""
    return int.from_bytes(key[: keys.LOG_SIZE], "big")
