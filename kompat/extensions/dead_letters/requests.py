"""Requests to the leaders of dead-letter topics' partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from kompat.extensions.dead_letters.pages import PartPage
from kompat.extensions.dead_letters.redrive import Selection
from kompat.rpc.messages import LeaderRequest
from kompat.types import Millis, Offset


class BrowseDeadLetters(LeaderRequest[PartPage], frozen=True):
    is_idempotent: ClassVar[bool] = True

    offset: int
    selection: Selection
    limit: int
    most_looked_at: int


class Counts(NamedTuple):
    dead_letters: int
    redriven: int  # of those


class CountDeadLetters(LeaderRequest[Counts], frozen=True):
    is_idempotent: ClassVar[bool] = True


@dataclass(slots=True, kw_only=True)
class Redriven:
    """The result of a redrive."""

    count: int = 0
    repeated: int = 0  # further dead-letter records of the same original: it was redriven once
    failed: dict[tuple[int, int], str] = field(default_factory=dict)  # by partition and offset, and why

    def add(self, other: Redriven) -> None:
        self.count += other.count
        self.repeated += other.repeated
        self.failed |= other.failed


class RedriveDeadLetters(LeaderRequest[Redriven], frozen=True):
    """Not idempotent: a selection may include records that were redriven already."""

    answered_within: ClassVar[float] = 600.0  # seconds: there may be very many

    selection: Selection


class PurgeDeadLetters(LeaderRequest[int], frozen=True):
    """Not idempotent: more records may have been appended before the second attempt."""

    before: Offset | None
    until: Millis | None
    only_redriven: bool
