"""Gives space back, in a thread of its own: files that nobody points into, and ranges of the database that were deleted.

A file is removed only after the deletion of its pointers is on the disk; else a machine that crashes in between would
come back with pointers into nothing. What is to be removed is noted in the database together with that deletion, so that a
broker that was killed in between goes on with it when it starts.
"""

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from kompat.errors import DamagedData, StorageError
from kompat.log import keys
from kompat.log.database import MIB, Database
from kompat.log.valuelog import ValueLog, file_name

logger = logging.getLogger(__name__)

COMPACT_FROM = 8 * MIB  # less than this is left to RocksDB's own compaction
IGNORED_BELOW = 4096  # not worth remembering


@dataclass(frozen=True, slots=True)
class Freed:
    """Ranges of keys that were deleted, and how many bytes of batches with them."""

    size: int
    batches: tuple[bytes, bytes]
    entries: tuple[bytes, bytes]


@dataclass(slots=True)
class Garbage:
    """What a turn leaves behind."""

    doomed: list[str] = field(default_factory=list)  # names of files and directories
    sweeps: list[tuple[bytes, int, int]] = field(default_factory=list)  # log, segment, number: maybe pointed to no more
    freed: list[Freed] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)  # paths that are not written to any more

    def is_empty(self) -> bool:
        return not (self.doomed or self.sweeps or self.freed or self.finished)


class Collector:
    def __init__(self, database: Database, values: ValueLog) -> None:
        self._database = database
        self._values = values
        self._freed: list[Freed] = []
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
        self._collect(garbage)

    def submit(self, garbage: Garbage) -> None:
        self._values.doom(garbage.doomed)
        self._last = self._executor.submit(self._run, garbage)

    def wait(self) -> None:
        """Until everything submitted has been worked on."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        self._executor.shutdown()

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
        self._database.sync()
        notes = [keys.doomed_key(name) for name in garbage.doomed]
        doomed = list(garbage.doomed)
        for log, segment, number in garbage.sweeps:
            notes.append(keys.sweep_key(log, segment, number))
            if not self._is_pointed_to(log, segment, number):
                doomed.append(file_name(keys.log_id(log), segment, number))
        with self.lock:
            self._values.remove(sorted(doomed, reverse=True))  # a directory's files before the directory
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

    def _compact(self, freed: Iterable[Freed]) -> None:
        """Range deletions alone give nothing back until RocksDB happens to compact there."""
        self._freed += [one for one in freed if one.size >= IGNORED_BELOW]
        if sum(one.size for one in self._freed) < COMPACT_FROM:
            return
        due, self._freed = self._freed, []
        for one in due:
            self._database.read(self._database.batches.compact_range, *one.batches)
            self._database.read(self._database.entries.compact_range, *one.entries)

    def _noted(self) -> Iterator[bytes]:
        iterator = self._database.default.iter()
        iterator.seek_to_first()
        while iterator.valid():
            yield iterator.key()
            iterator.next()
        self._database.checked(iterator)
