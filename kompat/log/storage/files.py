"""Open files, bounded: 10,000 partitions have more value-log files than a process may hold open."""

import os
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from kompat.types import Buffer

_IOV_MAX = os.sysconf("SC_IOV_MAX")


class OpenFile:
    """A descriptor and who uses it."""

    __slots__ = ("fd", "is_forgotten", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0
        self.is_forgotten = False


class OpenFiles:
    """Descriptors by path, the least recently used closed first, none while it is in use. Safe in any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = Lock()

    def acquire(self, path: str) -> OpenFile:
        """Its descriptor stays good until `release`, even if the file is removed meanwhile."""
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                file.users += 1
                return file
        return self._add(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), users=1)

    def release(self, file: OpenFile) -> None:
        with self._lock:
            file.users -= 1
            if file.is_forgotten and not file.users:
                os.close(file.fd)

    def create(self, path: str) -> None:
        """Make the file, and its directory."""
        while True:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:  # again where an empty directory is just being removed
                os.makedirs(os.path.dirname(path), exist_ok=True)
            else:
                self._add(path, fd)
                return

    def forget(self, path: str) -> None:
        with self._lock:
            file = self._files.pop(path, None)
            if file is not None:
                self._close_when_unused(file)

    def close(self) -> None:
        for path in list(self._files):
            self.forget(path)

    def __len__(self) -> int:
        return len(self._files)

    def _add(self, path: str, fd: int, users: int = 0) -> OpenFile:
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = OpenFile(fd)
            else:
                os.close(fd)  # another thread was faster
            file.users += users
            while len(self._files) > self._limit:
                self._close_when_unused(self._files.popitem(last=False)[1])
            return file

    def _close_when_unused(self, file: OpenFile) -> None:
        file.is_forgotten = True
        if not file.users:
            os.close(file.fd)


def write_all(fd: int, buffers: Sequence[Buffer], size: int, place: int) -> None:
    """Write the buffers, `size` bytes in all, one after the other at `place`, without joining them."""
    if len(buffers) > _IOV_MAX:
        for start in range(0, len(buffers), _IOV_MAX):
            chunk = buffers[start : start + _IOV_MAX]
            chunk_size = sum(map(len, chunk))
            write_all(fd, chunk, chunk_size, place)
            place += chunk_size
        return
    written = os.pwritev(fd, buffers, place)
    if written != size:  # a full disk takes what fits; the next write fails with the reason
        _write_rest(fd, b"".join(buffers)[written:], place + written)


def _write_rest(fd: int, rest: bytes, place: int) -> None:
    while rest:
        written = os.pwrite(fd, rest, place)
        if not written:
            raise OSError("the disk takes no more")
        rest = rest[written:]
        place += written


def size_of(path: str) -> int:
    """0 where it has been removed meanwhile."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
