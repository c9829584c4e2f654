"""What retention removes: whole segments, oldest first, never what is not committed. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from kompat.config.topic import TopicConfig
from kompat.log.segments import Segment, Segments
from kompat.types import Millis, Offset


@dataclass(frozen=True, slots=True)
class Plan:
    """How many of the oldest segments go, and whether the active one is among them and has to be sealed first."""

    count: int
    seals_active: bool


NOTHING = Plan(0, seals_active=False)


def plan(
    segments: Segments,
    config: TopicConfig,
    *,
    now: Millis,
    log_start_offset: Offset,
    high_watermark: Offset,
    log_end_offset: Offset,
) -> Plan:
    """The segments that lie before the log's start, that are too old, or that are more than retention.bytes allows."""
    has_limit = config.delete and config.retention_bytes >= 0
    excess = segments.size - config.retention_bytes if has_limit else -1
    oldest = now - config.retention_ms if config.delete and config.retention_ms >= 0 else None
    count = 0
    for segment, end in _with_ends(segments, log_end_offset):
        is_removable = (
            end <= log_start_offset
            or (has_limit and excess >= segment.size)
            or (oldest is not None and segment.newest < oldest)
        )
        if end > high_watermark or not is_removable:
            break
        excess -= segment.size
        count += 1
    return Plan(count, seals_active=count > len(segments.sealed)) if count else NOTHING


def before_start(segments: Segments, log_start_offset: Offset, log_end_offset: Offset) -> Plan:
    """The segments that lie before the log's start, whatever the topic's configuration is."""
    count = 0
    for _, end in _with_ends(segments, log_end_offset):
        if end > log_start_offset:
            break
        count += 1
    return Plan(count, seals_active=count > len(segments.sealed)) if count else NOTHING


def _with_ends(segments: Segments, log_end_offset: Offset) -> Iterator[tuple[Segment, Offset]]:
    """An empty active segment has nothing to remove."""
    for position, segment in enumerate(segments.sealed):
        yield segment, segments.end_of(position)
    if log_end_offset > segments.active.base_offset:
        yield segments.active, log_end_offset
