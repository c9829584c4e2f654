"""What changes a log other than by appending: its start, its oldest segments, producers that fell silent, the cleaner and mending."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.log import checkpoint, retention
from kompat.log.compaction import Cleaned, Dirty, dirty_part
from kompat.log.local_log import Change, LocalLog
from kompat.log.retention import Plan
from kompat.log.segments import Segment
from kompat.log.storage.store import Rewrite
from kompat.types import Millis, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.log.partition import Partition

ALL_COMMITTED = Offset(-1)  # in delete_records: up to the high watermark


class Upkeep:
    __slots__ = ("_log", "_partition")

    def __init__(self, partition: Partition, log: LocalLog) -> None:
        self._partition = partition
        self._log = log

    async def delete_records(self, offset: Offset) -> Offset:
        """Move the log's start to `offset`: the new start. Its space goes when whole segments lie before it."""
        log, high_watermark = self._log, self._partition.high_watermark
        target = high_watermark if offset == ALL_COMMITTED else offset
        if not 0 <= target <= high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within [0, {high_watermark}]")
        if log.config.compact and not log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "records of a compacted topic cannot be deleted")
        if target > log.state.log_start_offset:
            if log.replica is not None:
                await log.replica.propose_start(target)
            else:
                self._partition.move_start(target)
                await log.write_checkpoint()
        return log.state.log_start_offset

    def enforce_retention(self, now: Millis) -> int:
        """Stage the removal of the segments that retention has no more use for: how many.

        Where there are other replicas, the leader moves the log start offset, and all of them remove the segments before it.
        """
        state, replica = self._log.state, self._log.replica
        if replica is not None and not replica.is_leading:
            return self._drop_before_start(now)
        plan = retention.plan(
            state.segments,
            self._log.config,
            now=now,
            log_start_offset=state.log_start_offset,
            high_watermark=self._partition.high_watermark,
            log_end_offset=state.log_end_offset,
        )
        if not plan.count:
            return 0
        if replica is None:
            return self._drop(plan, now)
        known = [*(s.base_offset for s in state.segments.all()), state.log_end_offset]
        if known[plan.count] > state.log_start_offset:
            replica.propose_start(known[plan.count])
            return plan.count
        return self._drop_before_start(now)

    def begin_at(self, offset: Offset) -> None:
        """The replicas have agreed that the log starts at `offset`."""
        if offset > self._log.state.log_start_offset:
            self._partition.move_start(offset)
            self._drop_before_start(self._log.clock.now())

    def _drop_before_start(self, now: Millis) -> int:
        state = self._log.state
        plan = retention.before_start(state.segments, state.log_start_offset, state.log_end_offset)
        return self._drop(plan, now) if plan.count else 0

    def _drop(self, plan: Plan, now: Millis) -> int:
        state = self._log.state
        segments = state.segments
        if plan.seals_active:
            self._log.roll(now)
        dropped = segments.drop_oldest(plan.count)
        first = segments.first
        if first.base_offset > state.log_start_offset:
            self._partition.move_start(first.base_offset)
        self._log.segments_changed()
        self._log.write_checkpoint(self._removal(first.base_index, [s.base_offset for s in dropped]))
        return plan.count

    def _removal(self, index: RaftIndex, segments: Sequence[Offset]) -> list[Change]:
        """What removes the entries before `index`, and segments that are no longer among the log's, from the store."""
        state, store, replica = self._log.state, self._log.store, self._log.replica
        start = replica.may_forget_before(index) if replica is not None else index
        state.start_index = start = max(state.start_index, start)
        first = state.segments.first.base_offset
        names = [checkpoint.segment_name(base_offset) for base_offset in segments]
        return [
            lambda: store.drop_before(start, first, segments),
            *(partial(store.delete_state, name) for name in names),
        ]

    def expire_producers(self, now: Millis, after_ms: int) -> None:
        producers = self._log.state.producers
        if len(producers) and producers.expire(now, after_ms):
            self._log.producers_changed()

    def take_mended(self, rewrites: Sequence[Rewrite]) -> Promise[None]:
        """Stage what another replica has in the place of damaged batches."""
        log = self._log
        turn, segments = log.join_turn(), log.state.segments
        for base_offset, some in groupby(rewrites, lambda each: segments.holding(each.base_offset).base_offset):
            few = list(some)
            growth = self._growth(few) if log.config.compact or log.state.cleaned_offset > few[0].base_offset else 0
            log.store.rewrite(few, base_offset)
            segment = segments.holding(base_offset)
            if growth and segment is segments.active:
                segment.size += growth
            elif growth:
                segments.resize(segment, segment.size + growth)
                log.store.put_state(checkpoint.segment_name(base_offset), segment.encode())
        return turn

    def _growth(self, rewrites: Sequence[Rewrite]) -> int:
        """Another replica may have compacted these batches when this one had not, or the other way round."""
        growth = 0
        for rewrite in rewrites:
            stored = next(self._log.store.batches(rewrite.base_offset), None)
            growth += len(rewrite.batch or b"") - (stored.size if stored is not None else 0)
        return growth

    # -- for the cleaner -------------------------------------------------------------------------------------------
    def dirty_part(self, now: Millis) -> Dirty | None:
        """What compaction may work on."""
        return dirty_part(self._log.state, self._log.config, self._partition.last_stable_offset, now)

    def take_cleaned(self, segment: Segment, cleaned: Cleaned) -> Promise[None]:
        """Stage what the cleaner made of a part of a segment."""
        state, store = self._log.state, self._log.store
        changes: list[Change] = []
        if self._log.replica is not None:
            # Before its batches change: a follower must never be sent an entry that is not as it was written.
            following = state.segments.holding(state.segments.end_of(state.segments.sealed.index(segment)))
            changes += self._removal(following.base_index, [])
        if cleaned.rewrites:
            changes.append(lambda: store.rewrite(cleaned.rewrites, segment.base_offset))
            state.segments.resize(segment, segment.size + cleaned.growth)
        if cleaned.newest is not None:
            segment.max_timestamp, segment.max_timestamp_batch = cleaned.newest
        name, value = checkpoint.segment_name(segment.base_offset), segment.encode()
        changes.append(lambda: store.put_state(name, value))
        gone = [last for last in cleaned.markers if state.aborted.remove(last)]
        changes += (partial(store.delete_state, checkpoint.aborted_name(last)) for last in gone)
        return self._log.write_checkpoint(changes)

    def end_cleaning(self, end: Offset) -> Promise[None]:
        """All before `end` is clean. The entries of clean segments have no more use: their batches are not as written."""
        state = self._log.state
        segments = state.segments
        state.cleaned_offset = max(state.cleaned_offset, end)
        index = segments.holding(end).base_index
        names = [checkpoint.segment_name(segment.base_offset) for segment in segments.drop_empty()]
        changes = self._removal(index, [])
        changes += (partial(self._log.store.delete_state, name) for name in names)
        self._log.segments_changed()
        self._log.tail.drop_before(end)
        return self._log.write_checkpoint(changes)
