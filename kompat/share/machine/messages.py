"""Input and output of the state machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import groupby
from typing import NamedTuple

from kompat.types import Offset


class RecordState(IntEnum):
    """The state of a record in a group; the numbers are those of Kafka's persisted state."""

    AVAILABLE = 0
    ACQUIRED = 1  # never persisted: locks end with the broker's process
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # rejected, but its dead-letter record is not written yet (KIP-1191)
    ARCHIVED = 4


class AckType(IntEnum):
    GAP = 0  # there was no record at the offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4  # extend the lock by its full duration (KIP-1222)


class AcquireMode(IntEnum):
    """The meaning of `max_records` (KIP-1206)."""

    BATCH_OPTIMIZED = 0  # up to the end of the batch that holds the last of them
    RECORD_LIMIT = 1  # no more than that


class Reason(Enum):
    """Why a record is not delivered any more."""

    REJECTED = "rejected"
    DELIVERY_LIMIT = "delivery limit"


class Span(NamedTuple):
    """Offsets from `first` to `last`, inclusive."""

    first: int
    last: int


class StateBatch(NamedTuple):
    """A run of offsets in one state, as it is persisted."""

    first: int
    last: int
    state: RecordState
    deliveries: int


def joined(batches: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Merge adjacent batches in the same state, without those before the start."""
    found: list[StateBatch] = []
    for batch in batches:
        if batch.last < start:
            continue
        before = found[-1] if found else None
        if before is not None and before.last + 1 == batch.first and before[2:] == batch[2:]:
            found[-1] = before._replace(last=batch.last)
        else:
            found.append(batch)
    return tuple(found)


class AcquiredSpan(NamedTuple):
    first: int
    last: int
    deliveries: int  # this one included


@dataclass(frozen=True, slots=True)
class AckBatch:
    """An acknowledgement of offsets: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Runs of offsets with the same type."""
        if len(self.types) == 1:
            yield self.first, self.last, self.types[0]
            return
        position = self.first
        for kind, run in groupby(self.types):
            size = sum(1 for _ in run)
            yield position, position + size - 1, kind
            position += size


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a read of the log, which accounts for all offsets from `first` up to `end`.

    Each offset is in a batch or in a hole: a hole was compacted, or is a batch that no consumer gets.
    """

    first: Offset
    end: Offset
    firsts: Sequence[int]  # of the batches
    lasts: Sequence[int]
    holes: Sequence[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """How many records a member requests."""

    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    is_continued: bool = False  # it has acquired some already


@dataclass(frozen=True, slots=True)
class Update:
    """The part of a change that has to be persisted."""

    start_offset: Offset
    complete_count: int  # offsets from there on that are acknowledged or archived
    batches: tuple[StateBatch, ...] = ()


def merged(updates: Sequence[Update]) -> Update:
    """One update with the effect of all of them, in their order."""
    newest = updates[-1]
    return Update(
        newest.start_offset, newest.complete_count, tuple(batch for update in updates for batch in update.batches)
    )


@dataclass(frozen=True, slots=True)
class Dead:
    """Records that will not be delivered again, and whose dead-letter records are to be written."""

    first: int
    last: int
    deliveries: int
    reason: Reason


@dataclass(slots=True)
class Acquired:
    spans: list[AcquiredSpan]
    count: int
    update: Update | None = None  # where the start moved past offsets without records


@dataclass(slots=True)
class Outcome:
    """The result of an acknowledgement or a timeout."""

    update: Update | None
    dead: list[Dead]
