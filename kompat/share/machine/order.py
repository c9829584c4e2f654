"""The order in which a group gets a partition's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import Span
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

NO_END = (1 << 63) - 1


class Choice(NamedTuple):
    """The records to deliver next, best first; clients get them in ascending order nevertheless, as the protocol requires.

    A span that ends with NO_END means this and all later offsets; then it is the only one.
    """

    spans: Sequence[Span]
    expired: Sequence[Span] = ()  # available, but their time to live has ended
    is_cut: bool = False  # there may be more: call again soon


class Moment(NamedTuple):
    """The time, and the state of the log."""

    now: Millis  # by the clock of locks
    wall: Millis  # by the clock of records
    end: int  # of what can be read
    aging_ms: int  # a record that has waited this much longer counts as one class higher; 0: no aging


class Order(Protocol):
    def next_spans(
        self, partition: AcquisitionState, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        """Spans must be in `partition.available`, and those with an end must be readable."""
        ...


class ByOffset:
    """Oldest first, as Kafka does it."""

    def next_spans(
        self, partition: AcquisitionState, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        offset = partition.next_offset(settings, moment.now)
        return Choice(() if offset is None else (Span(offset, NO_END),))
