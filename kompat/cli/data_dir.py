"""Reads a data directory that no broker uses. Nothing in it changes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from kompat._native import whole_batches
from kompat.cli.command import CommandError
from kompat.errors import DamagedData, KafkaError
from kompat.log.checkpoint import LogState
from kompat.log.checkpoint import load as load_checkpoint
from kompat.log.storage import keys
from kompat.log.storage.database import FAMILIES, translated
from kompat.log.storage.valuelog import file_name
from kompat.protocol.records import BatchHeader, iterate, read_header
from kompat.types import LogId

METADATA: Final = LogId(UUID(int=1), 0)
METADATA_NAME: Final = "__cluster_metadata"
KEYS_AT_ONCE: Final = 10_000
FURTHEST: Final = 1 << 40  # offsets that are searched for the end of a damaged block
_HEADER_BYTES: Final = 61


class Found(NamedTuple):
    """A batch: its entry in the database, and its bytes if they can be read."""

    base_offset: int
    head: keys.Head
    content: bytes | None
    where: str  # `db`, or the file and the position in it
    fault: str | None  # what is wrong with it

    @property
    def header(self) -> BatchHeader | None:
        whole = self.content is not None and len(self.content) >= _HEADER_BYTES
        return read_header(self.content) if whole and self.content is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A partition by the name of its topic, or by the topic id if the topic does not exist any more."""

    log: LogId
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def holder(directory: str) -> str | None:
    """The process that uses the directory; None if there is none."""
    path = os.path.join(directory, "lock")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 100, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(handle)
    return None


class DataDirectory:
    """A context manager. Raises CommandError if there is no data, or if a broker uses the directory."""

    def __init__(self, directory: str, *, is_strict: bool = False) -> None:
        """`is_strict`: a write-ahead log that is damaged before its end is an error, as for a broker whose machine has not
        crashed; otherwise it is read up to the damage."""
        self.directory = directory
        self._database_path = os.path.join(directory, "db")
        if not os.path.isdir(self._database_path):
            raise CommandError(f"{directory} is not the data directory of a broker: it has no db directory")
        process = holder(directory)
        if process is not None:
            raise CommandError(
                f"a broker uses {directory} (process {process}): stop it, or use a copy of the directory"
            )
        self._scratch = tempfile.TemporaryDirectory(prefix="kompat-")  # for RocksDB's own log
        try:
            self._db = _open(self._database_path, self._scratch.name, is_strict=is_strict)
            self._families = {name: self._db.get_column_family(name) for name in FAMILIES}
        except Exception as error:  # noqa: BLE001 - RocksDB has no other
            self._scratch.cleanup()
            raise CommandError(str(translated(error, self._database_path))) from None
        self._names: dict[UUID, str] | None = None

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        for family in self._families.values():
            family.close()
        self._db.close()
        self._scratch.cleanup()

    # -- logs ------------------------------------------------------------------------------------------------------
    def logs(self) -> list[LogId]:
        found = {keys.log_id(log) for family in self._families.values() for log in self._prefixes(family)}
        return sorted(found, key=lambda log: (log.topic_id.bytes, log.partition))

    def _prefixes(self, family: Any) -> Iterator[bytes]:
        iterator = family.iter()
        iterator.seek_to_first()
        while iterator.valid():
            log = iterator.key()[: keys.LOG_SIZE]
            yield log
            iterator.seek(keys.log_end(log))
        self._checked(iterator)

    def read_all(self) -> Iterator[int]:
        """Read every block of every table to find damaged ones. Yields the number of keys so far, now and then."""
        count = 0
        for family in (self._db, *self._families.values()):
            iterator = family.iter()
            iterator.seek_to_first()
            while iterator.valid():
                count += 1
                if count % KEYS_AT_ONCE == 0:
                    yield count
                iterator.next()
            self._checked(iterator)
        yield count

    def partitions(self) -> list[Named]:
        """All partitions, by name."""
        found = [self._named(log) for log in self.logs()]
        return sorted(found, key=lambda each: (each.topic, each.partition))

    def partition(self, topic: str, partition: int) -> Named:
        for each in self.partitions():
            if (each.topic, each.partition) == (topic, partition):
                return each
        raise CommandError(f"{self.directory} has no data of {topic}/{partition}")

    def _named(self, log: LogId) -> Named:
        if self._names is None:
            self._names = {METADATA.topic_id: METADATA_NAME, **self._topic_names()}
        return Named(log=log, topic=self._names.get(log.topic_id, log.topic_id.hex), partition=log.partition)

    def _topic_names(self) -> dict[UUID, str]:
        """Topic names of the cluster metadata: its snapshot, and the records after it. Names of deleted topics are kept, too."""
        from kompat.cluster.records import ClusterCodec, TopicCreated
        from kompat.coordination.snapshots import Snapshots

        try:
            snapshot = Snapshots[Any](_States(self, METADATA), ClusterCodec()).read()  # type: ignore[arg-type]
            records: list[Any] = list(snapshot.records) if snapshot is not None else []
            for batch in self.batches(METADATA):
                if batch.content is not None and batch.fault is None and not read_header(batch.content).is_control:
                    records += [ClusterCodec().decode(each.key, each.value) for each in iterate(batch.content)]
        except DamagedData as error:
            raise CommandError(str(error)) from None
        return {record.topic.id: record.topic.name for record in records if isinstance(record, TopicCreated)}

    # -- batches and states ----------------------------------------------------------------------------------------
    def batches(self, log: LogId, offset: int = 0) -> Iterator[Found]:
        """The batches, beginning with the one that has the offset."""
        family = self._families["batches"]
        iterator = family.iter()
        prefix = log.key
        iterator.seek_for_prev(prefix + keys.number(offset))
        if not iterator.valid() or not iterator.key().startswith(prefix):
            iterator.seek(prefix)
        while iterator.valid() and iterator.key().startswith(prefix):
            found = self._found(log, iterator.key(), iterator.value())
            if found.head.last_offset >= offset:
                yield found
            offset = max(offset, found.head.last_offset + 1)
            iterator.next()
        fault = _fault(iterator)
        if fault is not None:
            damaged = self._damaged_block(prefix, offset, fault)
            yield damaged
            yield from self.batches(log, damaged.head.last_offset + 1)

    def _damaged_block(self, prefix: bytes, offset: int, fault: str) -> Found:
        """A damaged block, which may have many small batches. Raises CommandError if everything after it is damaged, too."""
        bad, step = offset, 1
        while not self._is_readable(prefix, bad + step):
            bad, step = bad + step, 2 * step
            if step > FURTHEST:
                raise CommandError(fault)
        good = bad + step
        while good - bad > 1:
            middle = (bad + good) // 2
            bad, good = (bad, middle) if self._is_readable(prefix, middle) else (middle, good)
        head = keys.Head(keys.INLINE, 0, good - 1, 0, -1)
        return Found(offset, head, None, "db", f"a block of the database is damaged: {fault}")

    def _is_readable(self, prefix: bytes, offset: int) -> bool:
        iterator = self._families["batches"].iter()
        iterator.seek(prefix + keys.number(offset))
        return iterator.valid() or _fault(iterator) is None

    def _found(self, log: LogId, key: bytes, value: bytes) -> Found:
        head, base = keys.head(value), keys.number_at_end(key)
        if head.kind == keys.INLINE:
            content: bytes | None = value[keys.HEAD_SIZE :]
            return Found(base, head, content, "db", fault_of(content, base, head))
        segment, number, place = keys.pointer(value)
        name = file_name(log, segment, number)
        content = _read_at(os.path.join(self.directory, "values", name), place, head.size)
        return Found(base, head, content, f"{name}@{place}", fault_of(content, base, head))

    def state(self, log: LogId, name: bytes) -> bytes | None:
        value: bytes | None = self._families["state"].get(keys.state_key(log.key, name))
        return value

    def states(self, log: LogId, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        iterator = self._families["state"].iter()
        start = keys.state_key(log.key, prefix)
        iterator.seek(start)
        while iterator.valid() and iterator.key().startswith(start):
            yield iterator.key()[keys.STATE_NAME_AT :], iterator.value()
            iterator.next()
        self._checked(iterator)

    def checkpoint(self, log: LogId) -> LogState | None:
        """The last checkpoint of the partition's state. Raises DamagedData."""
        return load_checkpoint(_States(self, log))  # type: ignore[arg-type]

    def _checked(self, iterator: Any) -> None:
        try:
            iterator.status()
        except Exception as error:  # noqa: BLE001 - RocksDB has no other
            raise CommandError(str(translated(error, self._database_path))) from None


class _States:
    """The part of a partition's store that reading states needs."""

    def __init__(self, directory: DataDirectory, log: LogId) -> None:
        self._directory = directory
        self._log = log

    def state(self, name: bytes) -> bytes | None:
        return self._directory.state(self._log, name)

    def states(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        return self._directory.states(self._log, prefix)


def _fault(iterator: Any) -> str | None:
    """The error that ended an iterator; None if it is at its end."""
    try:
        iterator.status()
    except Exception as error:  # noqa: BLE001 - RocksDB has no other
        return str(error)
    return None


def fault_of(content: bytes | None, base: int, head: keys.Head) -> str | None:
    """What is wrong with a batch; None if it is consistent."""
    if content is None:
        return "its bytes are missing from the value log"
    if len(content) != head.size or len(content) < _HEADER_BYTES:
        return f"it has {len(content)} bytes instead of {head.size}"
    header = read_header(content)
    if header.base_offset != base or header.last_offset != head.last_offset:
        return f"its header has offsets {header.base_offset} to {header.last_offset}, but the index has {base} to {head.last_offset}"
    if whole_batches(content) != len(content):
        return "its checksum is wrong"
    try:  # as a reader does it: compacted or delayed records leave gaps in the offsets
        offsets = [record.offset for record in iterate(content)] if header.record_count else []
    except KafkaError as error:
        return str(error)
    is_rising = all(one < other for one, other in pairwise(offsets))
    if offsets and not (is_rising and base <= offsets[0] and offsets[-1] <= head.last_offset):
        return f"its records have offsets {offsets[0]} to {offsets[-1]} instead of {base} to {head.last_offset}"
    return None


def _read_at(path: str, place: int, size: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            file.seek(place)
            found = file.read(size)
    except OSError:
        return None
    return found if found else None


def _open(directory: str, scratch: str, *, is_strict: bool) -> Any:
    from rocksdict import AccessType, DBRecoveryMode, Options, Rdict

    options = Options(raw_mode=True)
    if is_strict:
        options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_db_log_dir(scratch)
    options.set_paranoid_checks(True)
    options.set_max_open_files(256)
    families = {name: Options(raw_mode=True) for name in FAMILIES}
    return Rdict(directory, options, column_families=families, access_type=AccessType.read_only())
