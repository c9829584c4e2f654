"""Who is told what becomes of single records: nobody, unless somebody from above wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kompat.log.partition import Appended, Partition
from kompat.share.machine.messages import AcquiredSpan, Span


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


class ShareEvents(Protocol):
    """It must be quick, and never fail. What it is told is true already, or is about to be written in this turn."""

    def watches(self, log: Partition) -> bool:
        """Does it want to know about records of this log? Nothing else is told."""
        ...

    def acquired(self, log: Partition, group_id: str, member: str, spans: Sequence[AcquiredSpan]) -> None: ...

    def acknowledged(self, log: Partition, group_id: str, member: str, span: Span, kind: int) -> None:
        """`kind` is an AckType."""
        ...

    def let_go(self, log: Partition, group_id: str, member: str | None, span: Span, *, is_late: bool) -> None:
        """Without a word of the member: its lock has ended, where `is_late`, or it is gone."""
        ...

    def expired(self, log: Partition, group_id: str, span: Span) -> None:
        """Their time to live has ended."""
        ...

    def buried(
        self, log: Partition, group_id: str, offsets: Sequence[int], reason: str, letters: Partition, appended: Appended
    ) -> None:
        """The letters of these records were appended in this turn, in this order."""
        ...

    def posted(self, log: Partition, group_id: str, reason: str, letters: Mapping[int, Place]) -> None:
        """The letters of these records, by their offsets, were written, perhaps by another broker."""
        ...


class Silent:
    """Nobody wants to know."""

    def watches(self, log: Partition) -> bool:
        return False

    def acquired(self, log: Partition, group_id: str, member: str, spans: Sequence[AcquiredSpan]) -> None:
        """Not told."""

    def acknowledged(self, log: Partition, group_id: str, member: str, span: Span, kind: int) -> None:
        """Not told."""

    def let_go(self, log: Partition, group_id: str, member: str | None, span: Span, *, is_late: bool) -> None:
        """Not told."""

    def expired(self, log: Partition, group_id: str, span: Span) -> None:
        """Not told."""

    def buried(
        self, log: Partition, group_id: str, offsets: Sequence[int], reason: str, letters: Partition, appended: Appended
    ) -> None:
        """Not told."""

    def posted(self, log: Partition, group_id: str, reason: str, letters: Mapping[int, Place]) -> None:
        """Not told."""


SILENT = Silent()
