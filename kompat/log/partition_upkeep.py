"""What changes a log other than by appending: its start, its oldest segments, producers that fell silent."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.log import checkpoint, retention
from kompat.log.cleaner import Cleaned, Dirty, dirty_part
from kompat.log.commit import Pending
from kompat.log.partition_core import LogCore
from kompat.log.segments import Segment
from kompat.types import Millis, Offset

ALL_COMMITTED = Offset(-1)  # in delete_records: up to the high watermark


class Upkeep(LogCore):
    __slots__ = ()

    async def delete_records(self, offset: Offset) -> Offset:
        """Move the log's start to `offset`: the new start. Its space goes when whole segments lie before it."""
        target = self.high_watermark if offset == ALL_COMMITTED else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within [0, {self.high_watermark}]")
        if self.config.compact and not self.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "records of a compacted topic cannot be deleted")
        if target > self.log_start_offset:
            self._move_start(target)
            self.write_checkpoint()
            await self._join_turn().wait()
        return self.log_start_offset

    def _move_start(self, offset: Offset) -> None:
        state = self.state
        state.log_start_offset = offset
        state.epochs.drop_before(offset)
        state.cleaned_offset = max(state.cleaned_offset, offset)
        for last in state.aborted.drop_before(offset):
            self.store.delete_state(checkpoint.aborted_name(last))
        self._update_stable_offset()

    def enforce_retention(self, now: Millis) -> int:
        """Stage the removal of the segments that retention has no more use for: how many."""
        state = self.state
        segments = state.segments
        plan = retention.plan(
            segments,
            self.config,
            now=now,
            log_start_offset=state.log_start_offset,
            high_watermark=self.high_watermark,
            log_end_offset=state.log_end_offset,
        )
        if not plan.count:
            return 0
        if plan.seals_active:
            self._roll(now)
        dropped = segments.drop_oldest(plan.count)
        first = segments.first
        if first.base_offset > state.log_start_offset:
            self._move_start(first.base_offset)
        state.start_index = max(state.start_index, first.base_index)
        self.store.drop_before(state.start_index, first.base_offset, [s.base_offset for s in dropped])
        for segment in dropped:
            self.store.delete_state(checkpoint.segment_name(segment.base_offset))
        self._newest = segments.max_timestamp
        self.write_checkpoint()
        self._join_turn()
        return plan.count

    def expire_producers(self, now: Millis, after_ms: int) -> None:
        if len(self.state.producers) and self.state.producers.expire(now, after_ms):
            self._since_checkpoint += 1  # a restart must not bring them back: the next checkpoint is due at close

    # -- for the cleaner -------------------------------------------------------------------------------------------
    def dirty_part(self, now: Millis) -> Dirty | None:
        """What compaction may work on."""
        return dirty_part(self.state, self.config, self.last_stable_offset, now)

    def take_cleaned(self, segment: Segment, cleaned: Cleaned) -> Pending:
        """Stage what the cleaner made of a part of a segment."""
        state = self.state
        if cleaned.rewrites:
            self.store.rewrite(cleaned.rewrites, segment.base_offset)
            state.segments.resize(segment, segment.size + cleaned.growth)
        if cleaned.newest is not None:
            segment.max_timestamp, segment.max_timestamp_batch = cleaned.newest
        self.store.put_state(checkpoint.segment_name(segment.base_offset), segment.encode())
        for last in cleaned.markers:
            if state.aborted.remove(last):
                self.store.delete_state(checkpoint.aborted_name(last))
        self.write_checkpoint()
        return self._join_turn()

    def end_cleaning(self, end: Offset) -> Pending:
        """All before `end` is clean. The entries of clean segments have no more use: their batches are not as written."""
        state = self.state
        segments = state.segments
        state.cleaned_offset = max(state.cleaned_offset, end)
        state.start_index = max(state.start_index, segments.holding(end).base_index)
        for segment in segments.drop_empty():
            self.store.delete_state(checkpoint.segment_name(segment.base_offset))
        self.store.drop_before(state.start_index, segments.first.base_offset, [])
        self._newest = segments.max_timestamp
        self._tail.drop_before(end)
        self.write_checkpoint()
        return self._join_turn()
