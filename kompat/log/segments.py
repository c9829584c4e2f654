"""How a log is cut into segments: what retention removes and compaction leaves alone is decided by segment. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from struct import Struct

from kompat.config.topic import TopicConfig
from kompat.protocol.records import HEADER_SIZE
from kompat.types import NO_TIMESTAMP, Millis, Offset, RaftIndex

_LAYOUT = Struct(">qqqqqqq")


@dataclass(slots=True)
class Segment:
    base_offset: Offset
    base_index: RaftIndex  # of its first entry
    created: Millis
    size: int = 0
    first_timestamp: Millis = NO_TIMESTAMP  # of its first batch: what segment.ms counts from
    max_timestamp: Millis = NO_TIMESTAMP
    max_timestamp_batch: Offset = Offset(-1)  # noqa: RUF009 - the base offset of the first batch that carries it

    def add(self, base_offset: Offset, size: int, max_timestamp: Millis) -> None:
        if self.size == 0:
            self.first_timestamp = max_timestamp
        self.size += size
        if max_timestamp > self.max_timestamp and size > HEADER_SIZE:  # else it has no records
            self.max_timestamp = max_timestamp
            self.max_timestamp_batch = base_offset

    def is_full(self, size: int, max_timestamp: Millis, now: Millis, config: TopicConfig, jitter: int) -> bool:
        """Whether a batch of `size` has to open a new segment."""
        if self.size == 0:
            return False
        if self.size + size > config.segment_bytes:
            return True
        waited = max_timestamp - self.first_timestamp if self.first_timestamp >= 0 else now - self.created
        limit = config.segment_ms
        if config.compact and config.max_compaction_lag_ms < limit:
            limit = config.max_compaction_lag_ms
        return waited > limit - jitter

    @property
    def newest(self) -> Millis:
        """When its newest record was written, for retention; without timestamps its own age has to do."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.created

    def encode(self) -> bytes:
        return _LAYOUT.pack(
            self.base_offset,
            self.base_index,
            self.created,
            self.size,
            self.first_timestamp,
            self.max_timestamp,
            self.max_timestamp_batch,
        )

    @classmethod
    def decode(cls, data: bytes) -> Segment:
        return cls(*_LAYOUT.unpack(data))


SEGMENT_SIZE = _LAYOUT.size


class Segments:
    """All segments of a log, oldest first; the last one is active: it takes the appends."""

    __slots__ = ("active", "sealed", "sealed_size")

    def __init__(self, active: Segment, sealed: list[Segment] | None = None) -> None:
        self.active = active
        self.sealed = sealed or []
        self.sealed_size = sum(s.size for s in self.sealed)

    @property
    def size(self) -> int:
        return self.sealed_size + self.active.size

    @property
    def first(self) -> Segment:
        return self.sealed[0] if self.sealed else self.active

    @property
    def max_timestamp(self) -> Millis:
        return max((s.max_timestamp for s in self.all()), default=NO_TIMESTAMP)

    def all(self) -> list[Segment]:
        return [*self.sealed, self.active]

    def roll(self, offset: Offset, index: RaftIndex, now: Millis) -> Segment:
        """Seal the active segment and open one at `offset`: the sealed one."""
        sealed = self.active
        self.sealed.append(sealed)
        self.sealed_size += sealed.size
        self.active = Segment(offset, index, now)
        return sealed

    def drop_oldest(self, count: int) -> list[Segment]:
        dropped = self.sealed[:count]
        del self.sealed[:count]
        self.sealed_size -= sum(s.size for s in dropped)
        return dropped

    def drop_empty(self) -> list[Segment]:
        """Forget the sealed segments that the cleaner left nothing of."""
        dropped = [s for s in self.sealed if not s.size]
        if dropped:
            self.sealed = [s for s in self.sealed if s.size]
        return dropped

    def resize(self, segment: Segment, size: int) -> None:
        """The cleaner left `size` bytes of a sealed segment."""
        self.sealed_size += size - segment.size
        segment.size = size

    def end_of(self, position: int) -> Offset:
        """Where the sealed segment at `position` ends."""
        following = self.sealed[position + 1] if position + 1 < len(self.sealed) else self.active
        return following.base_offset

    def holding(self, offset: Offset) -> Segment:
        """The segment that holds `offset`."""
        if offset >= self.active.base_offset or not self.sealed:
            return self.active
        return self.sealed[max(0, bisect_right(self.sealed, offset, key=lambda s: s.base_offset) - 1)]

    def from_time(self, timestamp: Millis) -> Segment | None:
        """The first segment with a record at or after `timestamp`."""
        return next((s for s in self.all() if s.max_timestamp >= timestamp), None)

    def with_newest(self) -> Segment:
        """The first of the segments that hold the newest timestamp."""
        return max(self.all(), key=lambda s: s.max_timestamp)
