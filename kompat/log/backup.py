"""Copies of a broker's data, made while it works, and how they become a data directory again.

    BACKUP/backup.json   what it is of, and which files belong to it; it is written last
    BACKUP/db, values    as in a data directory (rocks.py)

All that was acknowledged before the copy began is in it: the database is copied first, and then the value log, in which
everything is that the database points to. A copy becomes visible under its name when it is whole and on the disk.
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
from kompat.log.database import FORMAT_FILE, MIB, Database
from kompat.log.files import sync_directory
from kompat.log.lock import OWNER_ALONE, RESTORED, RUNNING, Ending
from kompat.log.raft_states import HARD, Hard
from kompat.log.rocks import RocksStore
from kompat.log.valuelog import sync_file_system

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
PARTIAL: Final = ".partial-"
# A restored broker has forgotten whom it has voted for. No term from before may be voted in again: with others who have
# not forgotten, it would have two leaders.
TERMS_PASSED: Final = 1_000


class BackupError(StorageError):
    """A backup that cannot be made, or be used. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a backup is of."""

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
    """Blocks: not for the event loop. Raises StorageError; then there is nothing under `target`."""
    partial = target.with_name(f"{PARTIAL}{target.name}")
    if target.exists():
        raise BackupError(f"{target} is there already")
    _remove(partial)  # what a broker that was killed left
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
    """The disk that the broker works on must not fill up because of a copy."""
    is_elsewhere = directory.stat().st_dev != os.stat(store.directory).st_dev
    needed = store.size_of_copy(everything=is_elsewhere) + store.reserve_bytes + 16 * MIB
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
    """Raises BackupError where it is no backup."""
    try:
        told = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if told.pop("format") != FORMAT:
            raise BackupError(f"{directory} was made by another kompat: its format is not {FORMAT}")
        return Manifest(**told)
    except OSError as error:
        raise BackupError(f"{directory} is no backup: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackupError(f"{directory / MANIFEST} cannot be read: {error}") from error


def check(directory: Path) -> Manifest:
    """Its manifest, if all files are there and as long as they were. Raises BackupError."""
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
    """Make a data directory of it. Raises BackupError; then there is nothing under `target` that was not there before."""
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
            shutil.copyfile(source / name, path)  # no link: the broker will write to it
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
