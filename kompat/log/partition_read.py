"""Reads: whole batches from memory or from the store, and offsets by time."""

from __future__ import annotations

from collections.abc import Callable

from kompat.errors import DamagedOffsets, ErrorCode, KafkaError
from kompat.log import lookup
from kompat.log.aborted import Aborted
from kompat.log.partition_core import LogCore
from kompat.log.read_ahead import Found
from kompat.log.results import FoundOffset, Isolation, ReadResult
from kompat.log.shells import after_shells, is_shell
from kompat.log.store import PartitionStore
from kompat.types import NO_TIMESTAMP, Buffer, Millis, Offset

SMALL = 4096  # batches below this are joined for the way out, where there are many
MANY = 8
READS_PAST_SHELLS = 4
ERROR_TO_TELL = 1 << 62  # as many bytes as any request waits for


class Reading(LogCore):
    __slots__ = ()

    def read(
        self, offset: Offset, max_bytes: int, isolation: Isolation, *, minimum_one: bool = True
    ) -> ReadResult | None:
        """Whole batches from the one that holds `offset`, from memory; None: they have to come from the store.

        At least one batch unless `minimum_one` is off, else at most `max_bytes`; nothing that is not committed, and
        with READ_COMMITTED nothing of open transactions. Raises OFFSET_OUT_OF_RANGE.
        """
        end = self._readable_end(offset, isolation)
        if offset >= end or (max_bytes <= 0 and not minimum_one):
            return self._result([], 0, offset, offset, isolation)
        found = self._tail.read(offset, max_bytes, end)
        if found is None:
            ahead = self._read_ahead.find(self.log_id, offset, max_bytes, end)
            if ahead is None:
                return None
            self._go_on(ahead, max_bytes, end)
            return self._result(ahead[0], ahead[1], offset, ahead[2], isolation)
        if is_shell(found[0][0]):
            found = _past_shells(found, end, lambda start: self._tail.read(start, max_bytes, end))
        buffers, size, next_offset = found
        if size > max_bytes and not minimum_one:
            return self._result([], 0, offset, offset, isolation)
        if len(buffers) > MANY and size < SMALL * len(buffers):
            buffers = [b"".join(buffers)]
        return self._result(buffers, size, offset, next_offset, isolation)

    async def read_stored(
        self, offset: Offset, max_bytes: int, isolation: Isolation, *, minimum_one: bool = True
    ) -> ReadResult:
        """As `read`, from the store, in a worker thread."""
        end = self._readable_end(offset, isolation)
        if offset >= end:
            return self._result([], 0, offset, offset, isolation)
        found = await self._read_ahead.join(self.log_id, offset, max_bytes, end)
        is_going_on = found is not None or self._read_ahead.is_next(self.log_id, offset)
        if found is None:
            found = await self.read_mended(lambda: _read_store(self.store, offset, max_bytes, end))
        self._readable_end(offset, isolation)  # the log's start may have moved meanwhile
        if is_going_on:
            self._go_on(found, max_bytes, end)
        else:
            self._read_ahead.ended(self.log_id, found[2])
        buffers, size, next_offset = found
        if size > max_bytes and not minimum_one:
            return self._result([], 0, offset, offset, isolation)
        return self._result(buffers, size, offset, next_offset, isolation)

    async def read_around(self, offset: Offset, max_bytes: int, isolation: Isolation) -> ReadResult:
        """As `read_stored`, for readers of the broker's own, who cannot seek: what no replica has any more is passed over."""
        while True:
            try:
                return await self.read_stored(offset, max_bytes, isolation)
            except DamagedOffsets as lost:
                offset = Offset(min(lost.last + 1, self.high_watermark))

    def _go_on(self, found: Found, max_bytes: int, end: Offset) -> None:
        """Read what follows, where the answer held as much as it might and there is more that memory does not have."""
        offset = found[2]
        if offset >= min(end, self._tail.start):
            return
        store = self.store
        self._read_ahead.begin(self.log_id, offset, max_bytes, lambda: _read_store(store, offset, max_bytes, end))

    def _readable_end(self, offset: Offset, isolation: Isolation) -> Offset:
        state = self.state
        if self.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not state.log_start_offset <= offset <= state.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within [{state.log_start_offset}, {state.log_end_offset}]",
            )
        return self.last_stable_offset if isolation else self.high_watermark

    def _result(
        self, buffers: list[Buffer], size: int, offset: Offset, next_offset: Offset, isolation: Isolation
    ) -> ReadResult:
        aborted: list[Aborted] | None = None
        state = self.state
        if isolation:
            aborted = state.aborted.find(offset, next_offset) if buffers and state.aborted else []
        return ReadResult(
            buffers, size, next_offset, self.high_watermark, self.last_stable_offset, state.log_start_offset, aborted
        )

    def available(self, offset: Offset, isolation: Isolation) -> int:
        """Bytes that a read at `offset` could give; for what is not in memory, an upper bound."""
        end = self.last_stable_offset if isolation else self.high_watermark
        if self.is_dropped or not self.state.log_start_offset <= offset <= self.state.log_end_offset:
            return ERROR_TO_TELL
        if offset >= end:
            return 0
        found = self._tail.bytes_between(offset, end)
        return self.state.segments.size if found is None else found

    # -- offsets by name and by time -------------------------------------------------------------------------------
    def earliest(self) -> FoundOffset:
        start = self.state.log_start_offset
        return FoundOffset(start, NO_TIMESTAMP, self.state.epochs.at(start))

    def latest(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> FoundOffset:
        end = self.last_stable_offset if isolation else self.high_watermark
        return FoundOffset(end, NO_TIMESTAMP, self.leader_epoch)

    async def offset_for_time(
        self, timestamp: Millis, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> FoundOffset | None:
        """The first readable record whose timestamp is at least `timestamp`."""
        segment = self.state.segments.from_time(timestamp)
        if segment is None:
            return None
        start, end = self._readable(isolation)
        return await self.read_mended(
            lambda: lookup.first_at_or_after(self.store, timestamp, segment=segment.base_offset, start=start, end=end)
        )

    async def max_timestamp_offset(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> FoundOffset | None:
        """The first readable record that carries the newest timestamp."""
        segment = self.state.segments.with_newest()
        batch, timestamp = segment.max_timestamp_batch, segment.max_timestamp
        if timestamp < 0:
            return None
        start, end = self._readable(isolation)
        return await self.read_mended(lambda: lookup.newest(self.store, batch, timestamp, start=start, end=end))

    def _readable(self, isolation: Isolation) -> tuple[Offset, Offset]:
        return self.state.log_start_offset, self.last_stable_offset if isolation else self.high_watermark


def _read_store(store: PartitionStore, offset: Offset, max_bytes: int, end: Offset) -> Found:
    """In a worker thread."""

    def read(start: Offset) -> Found:
        run = store.read(start, max_bytes, end)
        return list(run.buffers), run.size, run.next_offset

    found = read(offset)
    return _past_shells(found, end, read) if found[0] and is_shell(found[0][0]) else found


def _past_shells(found: Found, end: Offset, read: Callable[[Offset], Found | None]) -> Found:
    """Without leading batches that have no records, as far as records follow within a few reads."""
    for _ in range(READS_PAST_SHELLS):
        buffers, after = after_shells(found[0])
        if after is None:
            return buffers, sum(map(len, buffers)), found[2]
        shell = buffers, len(buffers[0]), after
        following = read(after) if after < end else None
        if following is None or not following[0]:
            break
        found = following
    return shell
