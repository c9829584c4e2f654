"""In which order a group is given a partition's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kompat.share.machine.messages import Span
from kompat.share.machine.partition import SharePartition
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

NO_END = (1 << 63) - 1


class Order(Protocol):
    def next_spans(
        self, partition: SharePartition, settings: ShareSettings, max_records: int, now: Millis
    ) -> Sequence[Span]:
        """What to give out next, best first; it is delivered in ascending order nevertheless, as clients require.

        Only what `partition.available` gives may be named. A span that ends with NO_END means "and whatever follows, by
        offset": then it is the only one.
        """
        ...


class ByOffset:
    """Oldest first, as Kafka does it."""

    def next_spans(
        self, partition: SharePartition, settings: ShareSettings, max_records: int, now: Millis
    ) -> Sequence[Span]:
        offset = partition.next_offset(settings, now)
        return () if offset is None else (Span(offset, NO_END),)
