"""Decides where a partition's records are read: from the archive or the live log, or not at all, if neither has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kompat.archive.manifest import Span


class Joined(NamedTuple):
    archived: Sequence[Span]
    live: Sequence[Span]
    missing: Sequence[Span]  # wanted, but neither archived nor in the log


def join(covered: Sequence[Span], log: Span, wanted: Span) -> Joined:
    """Read each wanted offset from one place, the archive if it has it: it is not subject to compaction and retention."""
    archived = [part for span in covered if (part := common(span, wanted)) is not None]
    rest = list(without([wanted], archived))
    live = [part for span in rest if (part := common(span, log)) is not None]
    missing = [
        Span(span.start, min(span.end, log.end)) for span in without(rest, live) if span.start < min(span.end, log.end)
    ]
    return Joined(archived, live, missing)


def common(a: Span, b: Span) -> Span | None:
    start, end = max(a.start, b.start), min(a.end, b.end)
    return Span(start, end) if start < end else None


def without(spans: Sequence[Span], removed: Sequence[Span]) -> Iterator[Span]:
    """The spans without the removed ones, in order. Both arguments are in order, without overlaps."""
    for span in spans:
        at = span.start
        for hole in removed:
            if hole.end <= at or hole.start >= span.end:
                continue
            if at < hole.start:
                yield Span(at, hole.start)
            at = max(at, hole.end)
        if at < span.end:
            yield Span(at, span.end)
