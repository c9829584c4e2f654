"""The listener for what happens to single records of share groups; tracing implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kompat.log.partition import Partition
from kompat.share.machine.messages import AcquiredSpan, Span


class Place(NamedTuple):
    """The position of a record."""

    topic: str
    partition: int
    offset: int


class ShareEvents(Protocol):
    """Listeners must be quick and must never fail. An event has happened already, or is about to be written in this turn."""

    def watches(self, log: Partition) -> bool:
        """Whether the listener wants events of this log; other logs send none."""
        ...

    def acquired(self, log: Partition, group_id: str, member: str, spans: Sequence[AcquiredSpan]) -> None: ...

    def acknowledged(self, log: Partition, group_id: str, member: str, span: Span, kind: int) -> None:
        """`kind` is an AckType."""
        ...

    def let_go(self, log: Partition, group_id: str, member: str | None, span: Span, *, is_late: bool) -> None:
        """The member lost the records without an acknowledgement: its lock has expired if `is_late`, else the member has left."""
        ...

    def expired(self, log: Partition, group_id: str, span: Span) -> None:
        """The time to live of the records has ended."""
        ...

    def dead_lettered(self, log: Partition, group_id: str, reason: str, dead_letters: Mapping[int, Place]) -> None:
        """The dead-letter records, by the offset of the original record, were written, perhaps by another broker."""
        ...


class Silent:
    """The listener where tracing is not in use."""

    def watches(self, log: Partition) -> bool:
        return False

    def acquired(self, log: Partition, group_id: str, member: str, spans: Sequence[AcquiredSpan]) -> None:
        """Ignored."""

    def acknowledged(self, log: Partition, group_id: str, member: str, span: Span, kind: int) -> None:
        """Ignored."""

    def let_go(self, log: Partition, group_id: str, member: str | None, span: Span, *, is_late: bool) -> None:
        """Ignored."""

    def expired(self, log: Partition, group_id: str, span: Span) -> None:
        """Ignored."""

    def dead_lettered(self, log: Partition, group_id: str, reason: str, dead_letters: Mapping[int, Place]) -> None:
        """Ignored."""


SILENT = Silent()
