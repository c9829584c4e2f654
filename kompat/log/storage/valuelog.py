"""The value log: large batches, appended to files, one file per partition and segment.

A file is written only at its end and no place in it is ever used twice, so a reader that knows where a batch lies finds
that batch or finds no file. Files are named by segment and number: the cleaner gives a segment a second file beside the
first, and a number is not used again while a reader may still look for its old file. The bytes are written before the database learns where they lie.
"""

import ctypes
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from errno import EIO
from struct import Struct
from threading import Lock

from kompat import _native
from kompat.log.storage.files import OpenFiles, size_of, sync_directory, write_all
from kompat.types import Buffer, LogId

logger = logging.getLogger(__name__)

SYNC_ALL_FROM = 8  # this many files or more are synced with their whole file system: one journal commit instead of many
_libc = ctypes.CDLL(None, use_errno=True)
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has neither it nor syncfs
_batch_start = Struct(">qi").unpack_from  # a record batch begins with its base offset and the length of the rest
_BATCH_START_SIZE = 12


class MissingBytes(Exception):  # noqa: N818 - it names what was found
    """A batch is not where the database points, or not what was written. It may have been removed since: look again."""

    def __init__(self, message: str, base_offset: int | None) -> None:
        super().__init__(message)
        self.base_offset = base_offset  # of the first such batch; None: it is one of the requested batches


@dataclass(slots=True, eq=False)
class ValueFile:
    """A file that is being appended to."""

    path: str
    segment: int
    number: int
    end: int  # of what is written and pointed to
    is_new: bool
    staged: list[Buffer] = field(default_factory=list)
    staged_size: int = 0


@dataclass(slots=True)
class Stretch:
    """Neighbouring batches of one file, to be read in one go."""

    path: str
    place: int
    size: int
    batches: list[tuple[int, int]]  # base offset and size of each


class ValueLog:
    def __init__(self, directory: str, max_open_files: int) -> None:
        self.directory = directory
        self.files = OpenFiles(max_open_files)
        self._written_to: list[ValueFile] = []  # in this turn
        self._last_number = 0
        self._lock = Lock()  # of what is not synced yet
        self._unsynced: set[str] = set()
        self._unsynced_directories: set[str] = set()
        os.makedirs(directory, exist_ok=True)

    # -- names -----------------------------------------------------------------------------------------------------
    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def names(self, log: LogId) -> list[tuple[int, int, str]]:
        """The segment, number and name of every file of the log, in order."""
        try:
            files = os.listdir(self.path(str(log)))
        except FileNotFoundError:
            return []
        return sorted((*_parse(file), f"{log}/{file}") for file in files)

    def logs(self) -> Iterator[str]:
        """The names of logs that have files."""
        return iter(os.listdir(self.directory))

    # -- writes: by the event loop's thread ------------------------------------------------------------------------
    def reopened(self, segment: int, number: int, name: str) -> ValueFile:
        """A file to go on with after a restart: only ever a log's last.

        Bytes behind the last batch, which a crash left, stay there: nothing points to them.
        """
        path = self.path(name)
        return ValueFile(path, segment, number, os.stat(path).st_size, is_new=False)

    def new_file(self, log: LogId, segment: int, highest: int) -> ValueFile:
        """It appears with the turn's flush. No other file of the log has its number, nor had since the broker started."""
        number = self._last_number = max(self._last_number, highest) + 1
        return ValueFile(self.path(file_name(log, segment, number)), segment, number, 0, is_new=True)

    def stage(self, file: ValueFile, batch: Buffer) -> int:
        """Write the batch with this turn; returns its place in the file."""
        if not file.staged:
            self._written_to.append(file)
        place = file.end + file.staged_size
        file.staged.append(batch)
        file.staged_size += len(batch)
        return place

    @property
    def staged_bytes(self) -> int:
        return sum(file.staged_size for file in self._written_to)

    def unstage(self, file: ValueFile) -> None:
        """The file is to be removed by this same turn."""
        if file.staged:
            self._written_to.remove(file)
            file.staged = []
            file.staged_size = 0

    def write(self) -> None:
        """Write what is staged. Raises OSError; then call `rollback`."""
        for file in self._written_to:
            if file.is_new:
                self.files.create(file.path)
            opened = self.files.acquire(file.path)
            try:
                write_all(opened.fd, file.staged, file.staged_size, file.end)
            finally:
                self.files.release(opened)

    def commit(self) -> None:
        """The database has references to what was written."""
        if not self._written_to:
            return
        with self._lock:
            for file in self._written_to:
                self._unsynced.add(file.path)
                if file.is_new:
                    self._unsynced_directories.add(os.path.dirname(file.path))
        for file in self._written_to:
            file.end += file.staged_size
            file.is_new = False
            file.staged = []
            file.staged_size = 0
        self._written_to.clear()

    def rollback(self) -> None:
        """What was written will never have a reference: free the space."""
        for file in self._written_to:
            try:
                if file.is_new:
                    self.files.forget(file.path)
                    os.unlink(file.path)
                else:
                    os.truncate(file.path, file.end)
            except OSError as error:  # harmless: the next write goes over it
                logger.debug("could not take back %s: %s", file.path, error)
            file.staged = []
            file.staged_size = 0
        self._written_to.clear()

    # -- in any thread ---------------------------------------------------------------------------------------------
    def read(self, stretch: Stretch) -> bytes:
        """Raises MissingBytes where the file does not hold these batches as they were written, OSError where it cannot be read."""
        try:
            opened = self.files.acquire(stretch.path)
        except FileNotFoundError as error:
            raise MissingBytes(f"{stretch.path} is gone", stretch.batches[0][0]) from error
        try:
            content = os.pread(opened.fd, stretch.size, stretch.place)
            while len(content) < stretch.size:  # one call reads 2 GiB at most
                more = os.pread(opened.fd, stretch.size - len(content), stretch.place + len(content))
                if not more:
                    break
                content += more
        except OSError as error:
            if error.errno != EIO:
                raise
            raise MissingBytes(f"{stretch.path} cannot be read at {stretch.place}: {error}", None) from error
        finally:
            self.files.release(opened)
        _check(stretch, content)
        return content

    def sync(self) -> None:
        """Raises OSError; what was not synced is tried again the next time."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, set()
            directories, self._unsynced_directories = self._unsynced_directories, set()
        try:
            self._sync(unsynced, directories)
        except OSError:
            with self._lock:
                self._unsynced |= unsynced
                self._unsynced_directories |= directories
            raise

    def _sync(self, paths: set[str], directories: set[str]) -> None:
        if len(paths) + len(directories) >= SYNC_ALL_FROM and hasattr(_libc, "syncfs"):
            sync_file_system(self.directory)
            return
        for path in paths:
            self.sync_file(path)
        for directory in directories:
            if os.path.isdir(directory):
                sync_directory(directory)
        if directories:
            sync_directory(self.directory)

    def sync_files(self, paths: set[str]) -> None:
        """These, and that they are where they are."""
        self._sync(paths, {os.path.dirname(path) for path in paths})

    def sync_file(self, path: str) -> None:
        try:
            opened = self.files.acquire(path)
        except FileNotFoundError:  # removed since
            return
        try:
            _sync_data(opened.fd)
        finally:
            self.files.release(opened)

    def remove(self, names: Iterable[str]) -> None:
        """Unlink files, and directories where they are empty."""
        for name in names:
            path = self.path(name)
            self.files.forget(path)
            try:
                os.unlink(path) if "/" in name else os.rmdir(path)
            except OSError as error:
                logger.debug("not removed: %s", error)  # gone already, or in use again

    def copy_to(self, directory: str) -> None:
        """Link every file but each log's last, which may still grow: that is copied."""
        os.makedirs(directory)
        for log in self.logs():
            os.mkdir(os.path.join(directory, log))
            files = sorted(os.listdir(self.path(log)), key=_parse)
            for file in files:
                source, target = self.path(f"{log}/{file}"), os.path.join(directory, log, file)
                if file == files[-1]:
                    shutil.copyfile(source, target)
                else:
                    _link(source, target)

    def size_of_copy(self, *, everything: bool) -> int:
        """Bytes that `copy_to` copies; those of all files, where none can be linked."""
        size = 0
        for log in self.logs():
            files = sorted(os.listdir(self.path(log)), key=_parse)
            size += sum(size_of(self.path(f"{log}/{file}")) for file in (files if everything else files[-1:]))
        return size

    def close(self) -> None:
        self.files.close()


def file_name(log: LogId, segment: int, number: int) -> str:
    return f"{log}/{segment:020d}.{number:x}"


def _parse(file: str) -> tuple[int, int]:
    segment, _, number = file.partition(".")
    return int(segment), int(number, 16)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one that has no links
        shutil.copyfile(source, target)


def _check(stretch: Stretch, content: bytes) -> None:
    """On every read: a checksum takes a twentieth of a millisecond for a megabyte, and disks lose data silently."""
    place, whole = 0, _native.whole_batches(content)
    for base_offset, size in stretch.batches:
        where = f"{stretch.path} at {stretch.place + place}"
        if place + size > len(content):
            raise MissingBytes(f"{where}: the file ends before the end of batch {base_offset}", base_offset)
        if _batch_start(content, place) != (base_offset, size - _BATCH_START_SIZE):
            raise MissingBytes(f"{where}: there is no batch {base_offset}", base_offset)
        if place + size > whole:
            raise MissingBytes(f"{where}: the checksum of batch {base_offset} is wrong", base_offset)
        place += size


def sync_file_system(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(fd):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), directory)
    finally:
        os.close(fd)
