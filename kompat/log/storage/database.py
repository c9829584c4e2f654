"""RocksDB as the log store uses it: its options, its errors as ours, and its reopening after the disk was full."""

import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
)

from kompat.errors import DamagedData, StorageError
from kompat.log.storage.files import size_of
from kompat.log.storage.lock import Ending

logger = logging.getLogger(__name__)

FAMILIES = ("batches", "entries", "times", "state")
MIB = 1 << 20
_HANDLES = ("db", "default", *FAMILIES)
FORMAT_FILE = "FORMAT"
_FORMAT = "kompat log store, format 1\n"

_NOT_DAMAGE = (
    "Cannot allocate memory",
    "Input/output error",
    "lock hold",
    "No space left",
    "Permission denied",
    "Read-only file system",
    "Resource temporarily unavailable",
    "Too many open files",
)

# What a sync ends with after a write that failed, and where there is no room: the disk itself is well.
_PASSING = ("previous error", "No space left", "Disk quota exceeded")

T = TypeVar("T")


class RefusedForNow(StorageError):  # noqa: N818 - it passes
    """The database takes no write until it is reopened; the disk is healthy, or full."""


class Database:
    """The handles of an open database. They are replaced by `reopen`, so no other object keeps them."""

    db: Any
    default: Any
    batches: Any
    entries: Any
    times: Any
    state: Any
    default_handle: Any
    batches_handle: Any
    entries_handle: Any
    times_handle: Any
    state_handle: Any

    def __init__(self, directory: str, ending: Ending) -> None:
        self.directory = directory
        self.is_open = False
        # Only a machine that stopped may leave a write-ahead log that is broken before its last record.
        tolerant = DBRecoveryMode.point_in_time()
        self._recovery = tolerant if ending is Ending.MACHINE else DBRecoveryMode.tolerate_corrupted_tail_records()
        os.makedirs(directory, exist_ok=True)
        is_new = self._is_new()
        if not is_new:
            self._check_format()
        if not is_new and ending in (Ending.PROCESS, Ending.MACHINE) and not self._has_write_ahead_log():
            raise _damaged(directory, "its write-ahead log is missing")
        self._open(create=is_new)
        if is_new:
            self._write_format()

    def _open(self, *, create: bool) -> None:
        try:
            options = _database_options(self._recovery, create=create)
            self.db = Rdict(self.directory, options, column_families={name: _family_options() for name in FAMILIES})
        except Exception as error:
            raise translated(error, self.directory) from error
        self.default = self.db
        self.default_handle = self.db.get_column_family_handle("default")
        for name in FAMILIES:
            setattr(self, name, self.db.get_column_family(name))
            setattr(self, f"{name}_handle", self.db.get_column_family_handle(name))
        self.is_open = True

    def __getattr__(self, name: str) -> Any:
        """Reached for handles that `close` has taken away."""
        raise StorageError(f"the database in {self.directory} is closed")

    def new_writes(self) -> Any:
        return WriteBatch(raw_mode=True)

    def write(self, writes: Any) -> None:
        try:
            self.db.write(writes)
        except Exception as error:
            raise StorageError(f"the database refused a write: {error}") from error

    def sync(self) -> None:
        try:
            self.db.flush_wal(True)
        except Exception as error:
            is_passing = not self.is_open or any(reason in str(error) for reason in _PASSING)
            kind = RefusedForNow if is_passing else StorageError
            raise kind(f"the database could not be synced: {error}") from error

    def read(self, fn: Callable[..., T], *args: object) -> T:
        """Call a read of this database; a damaged block is reported as such."""
        try:
            return fn(*args)
        except Exception as error:
            raise translated(error, self.directory) from error

    def warm_up(self, key: bytes) -> None:
        """Get the block around a batch's key into the cache. Unlike a search, this waits for the disk without the interpreter."""
        self.read(self.batches.get, [key])

    def checked(self, iterator: Any) -> None:
        """An iterator also ends where it meets a damaged block: raise where that is so."""
        self.read(iterator.status)

    def copy_to(self, directory: str) -> None:
        try:
            Checkpoint(self.db).create_checkpoint(directory)
        except Exception as error:
            raise StorageError(f"the database could not be copied: {error}") from error

    def families(self) -> tuple[str, ...]:
        return FAMILIES

    def int_property(self, name: str, family: str = "default") -> int:
        """One of RocksDB's integer properties; 0 where it does not have it, or is closed."""
        if not self.is_open:
            return 0
        value: int | None = getattr(self, family).property_int_value(f"rocksdb.{name}")
        if value is None:
            text = getattr(self, family).property_value(f"rocksdb.{name}")
            value = int(text) if text else 0
        return value

    def flush(self) -> None:
        """Empty the memtables, so that the next start has nothing to replay."""
        try:
            for name in ("default", *FAMILIES):
                getattr(self, name).flush()
        except Exception as error:
            raise StorageError(f"the database could not be flushed: {error}") from error

    def size_on_disk(self) -> int:
        return sum(size_of(os.path.join(self.directory, name)) for name in os.listdir(self.directory))

    def room_to_open(self) -> int:
        """What opening may write: tables from the write-ahead logs, and some."""
        with os.scandir(self.directory) as files:
            return 16 * MIB + sum(file.stat().st_size for file in files if file.name.endswith(".log"))

    def reopen(self) -> None:
        """After a failed write RocksDB takes no more until it is reopened. Readers' iterators may hold it a moment longer."""
        self.close()
        self._open(create=False)

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        for name in (*FAMILIES, "db"):
            try:
                getattr(self, name).close()
            except Exception as error:  # noqa: BLE001 - after a failed write it also complains here, and closes
                logger.debug("closing %s: %s", name, error)
        for attribute in [name for name in vars(self) if name.endswith("_handle") or name in _HANDLES]:
            delattr(self, attribute)

    def _is_new(self) -> bool:
        """Whether the database is to be made. One that has lost its CURRENT file must not be taken for a new one."""
        if os.path.exists(self._format_path):
            return False
        left = [name for name in os.listdir(self.directory) if name.endswith(".sst") or name.startswith("MANIFEST")]
        if left and not os.path.exists(os.path.join(self.directory, "CURRENT")):
            raise _damaged(self.directory, "CURRENT is missing")
        return True

    def _check_format(self) -> None:
        """What another version has written is left alone: it may mean something else by it."""
        with open(self._format_path, encoding="utf-8", errors="replace") as file:
            found = file.read()
        if found != _FORMAT:
            stored, known = found.strip(), _FORMAT.strip()
            raise StorageError(f"{self.directory} has the format {stored!r}, and this kompat knows {known!r} only")

    def _has_write_ahead_log(self) -> bool:
        """RocksDB opens without one, too, and forgets what was in it."""
        return any(name.endswith(".log") for name in os.listdir(self.directory))

    def _write_format(self) -> None:
        with open(self._format_path, "w", encoding="ascii") as file:
            file.write(_FORMAT)
            file.flush()
            os.fsync(file.fileno())

    @property
    def _format_path(self) -> str:
        return os.path.join(self.directory, FORMAT_FILE)


def translated(error: Exception, directory: str) -> Exception:
    """RocksDB's errors all come as Exception: only the text distinguishes them."""
    if isinstance(error, StorageError | DamagedData):
        return error
    text = str(error)
    if isinstance(error, DbClosedError) or any(reason in text for reason in _NOT_DAMAGE):
        return StorageError(f"{directory}: {text}")
    return _damaged(directory, text)


def _damaged(directory: str, found: str) -> DamagedData:
    return DamagedData(
        f"the database in {directory} is damaged: {found.rstrip('. ')}. Nothing was changed. Restore the data directory from a copy, "
        "or move it away to start empty"
    )


def _database_options(recovery: DBRecoveryMode, *, create: bool) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    options.set_wal_recovery_mode(recovery)
    options.set_paranoid_checks(True)
    options.set_db_write_buffer_size(32 * MIB)  # of all families together
    options.set_max_total_wal_size(64 * MIB)  # bounds what a start replays
    options.set_max_open_files(256)
    options.set_max_background_jobs(2)
    options.set_bytes_per_sync(MIB)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    _add_family_options(options)
    return options


def _family_options() -> Options:
    options = Options(raw_mode=True)
    _add_family_options(options)
    return options


_CACHE = Cache(16 * MIB)


def _add_family_options(options: Options) -> None:
    table = BlockBasedOptions()
    table.set_block_cache(_CACHE)
    table.set_block_size(16 << 10)
    table.set_cache_index_and_filter_blocks(True)  # else they grow with the data, outside any bound
    table.set_format_version(5)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())  # producers compress
    options.set_write_buffer_size(16 * MIB)
    options.set_max_write_buffer_number(3)
    options.set_level_compaction_dynamic_level_bytes(True)
    # A stalled write would hold the interpreter, and with it the whole broker: let compaction fall behind instead.
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(256)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_hard_pending_compaction_bytes_limit(0)
