"""Where a partition's records are to be read: in the archive, in the live log, or nowhere any more. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kompat.archive.manifest import Span


class Joined(NamedTuple):
    archived: Sequence[Span]
    live: Sequence[Span]
    missing: Sequence[Span]  # wanted, but neither archived nor in the log


def join(covered: Sequence[Span], log: Span, wanted: Span) -> Joined:
    """Each wanted offset in one place. The archive comes first: compaction and retention have not been there."""
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
    """What is left of spans, in order; both come in order, and apart from each other."""
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
