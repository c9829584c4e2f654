"""Reads ahead for a consumer that lags behind, while it processes what it has fetched.

A consumer fetches the next stretch of a log only when it has done with the last one, and then waits for the disk, for a
thread and for the interpreter. A read that begins where another read of the same log has ended is taken for such a consumer's: the
stretch after the one it gets is read at once. Bounded by bytes for the whole broker, and kept for a few seconds only:
a consumer that goes away leaves nothing behind. One that has been given out stays as long as its room is not needed: the
same request may look for it again, and so may other consumers.

What lies below the high watermark does not change, so a stretch stays good until it is taken; its reader checks that it may
still have all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kompat.types import Buffer, LogId, Offset

LIMIT = 32 << 20  # bytes of all stretches that wait for their readers
LARGEST = 4 << 20  # of one stretch
KEEP_SECONDS = 5.0
ENDS = 1024  # reads that are remembered, to be gone on with

Found = tuple[list[Buffer], int, Offset]  # batches, their size, and the offset after them
Place = tuple[LogId, Offset]


class _Stretch:
    __slots__ = ("found", "is_given", "reading", "reserved", "timer")

    def __init__(self, reading: asyncio.Future[Found], reserved: int) -> None:
        self.reading = reading
        self.reserved = reserved
        self.found: Found | None = None
        self.is_given = False
        self.timer: asyncio.TimerHandle | None = None


class ReadAhead:
    def __init__(self, limit: int = LIMIT, keep_seconds: float = KEEP_SECONDS) -> None:
        self._limit = limit
        self._keep_seconds = keep_seconds
        self._ends: dict[Place, None] = {}  # where reads have ended, the oldest first
        self._stretches: dict[Place, _Stretch] = {}
        self.size = 0

    # -- for readers -----------------------------------------------------------------------------------------------
    def find(self, log_id: LogId, offset: Offset, max_bytes: int, end: Offset) -> Found | None:
        """The stretch from `offset` on, where it has been read and all of it is wanted: all before `end`."""
        stretch = self._stretches.get((log_id, offset))
        if stretch is None or stretch.found is None:
            return None
        _, size, next_offset = stretch.found
        if size > max_bytes or next_offset > end:
            return None
        stretch.is_given = True
        return stretch.found

    async def join(self, log_id: LogId, offset: Offset, max_bytes: int, end: Offset) -> Found | None:
        """The same, where it may still have to be waited for."""
        stretch = self._stretches.get((log_id, offset))
        if stretch is not None and stretch.found is None:
            await asyncio.wait((stretch.reading,))
        return self.find(log_id, offset, max_bytes, end)

    # -- reading ---------------------------------------------------------------------------------------------------
    def is_next(self, log_id: LogId, offset: Offset) -> bool:
        """Did a read end here? It counts once."""
        return self._ends.pop((log_id, offset), self) is None

    def ended(self, log_id: LogId, offset: Offset) -> None:
        self._ends[log_id, offset] = None
        if len(self._ends) > ENDS:
            del self._ends[next(iter(self._ends))]

    def begin(self, log_id: LogId, offset: Offset, max_bytes: int, read: Callable[[], Found]) -> None:
        """Have `read` carried out in a worker thread, unless there is no room for what it finds."""
        place = (log_id, offset)
        if max_bytes > LARGEST or place in self._stretches or not self._has_room(max_bytes):
            return
        loop = asyncio.get_running_loop()
        stretch = _Stretch(loop.run_in_executor(None, read), max_bytes)
        self._stretches[place] = stretch
        self.size += max_bytes
        stretch.reading.add_done_callback(lambda reading: self._read(place, stretch, reading))
        stretch.timer = loop.call_later(self._keep_seconds, self._expire, place, stretch)

    def _has_room(self, wanted: int) -> bool:
        if self.size + wanted > self._limit:
            for place in [place for place, stretch in self._stretches.items() if stretch.is_given]:
                self._forget(place)
                if self.size + wanted <= self._limit:
                    break
        return self.size + wanted <= self._limit

    def _read(self, place: Place, stretch: _Stretch, reading: asyncio.Future[Found]) -> None:
        is_failed = reading.cancelled() or reading.exception() is not None
        if is_failed and self._stretches.get(place) is stretch:
            self._forget(place)  # the next read tries again, and reports the error
        elif not is_failed:
            stretch.found = reading.result()

    def _expire(self, place: Place, stretch: _Stretch) -> None:
        if self._stretches.get(place) is stretch:
            self._forget(place)

    def _forget(self, place: Place) -> None:
        stretch = self._stretches.pop(place)
        self.size -= stretch.reserved
        if stretch.timer is not None:
            stretch.timer.cancel()
