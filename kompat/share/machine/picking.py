"""Picks the records that a member acquires."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kompat.share.machine.messages import AcquiredSpan, AcquireMode, Want
from kompat.share.machine.settings import ShareSettings


class Picker:
    """Takes what is offered in ascending order, up to the limits of the request and of the group."""

    __slots__ = ("_can_cut", "_first", "_free", "_settings", "_want", "count", "is_done", "spans")

    def __init__(self, want: Want, settings: ShareSettings, free: int) -> None:
        """`free`: how many records may still be acquired for the first time."""
        self._want = want
        self._settings = settings
        self._free = free
        self._can_cut = want.mode is not AcquireMode.BATCH_OPTIMIZED
        self._first = True  # the next offer begins a batch
        self.spans: list[AcquiredSpan] = []
        self.count = 0
        self.is_done = want.max_records <= 0

    def take_fresh(self, first: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """Take whole batches that were never delivered, one after the other, starting at an offset in the first."""
        room = min(self._want.max_records, self._free)
        if room <= 0:
            return
        last = min(first + room - 1, lasts[-1])
        if not self._can_cut:
            # A batch is acquired whole, whatever the request's limit is, but never beyond the group's limit.
            last = min(lasts[bisect_left(lasts, last)], first + self._free - 1)
        self.count = last - first + 1
        while not self._can_cut and last - first >= self._want.batch_size:
            following = bisect_left(firsts, first + self._want.batch_size)
            if following == len(firsts) or firsts[following] > last:
                break
            self.spans.append(AcquiredSpan(first, firsts[following] - 1, 1))
            first = firsts[following]
        self.spans.append(AcquiredSpan(first, last, 1))

    def begin_batch(self) -> None:
        """The next offer is in another batch of the log."""
        self._first = True
        if self.count >= self._want.max_records:
            self.is_done = True

    def offer(self, first: int, last: int, deliveries: int, size: int) -> None:
        """Offer records of a run of `size` with this delivery count."""
        if self.is_done:
            return
        if deliveries == 0:
            if self._free <= 0:
                self.is_done = True
                return
            last = min(last, first + self._free - 1)
        elif deliveries >= self._settings.isolate_from:
            self._isolate(first, last, deliveries, size)
            return
        if self._can_cut:
            last = min(last, first + self._want.max_records - self.count - 1)
        self._take(first, last, deliveries)
        if deliveries == 0:
            self._free -= last - first + 1
        if self._can_cut and self.count >= self._want.max_records:
            self.is_done = True

    def _isolate(self, first: int, last: int, deliveries: int, size: int) -> None:
        """Fewer with every delivery; in the last one each record is delivered alone."""
        self.is_done = True
        if self.count or self._want.is_continued:
            return  # with the next delivery
        limit = self._settings.delivery_limit
        allowed = size >> (deliveries - self._settings.isolate_from + 1)
        if limit > 2 and deliveries >= limit - 1:
            allowed = 1
        if self._can_cut:
            allowed = min(allowed, self._want.max_records)
        self._take(first, min(last, first + max(1, allowed) - 1), deliveries)

    def _take(self, first: int, last: int, deliveries: int) -> None:
        self.count += last - first + 1
        spans = self.spans
        if spans:
            before = spans[-1]
            is_full = self._first and first - before.first >= self._want.batch_size
            if before.last + 1 == first and before.deliveries == deliveries + 1 and not is_full:
                spans[-1] = AcquiredSpan(before.first, last, deliveries + 1)
                self._first = False
                return
        self._first = False
        spans.append(AcquiredSpan(first, last, deliveries + 1))
