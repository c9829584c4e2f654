"""Copies of a broker's data, made while it runs, and how they become a data directory again.

    BACKUP/backup.json   the manifest: the broker and the files of the backup; it is written last
    BACKUP/db, values    as in a data directory (rocks.py)

A copy has all that was acknowledged before it began: the database is copied first, and then the value log, which has
everything that the database points to. A copy gets its name when it is complete and on the disk.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kompat.errors import StorageError
from kompat.log.storage.database import FORMAT_FILE, MIB, Database
from kompat.log.storage.files import sync_directory
from kompat.log.storage.lock import OWNER_ALONE, RESTORED, RUNNING, Ending
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.valuelog import sync_file_system
from kompat.raft.states import HARD, Hard

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
PARTIAL: Final = ".partial-"
# A restored broker has lost its Raft votes. It must not vote again in a term of before: together with brokers that have
# not lost theirs, it could elect a second leader of that term.
TERMS_PASSED: Final = 1_000


class BackupError(StorageError):
    """A backup cannot be made, or cannot be used. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The broker that a backup is of."""

    version: str
    node_id: int
    cluster_id: str
    created: int  # milliseconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Facts):
    files: dict[str, int]  # paths and sizes

    @property
    def size(self) -> int:
        return sum(self.files.values())


# -- making ------------------------------------------------------------------------------------------------------------
def write(store: RocksStore, target: Path, facts: Facts) -> Manifest:
    """Write a backup to `target`. Blocks: not for the event loop. Raises StorageError; then `target` does not exist."""
    partial = target.with_name(f"{PARTIAL}{target.name}")
    if target.exists():
        raise BackupError(f"{target} is there already")
    _remove(partial)  # left by a broker that was killed
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _require_room(store, target.parent)
        store.checkpoint(str(partial))
        shutil.copyfile(Path(store.directory, "db", FORMAT_FILE), partial / "db" / FORMAT_FILE)
        manifest = Manifest(**asdict(facts), files=dict(_files(partial)))
        (partial / MANIFEST).write_text(json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1), encoding="utf-8")
        sync_file_system(str(partial))
        partial.rename(target)
        sync_directory(str(target.parent))
    except OSError as error:
        _remove(partial)
        raise BackupError(f"{target} could not be written: {error}") from error
    except BaseException:
        _remove(partial)
        raise
    return manifest


def _require_room(store: RocksStore, directory: Path) -> None:
    """A copy must not fill up the broker's disk."""
    is_other_device = directory.stat().st_dev != os.stat(store.directory).st_dev
    needed = store.size_of_copy(everything=is_other_device) + store.reserve_bytes + 16 * MIB
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    if free < needed:
        raise BackupError(f"{directory} has {free} bytes free, and {needed} are needed")


def _files(directory: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(directory)), path.stat().st_size


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


# -- using -------------------------------------------------------------------------------------------------------------
def read(directory: Path) -> Manifest:
    """The manifest. Raises BackupError if the directory is not a backup."""
    try:
        fields = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if fields.pop("format") != FORMAT:
            raise BackupError(f"{directory} was made by another kompat: its format is not {FORMAT}")
        return Manifest(**fields)
    except OSError as error:
        raise BackupError(f"{directory} is no backup: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackupError(f"{directory / MANIFEST} cannot be read: {error}") from error


def check(directory: Path) -> Manifest:
    """The manifest, if all files are there with the sizes in it. Raises BackupError."""
    manifest = read(directory)
    found = dict(_files(directory))
    found.pop(MANIFEST, None)
    wrong = [name for name, size in manifest.files.items() if found.get(name) != size]
    if wrong:
        raise BackupError(
            f"{directory} is not whole: {wrong[0]} is missing or has another size ({len(wrong)} such files)"
        )
    return manifest


def restore(source: Path, target: Path) -> Manifest:
    """Make a data directory of a backup. Raises BackupError; then `target` is as before."""
    manifest = check(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} is not empty: restore to a directory of its own, and move it then")
    partial = target.with_name(f"{PARTIAL}{target.name}")
    _remove(partial)
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=OWNER_ALONE)
        for name in manifest.files:
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, path)  # not a link, because the broker will write to it
        (partial / "values").mkdir(exist_ok=True)
        _pass_terms(partial / "db")
        (partial / RUNNING).write_text(RESTORED, encoding="ascii")
        sync_file_system(str(partial))
        if target.exists():
            target.rmdir()
        partial.rename(target)
        sync_directory(str(target.absolute().parent))
    except OSError as error:
        _remove(partial)
        raise BackupError(f"{target} could not be written: {error}") from error
    except BaseException:
        _remove(partial)
        raise
    return manifest


def _pass_terms(directory: Path) -> None:
    database = Database(str(directory), Ending.CLEAN)
    try:
        writes = database.new_writes()
        iterator = database.state.iter()
        iterator.seek_to_first()
        while iterator.valid():
            key = iterator.key()
            if key.endswith(b"s" + HARD):
                hard = Hard.decode(iterator.value())
                passed = hard._replace(term=hard.term + TERMS_PASSED, vote=0)
                writes.put(key, passed.encode(), database.state_handle)
            iterator.next()
        database.checked(iterator)
        del iterator
        database.write(writes)
        database.flush()
    finally:
        database.close()
