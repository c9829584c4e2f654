"""The doctor's checks of a data directory. Nothing in it changes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kompat.cli.command import CommandError
from kompat.cli.data_dir import DataDirectory, Found, holder
from kompat.cli.findings import Finding, Level, fine, warning, wrong
from kompat.cli.output import size_text, time_text
from kompat.cli.progress import Progress
from kompat.errors import DamagedData

FORMAT: Final = "kompat log store, format 1"
RESERVE: Final = 64 << 20  # the default of kompat.disk.reserve.bytes
COMFORT: Final = 1 << 30
ENOUGH_FILES: Final = 4096
DAY_MS: Final = 86_400_000
OLDEST_CLOCK_MS: Final = 1_735_689_600_000  # 2025: an earlier clock was never set
MOST_NAMED: Final = 5
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def examine(directory: str) -> Iterator[Finding]:
    """Findings in the order in which to fix them."""
    path = Path(directory)
    if not path.is_dir():
        yield wrong("directory", f"{directory} does not exist", "give the directory of --data (log.dirs)")
        return
    access = _access(path)
    yield access
    if "is not readable" in access.found:
        return  # only its owner can check the rest
    yield from _disk(path)
    yield from _file_limit()
    yield _clock()
    if not (path / "db").is_dir():
        yield wrong(
            "database", "it has no db directory", "this is not a data directory of kompat, or its database was removed"
        )
        return
    yield _format(path)
    process = holder(directory)
    if process is not None:
        yield fine("lock", f"a broker uses it (process {process})")
        yield warning(
            "contents",
            "the data cannot be checked while a broker uses it",
            "stop the broker, or check a copy; `kompat doctor` without a directory checks the running broker",
        )
        return
    yield fine("lock", "no broker uses it")
    ending = _ending(path)
    yield ending
    yield from _write_ahead_log(path)
    yield from _contents(directory, is_strict=ending.level is Level.FINE)


# -- the environment ---------------------------------------------------------------------------------------------------
def _access(path: Path) -> Finding:
    """Check access to what a broker opens first. A directory without access hides what is in it, so the checks end there."""
    known = [path, path / "db", path / "values", path / "lock", path / "db" / "FORMAT"]
    there = [each for each in known if os.path.lexists(each)]
    for mode, word in ((os.R_OK, "readable"), (os.W_OK, "writable")):
        for each in there:
            if not os.access(each, mode | os.X_OK if each.is_dir() else mode):
                return wrong("permissions", f"{each} is not {word} by this user", _own(path))
    return fine("permissions", "it is writable by this user")


def _own(path: Path) -> str:
    return f"run as its owner, or chown -R USER {path}"


def _disk(path: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(path)
    yield room("", usage.free, usage.total)
    nodes = os.statvfs(path)
    if nodes.f_files and nodes.f_favail * 100 < nodes.f_files:
        yield warning(
            "inodes", f"{nodes.f_favail} of {nodes.f_files} free", "every segment is a file: remove other small files"
        )


def room(whose: str, free: int, total: int, reserve: int = RESERVE) -> Finding:
    space = f"{whose}{size_text(free)} of {size_text(total)} free"
    if free < reserve:
        limit = f"below kompat.disk.reserve.bytes ({size_text(reserve)}) writes are refused"
        return wrong("disk", space, f"{limit}: free some space, or shorten the retention")
    if free < COMFORT:
        return warning("disk", space, "free some space soon, or shorten the retention")
    return fine("disk", space)


def _file_limit() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < ENOUGH_FILES:
        yield warning(
            "open files", f"at most {most}", f"raise the hard limit (ulimit -Hn, LimitNOFILE) to {ENOUGH_FILES} or more"
        )
    else:
        yield fine("open files", "unlimited" if most == resource.RLIM_INFINITY else f"up to {most}")


def _clock() -> Finding:
    now = time.time_ns() // 1_000_000
    if now < OLDEST_CLOCK_MS:
        return wrong("clock", f"it is {time_text(now)}", "set the clock: retention and delays depend on it")
    return fine("clock", f"it is {time_text(now)}")


# -- the data ----------------------------------------------------------------------------------------------------------
def _format(path: Path) -> Finding:
    try:
        found = (path / "db" / "FORMAT").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return warning(
            "format", "there is no FORMAT file", "an interrupted first start leaves none; the next start writes it"
        )
    except (OSError, UnicodeDecodeError) as error:
        return wrong("format", f"FORMAT cannot be read: {error}", "restore the directory from a backup")
    if found != FORMAT:
        return wrong("format", f"it is {found!r}", "another version of kompat wrote it: use that version")
    return fine("format", found)


def _ending(path: Path) -> Finding:
    try:
        left = (path / "running").read_text(encoding="ascii")
    except FileNotFoundError:
        return fine("last shutdown", "the broker was shut down cleanly")
    try:
        is_same_boot = left == BOOT_ID.read_text(encoding="ascii")
    except OSError:
        is_same_boot = False
    if is_same_boot:
        return fine("last shutdown", "the broker was killed; no acknowledged record is lost")
    return warning(
        "last shutdown",
        "the machine stopped while a broker was running, or this is a copy from another machine",
        "the next start checks the ends of all logs; data that was not flushed to the disk may be lost (kompat.fsync)",
    )


def _write_ahead_log(path: Path) -> Iterator[Finding]:
    names = os.listdir(path / "db")
    if "CURRENT" not in names:
        yield wrong("database", "CURRENT is missing", "restore the directory from a backup")
    elif (path / "running").exists() and not any(name.endswith(".log") for name in names):
        yield wrong(
            "database",
            "its write-ahead log is missing",
            "the last writes are lost: restore the directory from a backup",
        )


def _contents(directory: str, *, is_strict: bool) -> Iterator[Finding]:
    try:
        with DataDirectory(directory, is_strict=is_strict) as data:
            yield _keys(data)
            yield from _logs(data)
    except CommandError as error:
        is_closed = "Permission denied" in str(error)
        yield wrong(
            "database", str(error), _own(Path(directory)) if is_closed else "restore the directory from a backup"
        )


def _keys(data: DataDirectory) -> Finding:
    try:
        with Progress("reading keys") as progress:
            for count in data.read_all():
                progress.to(count)
    except CommandError as error:
        return wrong("database", str(error), "restore the directory from a backup")
    return fine("database", f"it can be opened, and all of its {count} keys are readable")


def _logs(data: DataDirectory) -> Iterator[Finding]:
    """Check that all batches of all partitions are complete, in order, and match their checksums."""
    partitions = data.partitions()
    batches = size = newest = 0
    faults: list[str] = []
    with Progress("checking", len(partitions)) as progress:
        for named in partitions:
            end = -1
            for batch in data.batches(named.log):
                batches, size = batches + 1, size + batch.head.size
                newest = max(newest, batch.head.max_timestamp)
                if batch.fault is not None:
                    faults.append(f"{named} at offset {_span(batch)}: {batch.fault}")
                elif batch.base_offset <= end:
                    faults.append(f"{named} at offset {batch.base_offset}: it overlaps the batch before it")
                end = batch.head.last_offset
            try:
                data.checkpoint(named.log)
            except DamagedData as error:
                faults.append(f"{named}: {error}")
            progress.add()
    yield from _damaged(faults)
    if not faults:
        yield fine("records", f"{batches} batches of {len(partitions)} partitions are intact ({size_text(size)})")
    yield _newest(newest)


def _span(batch: Found) -> str:
    first, last = batch.base_offset, batch.head.last_offset
    return f"{first}" if first == last else f"{first} to {last}"


def _damaged(faults: list[str]) -> Iterator[Finding]:
    advice = (
        "restore the directory from a backup, or reassign the partition so that it is copied from its other replicas"
    )
    for each in faults[:MOST_NAMED]:
        yield wrong("damage", each, advice)
    if len(faults) > MOST_NAMED:
        yield wrong("damage", f"{len(faults) - MOST_NAMED} more batches", advice)


def _newest(timestamp: int) -> Finding:
    """Timestamps in the future keep retention from deleting records, and are a sign of wrong clocks."""
    now = time.time_ns() // 1_000_000
    if timestamp > now + DAY_MS:
        return warning(
            "timestamps",
            f"the newest record is of {time_text(timestamp)}",
            "a clock may have been wrong; retention keeps such records longer",
        )
    return fine(
        "timestamps", f"the newest record is of {time_text(timestamp)}" if timestamp else "there are no records"
    )
