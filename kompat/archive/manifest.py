"""The files of an archive, and the offsets that they have. Pure.

    ARCHIVE/records/topic=T/date=D/*.parquet     the table: a file belongs to it only if a commit names it
    ARCHIVE/_commits/00000000000000000007.json   the commits, numbered without gaps; together they are the archive

A commit is a file that appears complete or not at all. It names the files that it adds, those that it replaces, and for each
partition the offsets that it covers, after which the next run continues. A process that dies in between leaves unreferenced
files, but no half of a commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RECORDS = "records"
COMMITS = "_commits"
STAGING = "_staging"
_VERSION = 1
_DIGITS = 20

Place = tuple[str, int]  # a topic's partition


class ArchiveError(Exception):
    """A directory is not an archive, or the archive is inconsistent: the message says where."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets from `start` up to, not including, `end`. Some of them may have no record."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    path: str  # within the archive
    topic: str
    date: str  # of the records' timestamps, in UTC: 2026-01-31
    rows: int
    bytes: int
    spans: Mapping[int, Span]  # by partition: the offsets of the first to the last record


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    added: Sequence[DataFile] = ()
    removed: Sequence[str] = ()  # paths of files whose records are in the added ones
    covered: Mapping[Place, Span] = field(default_factory=dict)

    def encode(self) -> bytes:
        files = [
            {
                "path": each.path,
                "topic": each.topic,
                "date": each.date,
                "rows": each.rows,
                "bytes": each.bytes,
                "offsets": {str(partition): [span.start, span.end] for partition, span in each.spans.items()},
            }
            for each in self.added
        ]
        covered = [[topic, partition, span.start, span.end] for (topic, partition), span in self.covered.items()]
        written = {"version": _VERSION, "added": files, "removed": list(self.removed), "covered": covered}
        return json.dumps(written, indent=1).encode()


def decode(name: str, data: bytes) -> Commit:
    """Decode a commit. Raises ArchiveError if it cannot be read."""
    try:
        written = json.loads(data)
        if written["version"] != _VERSION:
            raise ArchiveError(f"{name} has version {written['version']}: a newer program wrote it")
        return Commit(
            added=[_file(each) for each in written["added"]],
            removed=written["removed"],
            covered={(topic, partition): Span(start, end) for topic, partition, start, end in written["covered"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{name} is not a commit of an archive: {error}") from error


def _file(written: Mapping[str, Any]) -> DataFile:
    spans = {int(partition): Span(*offsets) for partition, offsets in written["offsets"].items()}
    names = ("path", "topic", "date", "rows", "bytes")
    return DataFile(**{name: written[name] for name in names}, spans=spans)


class Archive:
    """All commits together."""

    def __init__(self) -> None:
        self.files: dict[str, DataFile] = {}  # by path
        self.covered: dict[Place, list[Span]] = {}  # in order, without overlaps
        self.next_number = 1

    @classmethod
    def of(cls, commits: Iterable[tuple[int, Commit]]) -> Archive:
        archive = cls()
        for number, commit in sorted(commits, key=lambda each: each[0]):
            archive.add(number, commit)
        return archive

    def add(self, number: int, commit: Commit) -> None:
        if number != self.next_number:
            raise ArchiveError(f"commit {self.next_number} is missing: the next one is {number}")
        self.next_number += 1
        for path in commit.removed:
            if self.files.pop(path, None) is None:
                raise ArchiveError(f"commit {number} replaces {path}, which is not there")
        for each in commit.added:
            self.files[each.path] = each
        for place, span in commit.covered.items():
            self.covered[place] = joined(self.covered.get(place, []), span)

    def end_of(self, place: Place) -> int | None:
        """The offset at which archiving a partition continues; None if nothing of it is archived."""
        spans = self.covered.get(place)
        return spans[-1].end if spans else None

    def topics(self) -> set[str]:
        return {topic for topic, _ in self.covered}

    def holding(self, place: Place, span: Span) -> list[DataFile]:
        """The files that may have records with these offsets."""
        topic, partition = place
        return [
            each
            for each in self.files.values()
            if each.topic == topic
            and (found := each.spans.get(partition)) is not None
            and found.start < span.end
            and span.start < found.end
        ]


def joined(spans: Sequence[Span], added: Span) -> list[Span]:
    """Add a span; adjacent spans become one. Overlapping spans would have records twice: they are an error."""
    result: list[Span] = []
    for span in sorted([*spans, added], key=lambda each: each.start):
        if result and span.start < result[-1].end:
            raise ArchiveError(f"offsets {span.start} to {min(span.end, result[-1].end)} are archived twice")
        if result and span.start == result[-1].end:
            result[-1] = Span(result[-1].start, span.end)
        elif span.start < span.end:
            result.append(span)
    return result


def commit_name(number: int) -> str:
    return f"{number:0{_DIGITS}}.json"


def commit_number(name: str) -> int | None:
    """The number of a commit; None if the file is not a commit, such as one that is being written."""
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "json" and len(stem) == _DIGITS and stem.isdecimal() else None
