"""Backups while the broker runs: one at a time, in a thread, under names in the directory that the operator has chosen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kompat.errors import ErrorCode, KafkaError
from kompat.log.storage.store import LogStore

if TYPE_CHECKING:
    # Imported at the first backup, so that a start does not wait for it.
    from kompat.backup.copying import Manifest
    from kompat.log.storage.rocks import RocksStore

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


class BackupExists(Exception):  # noqa: N818 - its text is the client's error message
    """There is a backup of that name already."""


class Backups:
    def __init__(self, store: LogStore, directory: str | None, facts: Callable[[], Mapping[str, Any]]) -> None:
        """`directory`: kompat.backup.dir. `facts` returns the fields of `Facts` for a backup made now."""
        self._store = store
        self._directory = Path(directory) if directory else None
        self._facts = facts
        self._turn = asyncio.Lock()

    async def create(self, name: str) -> Manifest:
        """Make a backup. Raises KafkaError if the request is invalid, BackupExists, or StorageError if it fails."""
        target = self._place(name)
        store: Any = self._store
        if not hasattr(store, "database"):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "this broker keeps everything in memory: there is nothing to copy"
            )
        async with self._turn:
            if target.exists():
                raise BackupExists(f"there is a backup {name} already")
            # All of it runs in a thread, to its end: half a copy would be of no use.
            return await asyncio.shield(asyncio.to_thread(self._write, store, target))

    def _write(self, store: RocksStore, target: Path) -> Manifest:
        from kompat.backup import copying as backup

        # The memtables are flushed first, so that the checkpoint, which holds the interpreter, has little left to do.
        store.database.flush()
        return backup.write(store, target, backup.Facts(**self._facts()))

    def _place(self, name: str) -> Path:
        if not re.fullmatch(_NAME, name):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a backup's name has letters, digits, dots, dashes and underscores"
            )
        return self._chosen() / name

    def _chosen(self) -> Path:
        if self._directory is None:
            reason = "kompat.backup.dir is not set: it says where backups may be written"
            raise KafkaError(ErrorCode.INVALID_CONFIG, reason)
        return self._directory

    async def list(self) -> list[tuple[str, Manifest]]:
        """The complete backups, by name."""
        return await asyncio.to_thread(_found, self._chosen())


def _found(directory: Path) -> list[tuple[str, Manifest]]:
    from kompat.backup import copying as backup

    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.is_dir() and not path.name.startswith(backup.PARTIAL):
            try:
                found.append((path.name, backup.read(path)))
            except backup.BackupError:
                continue  # not a backup
    return found
