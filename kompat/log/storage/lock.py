"""Who works in a data directory, and how the one before left it."""

import fcntl
import os
from enum import Enum

from kompat.errors import StorageError

RUNNING = "running"  # the note that one works here
OWNER_ALONE = 0o700  # only the owner may read a data directory or a copy of one: records are private
RESTORED = "restored from a backup\n"  # in its place

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Ending(Enum):
    """How the last broker in this directory ended."""

    CLEAN = "closed"
    PROCESS = "killed"  # what it wrote is in the system's page cache
    MACHINE = "machine lost power"  # what was not synced may be lost in part and out of order
    RESTORED = "restored"  # whole, but of some time ago: what came later is lost


class DirectoryLock:
    """Keeps a second broker out, also one of the same process; the system releases it when the process ends."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        os.makedirs(directory, mode=OWNER_ALONE, exist_ok=True)
        self._fd = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 100, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise StorageError(f"{directory} is in use by another broker (process {holder})") from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def begin(self) -> Ending:
        """Return how the last broker ended, and mark the directory as in use.

        The mark stays until a clean end: after the machine stopped, the next start sees that even if this one fails.
        """
        boot_id = _boot_id()
        try:
            with open(self._marker, encoding="ascii") as file:
                return _ending(file.read(), boot_id)
        except FileNotFoundError:
            pass
        with open(self._marker, "w", encoding="ascii") as file:
            file.write(boot_id)
            file.flush()
            os.fsync(file.fileno())
        return Ending.CLEAN

    def end(self) -> None:
        """Everything is synced and closed."""
        os.unlink(self._marker)

    def release(self) -> None:
        os.close(self._fd)

    @property
    def _marker(self) -> str:
        return os.path.join(self._directory, RUNNING)


def _ending(note: str, boot_id: str) -> Ending:
    if note == RESTORED:
        return Ending.RESTORED
    return Ending.PROCESS if boot_id and note == boot_id else Ending.MACHINE


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
