"""Reads an archive without Spark: partition by partition, in the order of offsets, a file at a time (pyarrow)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kompat.archive import manifest
from kompat.archive.manifest import Archive, ArchiveError, DataFile, Place, Span

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1000
_COLUMNS = ["partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
_MICROS = 1000  # in a millisecond


class MissingFileError(ArchiveError):
    """A file is missing. If the archive does not name it any more, other files have its records: load the archive again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is part of the archive, and is not there")
        self.path = path


class ArchivedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int  # ms
    timestamp_type: int  # 0: CreateTime, 1: LogAppendTime
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class NoPyarrowError(ArchiveError):
    """pyarrow is not installed: Parquet files cannot be read."""

    def __init__(self) -> None:
        super().__init__("an archive is read by pyarrow, which is not installed: pip install pyarrow")


def require_pyarrow() -> None:
    """Raises NoPyarrowError, before a reader is half-way through an archive."""
    if find_spec("pyarrow") is None:
        raise NoPyarrowError


def load(root: str | Path) -> Archive:
    """The committed archive in a directory."""
    commits = Path(root) / manifest.COMMITS
    if not commits.is_dir():
        raise ArchiveError(f"{root} is not an archive: it has no {manifest.COMMITS}")
    numbered = ((manifest.commit_number(path.name), path) for path in commits.iterdir())
    return Archive.of(
        (number, manifest.decode(path.name, path.read_bytes())) for number, path in numbered if number is not None
    )


def read(root: str | Path, archive: Archive, place: Place, span: Span) -> Iterator[ArchivedRecord]:
    """A partition's records with these offsets, in order. At a time, one file's part of them is in memory."""
    files = sorted(archive.holding(place, span), key=lambda each: each.spans[place[1]].start)
    for group in _overlapping(files, place[1]):
        if len(group) == 1:
            yield from _records(Path(root), group[0], place, span)
        else:  # the offsets of several days may overlap
            found = [record for each in group for record in _records(Path(root), each, place, span)]
            yield from sorted(found, key=lambda record: record.offset)


def _overlapping(files: Sequence[DataFile], partition: int) -> Iterator[list[DataFile]]:
    """Groups of files whose offsets overlap."""
    group: list[DataFile] = []
    end = -1
    for each in files:
        if group and each.spans[partition].start >= end:
            yield group
            group = []
        group.append(each)
        end = max(end, each.spans[partition].end)
    if group:
        yield group


def _records(root: Path, file: DataFile, place: Place, span: Span) -> Iterator[ArchivedRecord]:
    import pyarrow.parquet as pq

    topic, partition = place
    try:
        opened = pq.ParquetFile(root / file.path)
    except FileNotFoundError as error:
        raise MissingFileError(file.path) from error
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{file.path} cannot be read: {error}") from error
    with opened:
        for batch in opened.iter_batches(ROWS_AT_ONCE, columns=_COLUMNS):
            for record in _rows(topic, batch):
                if record.partition == partition and span.start <= record.offset < span.end:
                    yield record


def _rows(topic: str, batch: pa.RecordBatch) -> Iterator[ArchivedRecord]:
    import pyarrow as pa

    at = batch.schema.get_field_index("timestamp")
    micros = batch.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = [batch.column(name) for name in ("partition", "offset")]
    rest = [batch.column(name) for name in ("timestampType", "key", "value", "headers")]
    for partition, offset, micro, kind, key, value, headers in zip(
        *(column.to_pylist() for column in (*columns, micros, *rest)), strict=True
    ):
        yield ArchivedRecord(topic, partition, offset, micro // _MICROS, kind, key, value, _headers(headers))


def _headers(found: Sequence[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], each["value"]) for each in found or ())
