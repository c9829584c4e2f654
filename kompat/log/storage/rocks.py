"""The store on disk: RocksDB for keys and small batches, the value log for large ones.

    DIRECTORY/lock, running   which process uses the directory, and whether the last one ended cleanly
    DIRECTORY/db              RocksDB: layout in keys.py
    DIRECTORY/values          the value log: one directory per log, one file per segment, or more after cleaning

A turn is written in this order: value-log bytes, then one WriteBatch with everything that points to them. What is in the
write-ahead log is therefore complete, and the rest is only bytes without a reference.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kompat.errors import StorageError
from kompat.log.storage import keys
from kompat.log.storage.database import FAMILIES, Database, RefusedForNow
from kompat.log.storage.garbage import Collector, Garbage
from kompat.log.storage.incarnation import Incarnations
from kompat.log.storage.lock import OWNER_ALONE, DirectoryLock, Ending
from kompat.log.storage.repair import repair_tail
from kompat.log.storage.rocks_partition import RocksPartition
from kompat.log.storage.valuelog import ValueLog
from kompat.types import LogId

logger = logging.getLogger(__name__)

CHECK_EVERY = 0.1  # seconds, or
CHECK_BYTES = 4 << 20  # written: a fast writer must not use the reserve up between two looks


class RocksStore:
    """LogStore on disk."""

    def __init__(self, directory: str, *, reserve_bytes: int = 0, max_open_files: int = 256) -> None:
        """Raises StorageError where another broker works here, DamagedData where the database contradicts itself."""
        self.directory = directory
        self.reserve_bytes = self._reserve = reserve_bytes
        try:
            self._lock = DirectoryLock(directory)
        except OSError as error:
            raise StorageError(f"{directory} cannot be used: {error}") from error
        try:
            self._start(max_open_files)
        except BaseException:
            if hasattr(self, "database"):
                self.database.close()
            self._lock.release()
            raise

    def _start(self, max_open_files: int) -> None:
        self._ending = self._lock.begin()
        self.lost_power = self._ending is Ending.MACHINE
        self.is_restored = self._ending is Ending.RESTORED
        if self.lost_power:
            logger.warning(
                "the machine stopped while a broker worked in %s: what was not synced may be lost; checking the ends of its logs",
                self.directory,
            )
        self.database = Database(os.path.join(self.directory, "db"), self._ending)
        self.incarnations = Incarnations(self.directory)
        self.values = ValueLog(os.path.join(self.directory, "values"), max_open_files)
        self._collector = Collector(self.database, self.values)
        self._collector.recover()
        self._partitions: dict[LogId, RocksPartition] = {}
        self._dropped: list[LogId] = []
        self._touched: list[RocksPartition] = []
        self.writes: Any = None
        self.garbage = Garbage()
        self._next_check = 0.0
        self._unchecked = 0  # bytes written since the last look
        self._sync_failure: str | None = None
        self._is_stuck = False  # a write failed: the database takes no other until it is reopened
        self._handles = threading.Lock()  # a database that is being reopened must not be synced
        self._look_for_room()

    # -- logs ------------------------------------------------------------------------------------------------------
    def open(self, log: LogId) -> RocksPartition:
        partition = self._partitions.get(log)
        if partition is None:
            partition = self._partitions[log] = RocksPartition(log, self)
            if self._ending is Ending.MACHINE:
                repair_tail(partition, self)
        return partition

    def logs(self) -> Iterable[LogId]:
        found = {keys.log_id(log) for name in FAMILIES for log in self._logs_in(getattr(self.database, name))}
        for name in self.values.logs():
            topic_id, _, partition = name.partition("-")
            found.add(LogId(UUID(hex=topic_id), int(partition)))
        return found

    def _logs_in(self, family: Any) -> Iterator[bytes]:
        iterator = self.database.read(family.iter)
        iterator.seek_to_first()
        while iterator.valid():
            log = iterator.key()[: keys.LOG_SIZE]
            yield log
            iterator.seek(keys.log_end(log))  # skips everything that the log has
        self.database.checked(iterator)

    def drop(self, log: LogId) -> None:
        self.open(log).drop()
        self._dropped.append(log)

    # -- a turn ----------------------------------------------------------------------------------------------------
    def begin(self, partition: RocksPartition) -> None:
        """The partition has something to write in this turn."""
        self._touched.append(partition)
        if self.writes is None:
            self.writes = self.database.new_writes()

    def doom(self, name: str) -> None:
        """Remove this value-log file, or directory, once the turn is written."""
        self.garbage.doomed.append(name)
        self.writes.put(keys.doomed_key(name), b"", self.database.default_handle)

    def is_doomed(self, name: str) -> bool:
        return name in self._collector.doomed or name in self.garbage.doomed

    def sweep(self, log: bytes, segment: int, number: int) -> None:
        """Remove this value-log file if nothing points into it once the turn is written."""
        self.garbage.sweeps.append((log, segment, number))
        self.writes.put(keys.sweep_key(log, segment, number), b"", self.database.default_handle)

    def has_staged(self) -> bool:
        return self.writes is not None

    def flush(self) -> None:
        writes, self.writes = self.writes, None
        if writes is None:
            return
        if self._is_stuck:
            self._discard()  # it was built on a database that takes nothing
            self.check()
            raise StorageError("the database was opened anew: what was staged before is void")
        self._unchecked += self.values.staged_bytes + writes.size_in_bytes()
        try:
            self.values.write()
            self._write(writes)
        except OSError as error:
            self._discard()
            raise StorageError(f"the value log refused a write: {error}") from error
        except BaseException:
            self._discard()
            raise
        self._finish()
        if self._unchecked >= CHECK_BYTES or time.monotonic() >= self._next_check:
            self._look_for_room()

    def _write(self, writes: Any) -> None:
        """RocksDB takes no write after a failed one until it is reopened.

        For that it needs room: what is in its write-ahead log becomes tables. Without, it stays open for reading.
        """
        try:
            self.database.write(writes)
        except StorageError:
            self._is_stuck = True
            self._look_for_room()
            if not self.is_refusing:
                self._reopen()
            raise

    def _reopen(self) -> None:
        logger.warning("opening the database in %s anew, after a write that failed", self.directory)
        self.is_refusing = self._is_stuck = True  # unless it succeeds: a turn must not be built on a closed database
        with self._handles:
            self.database.reopen()
            self.database.flush()  # what was written and not synced may only be in a log that is not synced any more
        self._is_stuck = False
        self.is_refusing = self._sync_failure is not None

    def _finish(self) -> None:
        self.values.commit()
        for partition in self._touched:
            partition.finish()
        self._touched.clear()
        for log in self._dropped:
            self._partitions.pop(log, None)
        self._dropped.clear()
        if not self.garbage.is_empty():
            garbage, self.garbage = self.garbage, Garbage()
            self._collector.submit(garbage)

    def _discard(self) -> None:
        self.values.rollback()
        for partition in self._touched:
            partition.discard()
        self._touched.clear()
        self._dropped.clear()
        self.garbage = Garbage()

    # -- the disk --------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Called before an append while the store is refusing: raises StorageError, or finds that it can go on."""
        if self._sync_failure is not None:
            raise StorageError(self._sync_failure)
        if time.monotonic() >= self._next_check:
            self._look_for_room()
            if not self.is_refusing and self._is_stuck:
                self._reopen()
        if self.is_refusing:
            wanted = "too little to open the database anew" if self._is_stuck else f"less than {self._reserve} bytes"
            raise StorageError(f"{self.directory} has {wanted} free")

    def require_room(self) -> None:
        if self.is_refusing:
            self.check()

    def _look_for_room(self) -> None:
        self._next_check = time.monotonic() + CHECK_EVERY
        self._unchecked = 0
        wanted = self._reserve + (self.database.room_to_open() if self._is_stuck else 0)
        self.is_refusing = self._sync_failure is not None or self._free() < wanted

    def _free(self) -> int:
        status = os.statvfs(self.directory)
        return status.f_bavail * status.f_frsize

    def sync(self) -> None:
        """After a failure the kernel may have dropped what it could not write, and report success the next time: so nothing
        more is acknowledged until the operator has checked the disk and restarted the broker. The exception is a database that
        only reports that an earlier write failed for want of space: it continues when it is reopened."""
        if self._sync_failure is not None:
            raise StorageError(self._sync_failure)
        try:
            with self._handles:
                self._sync()
        except RefusedForNow:
            self.is_refusing = self._is_stuck = True
            raise
        except StorageError as error:
            self._sync_failure = (
                f"{self.directory} could not be synced ({error}): check the disk, then restart the broker"
            )
            self.is_refusing = True
            logger.exception("no more writes are taken")
            raise

    def _sync(self) -> None:
        try:
            self.values.sync()
        except OSError as error:
            raise StorageError(f"the value log could not be synced: {error}") from error
        self.database.sync()

    def wait_for_garbage(self) -> None:
        """Until the space of everything removed so far has been given back. Blocks: not for the event loop."""
        self._collector.wait()

    def checkpoint(self, directory: str) -> None:
        """Tables and finished value-log files are linked, not copied, where the file system is the same."""
        try:
            os.makedirs(directory, mode=OWNER_ALONE)
            with self._collector.lock:
                self.database.copy_to(os.path.join(directory, "db"))
                self.values.copy_to(os.path.join(directory, "values"))
        except OSError as error:
            raise StorageError(f"{self.directory} could not be copied: {error}") from error

    def size_of_copy(self, *, everything: bool) -> int:
        """Bytes that a checkpoint takes: of what is not finished yet, or of everything, on another file system."""
        values = self.values.size_of_copy(everything=everything)
        return values + (self.database.size_on_disk() if everything else 0)

    def close(self) -> None:
        """What is staged and not flushed is discarded."""
        self._discard()
        self._collector.close()
        try:
            if self._sync_failure is None:
                self.sync()
                self.database.flush()
                self.database.close()
                self._lock.end()
        finally:
            self.database.close()
            self.values.close()
            self._lock.release()
