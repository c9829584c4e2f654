"""The doctor's look at a data directory. Nothing in it changes."""

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
RESERVE: Final = 64 << 20  # kompat.disk.reserve.bytes by default
COMFORT: Final = 1 << 30
ENOUGH_FILES: Final = 4096
DAY_MS: Final = 86_400_000
OLDEST_CLOCK_MS: Final = 1_735_689_600_000  # 2025: a clock before that was never set
TOLD: Final = 5
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def examine(directory: str) -> Iterator[Finding]:
    """In the order in which it makes sense to mend things."""
    path = Path(directory)
    if not path.is_dir():
        yield wrong("directory", f"{directory} is not there", "give the directory that --data (log.dirs) names")
        return
    access = _access(path)
    yield access
    if "cannot be read" in access.found:
        return  # what else is wrong, its owner can tell
    yield from _disk(path)
    yield from _file_limit()
    yield _clock()
    if not (path / "db").is_dir():
        yield wrong(
            "database", "there is no db in it", "that is no data directory of kompat, or it has lost its database"
        )
        return
    yield _format(path)
    process = holder(directory)
    if process is not None:
        yield fine("lock", f"a broker works here (process {process})")
        yield warning(
            "contents",
            "they cannot be checked while it does",
            "stop it, or check a copy; `kompat doctor` without a directory looks at the running broker",
        )
        return
    yield fine("lock", "no broker works here")
    ending = _ending(path)
    yield ending
    yield from _write_ahead_log(path)
    yield from _contents(directory, is_strict=ending.level is Level.FINE)


# -- around it ---------------------------------------------------------------------------------------------------------
def _access(path: Path) -> Finding:
    """Of what a broker opens first. What lies in a directory that cannot be entered is not even looked for."""
    known = [path, path / "db", path / "values", path / "lock", path / "db" / "FORMAT"]
    there = [each for each in known if os.path.lexists(each)]
    for mode, word in ((os.R_OK, "read"), (os.W_OK, "written")):
        for each in there:
            if not os.access(each, mode | os.X_OK if each.is_dir() else mode):
                return wrong("permissions", f"{each} cannot be {word} by this user", _own(path))
    return fine("permissions", "it can be written by this user")


def _own(path: Path) -> str:
    return f"run as its owner, or chown -R USER {path}"


def _disk(path: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(path)
    yield room("", usage.free, usage.total)
    nodes = os.statvfs(path)
    if nodes.f_files and nodes.f_favail * 100 < nodes.f_files:
        yield warning("inodes", f"{nodes.f_favail} of {nodes.f_files} free", "a segment is a file: remove small files")


def room(whose: str, free: int, total: int, reserve: int = RESERVE) -> Finding:
    told = f"{whose}{size_text(free)} of {size_text(total)} free"
    if free < reserve:
        limit = f"below kompat.disk.reserve.bytes ({size_text(reserve)}) writes are refused"
        return wrong("disk", told, f"{limit}: make room, or shorten retention")
    if free < COMFORT:
        return warning("disk", told, "make room soon, or shorten retention")
    return fine("disk", told)


def _file_limit() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
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
        return wrong("clock", f"it is {time_text(now)}", "set the clock: retention and delays go by it")
    return fine("clock", f"it is {time_text(now)}")


# -- in it -------------------------------------------------------------------------------------------------------------
def _format(path: Path) -> Finding:
    try:
        found = (path / "db" / "FORMAT").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return warning(
            "format", "there is no FORMAT file", "a start that was cut short leaves none: the next writes it"
        )
    except (OSError, UnicodeDecodeError) as error:
        return wrong("format", f"FORMAT cannot be read: {error}", "restore the directory from a copy")
    if found != FORMAT:
        return wrong("format", f"it is {found!r}", "another version of kompat wrote it: use that one")
    return fine("format", found)


def _ending(path: Path) -> Finding:
    try:
        left = (path / "running").read_text(encoding="ascii")
    except FileNotFoundError:
        return fine("last end", "it was closed in good order")
    try:
        is_same_boot = left == BOOT_ID.read_text(encoding="ascii")
    except OSError:
        is_same_boot = False
    if is_same_boot:
        return fine("last end", "the broker was killed; nothing acknowledged is lost by that")
    return warning(
        "last end",
        "the machine stopped while a broker worked here, or this is a copy from another machine",
        "the next start checks the ends of all logs; what was not synced may be lost (kompat.fsync)",
    )


def _write_ahead_log(path: Path) -> Iterator[Finding]:
    names = os.listdir(path / "db")
    if "CURRENT" not in names:
        yield wrong("database", "CURRENT is missing", "restore the directory from a copy")
    elif (path / "running").exists() and not any(name.endswith(".log") for name in names):
        yield wrong(
            "database",
            "its write-ahead log is missing",
            "what was written last is gone: restore the directory from a copy",
        )


def _contents(directory: str, *, is_strict: bool) -> Iterator[Finding]:
    try:
        with DataDirectory(directory, is_strict=is_strict) as data:
            yield _keys(data)
            yield from _logs(data)
    except CommandError as error:
        is_closed = "Permission denied" in str(error)
        yield wrong("database", str(error), _own(Path(directory)) if is_closed else "restore the directory from a copy")


def _keys(data: DataDirectory) -> Finding:
    try:
        with Progress("reading keys") as progress:
            for count in data.read_all():
                progress.to(count)
    except CommandError as error:
        return wrong("database", str(error), "restore the directory from a copy")
    return fine("database", f"it opens, and all of its {count} keys can be read")


def _logs(data: DataDirectory) -> Iterator[Finding]:
    """Every batch of every partition: whole, in order, and what its checksum says."""
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
    yield from _told(faults)
    if not faults:
        yield fine("records", f"{batches} batches of {len(partitions)} partitions are whole ({size_text(size)})")
    yield _newest(newest)


def _span(batch: Found) -> str:
    first, last = batch.base_offset, batch.head.last_offset
    return f"{first}" if first == last else f"{first} to {last}"


def _told(faults: list[str]) -> Iterator[Finding]:
    advice = "restore the directory from a copy, or let the partition's other replicas have it: reassign it"
    for each in faults[:TOLD]:
        yield wrong("damage", each, advice)
    if len(faults) > TOLD:
        yield wrong("damage", f"{len(faults) - TOLD} more batches", advice)


def _newest(timestamp: int) -> Finding:
    """Records from the future keep segments from being removed, and tell of clocks that were wrong."""
    now = time.time_ns() // 1_000_000
    if timestamp > now + DAY_MS:
        return warning(
            "timestamps",
            f"the newest record is of {time_text(timestamp)}",
            "was a clock wrong? such records stay longer",
        )
    return fine(
        "timestamps", f"the newest record is of {time_text(timestamp)}" if timestamp else "there are no records"
    )
