"""In which order a group is given a partition's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kompat.share.machine.messages import Span
from kompat.share.machine.partition import SharePartition
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

NO_END = (1 << 63) - 1


class Choice(NamedTuple):
    """What to give out next, best first; it is delivered in ascending order nevertheless, as clients require.

    A span that ends with NO_END means "and whatever follows, by offset": then it is the only one.
    """

    spans: Sequence[Span]
    expired: Sequence[Span] = ()  # available, but nobody is to have them any more
    is_cut: bool = False  # there may be more to find: to be asked again soon


class Moment(NamedTuple):
    """When it is, and where the log stands."""

    now: Millis  # in the time of locks
    wall: Millis  # in the time of records
    end: int  # of what can be read
    aging_ms: int  # a record that has waited for so much longer counts as one class higher; 0: none does


class Order(Protocol):
    def next_spans(
        self, partition: SharePartition, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        """Only what `partition.available` gives may be named, and of that, in a span with an end, what can be read."""
        ...


class ByOffset:
    """Oldest first, as Kafka does it."""

    def next_spans(
        self, partition: SharePartition, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        offset = partition.next_offset(settings, moment.now)
        return Choice(() if offset is None else (Span(offset, NO_END),))
