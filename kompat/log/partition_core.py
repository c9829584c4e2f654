"""What a partition is made of: its state, the turns that are under way, and how far they have come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar
from zlib import crc32

from kompat.clock import Clock
from kompat.config.topic import TopicConfig
from kompat.errors import DamagedBatch, DamagedData, DamagedOffsets, ErrorCode, KafkaError, StorageError
from kompat.log import checkpoint, recovery
from kompat.log.cache import Tail, TailCache
from kompat.log.commit import GroupCommit, Pending
from kompat.log.damages import Damages
from kompat.log.demand import Demand
from kompat.log.intake import Intake, StateWrite
from kompat.log.producers import Producers
from kompat.log.read_ahead import ReadAhead
from kompat.log.refusals import Refusals
from kompat.log.replicated import Replicated
from kompat.log.results import Origin
from kompat.log.segments import Segment, Segments
from kompat.log.store import PartitionStore
from kompat.log.waiters import Waiters
from kompat.meters import TopicMeter
from kompat.types import LeaderEpoch, LogId, Millis, Offset

CHECKPOINT_EVERY = 4096  # entries: what a restart has to replay at most
# Bytes between two entries of the time index, at least: a look-up walks over the batches in between, which is cheap,
# while every entry is one more key to write.
TIME_INDEX_EVERY = 64 * 1024
MOST_MENDED = 1000  # stretches that one read has mended before it gives up

T = TypeVar("T")
Change = Callable[[], None]


class LogCore:
    __slots__ = (
        "_cache",
        "_clock",
        "_commit",
        "_jitter",
        "_newest",
        "_read_ahead",
        "_refusals",
        "_since_checkpoint",
        "_since_index",
        "_tail",
        "_turn",
        "_turns",
        "_unforced",
        "_waiters",
        "config",
        "damages",
        "demand",
        "high_watermark",
        "index",
        "intake",
        "is_dropped",
        "is_internal",
        "last_stable_offset",
        "leader_epoch",
        "log_id",
        "meter",
        "replica",
        "state",
        "store",
        "topic",
    )

    def __init__(
        self,
        log_id: LogId,
        topic: str,
        index: int,
        *,
        store: PartitionStore,
        commit: GroupCommit,
        config: TopicConfig,
        clock: Clock,
        cache: TailCache,
        read_ahead: ReadAhead | None = None,
        damages: Damages | None = None,
        is_internal: bool = False,
    ) -> None:
        """Recover the partition from its store. `is_internal`: it is of a topic that only the broker writes to."""
        self.log_id = log_id
        self.topic = topic
        self.index = index
        self.config = config  # may be replaced at any time, by `configure`
        self.store = store
        self._commit = commit
        self._clock = clock
        self._cache = cache
        self._read_ahead = read_ahead or ReadAhead(limit=0)
        self.damages = damages or Damages()
        self.is_dropped = False
        self.is_internal = is_internal
        self.intake: Intake | None = None  # set from above, where extensions are heeded
        self.demand: Demand | None = None  # set from above, while records are held back for those who ask
        self.replica: Replicated | None = None  # set from above, where there are other replicas of it
        self.meter = TopicMeter()  # replaced from above, where its topic's is kept
        self._turn: Pending | None = None  # that the newest append belongs to
        self._turns: dict[Pending, Offset] = {}  # under way, oldest first, and where the log ends after each
        self._waiters: Waiters[LogCore] | None = None  # most partitions never have one
        self._refusals: Refusals | None = None  # most partitions never refuse a batch
        self._unforced = 0  # records since the disk was last asked for, where the topic counts them
        self.leader_epoch = LeaderEpoch(0)
        self._recover()
        self.lead(LeaderEpoch(max(0, self.state.epochs.latest)))
        self._tail = Tail(self.state.log_end_offset)
        self.high_watermark = self.last_stable_offset = self.state.log_end_offset
        self._update_stable_offset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.index} {self.log_start_offset}..{self.log_end_offset}>"

    # -- what it knows ---------------------------------------------------------------------------------------------
    @property
    def is_led(self) -> bool:
        """Does this broker lead it?"""
        return self.replica is None or self.replica.is_leading

    @property
    def log_start_offset(self) -> Offset:
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self.state.log_end_offset

    @property
    def size(self) -> int:
        return self.state.segments.size

    @property
    def segments(self) -> Segments:
        return self.state.segments

    @property
    def producers(self) -> Producers:
        return self.state.producers

    def end_offset_for_epoch(self, epoch: int) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch up to `epoch` and where it ends; (-1, -1) where `epoch` is unknown."""
        return self.state.epochs.end_offset(epoch, self.state.log_end_offset)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        if self.intake is not None:
            self.intake.configured()

    def lead(self, epoch: LeaderEpoch) -> None:
        """From here on this broker writes in `epoch`."""
        self.leader_epoch = epoch
        self.state.epochs.assign(epoch, self.state.log_end_offset)

    def require_writable(self, origin: Origin) -> None:
        """The one gate to internal topics: INVALID_TOPIC_EXCEPTION for all but their owner, whichever way a write comes."""
        if self.is_internal and origin is not Origin.OWNER:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot write to internal topic {self.topic}")

    # -- commit ----------------------------------------------------------------------------------------------------
    def _join_turn(self) -> Pending:
        """What is staged so far is committed with this turn."""
        turn = self._commit.turn()
        if turn is not self._turn:
            self._turn = turn
            turn.add_done_callback(self._committed)
        self._turns[turn] = self.state.log_end_offset
        return turn

    def settle(self) -> Pending:
        """Commit the log as it stands: also what is written but could not be forced to disk, and so was not committed."""
        return self._join_turn() if self.replica is None else self.replica.settle()

    def write_states(self, writes: Sequence[StateWrite]) -> Pending:
        """Write states of an extension, without a batch in the log."""
        if self.replica is not None:
            return self.replica.propose_states(writes)
        turn = self._join_turn()
        self._stage_states(writes, turn)
        return turn

    def _stage_states(self, writes: Sequence[StateWrite], turn: Pending) -> None:
        store = self.store
        for name, value in writes:
            if value is None:
                store.delete_state(name)
            else:
                store.put_state(name, value)
        if self.intake is not None:
            self.intake.staged(writes, turn)

    def _committed(self, turn: Pending) -> None:
        end = self._turns.pop(turn, None)
        if end is None or turn.error is not None:
            return
        if self.replica is not None:
            self.replica.written(turn)
        elif end > self.high_watermark:
            self.advance(end)

    def advance(self, high_watermark: Offset) -> None:
        """What lies before is committed."""
        self.high_watermark = high_watermark
        self._update_stable_offset()
        if self._waiters:
            self._waiters.fire(self)

    def _update_stable_offset(self) -> None:
        producers = self.state.producers
        self.last_stable_offset = self.high_watermark
        if producers.has_transactions:
            producers.advance(self.high_watermark)
            first = producers.first_unstable()
            if first is not None and first < self.high_watermark:
                self.last_stable_offset = max(first, self.state.log_start_offset)

    @property
    def is_staged(self) -> bool:
        return bool(self._turns)

    def refused(self, producer_id: int, epoch: int, sequence: int) -> None:
        """A numbering producer's batch was turned away, and its producer was asked to come again."""
        if self._refusals is None:
            self._refusals = Refusals()
        self._refusals.note(producer_id, epoch, sequence, self._refusal_time())

    def has_refused(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether that has happened a moment ago."""
        return self._refusals is not None and self._refusals.holds(producer_id, epoch, sequence, self._refusal_time())

    def _refusal_time(self) -> Millis:
        return Millis(int(self._clock.monotonic() * 1000))

    def reload(self) -> None:
        """The disk refused a turn: go back to what the store holds. Earlier turns may still be on their way."""
        self.restore()
        if self.replica is not None:
            self.replica.failed()
        else:
            self.state.epochs.assign(self.leader_epoch, self.state.log_end_offset)

    def restore(self) -> None:
        """Forget what is in memory, and take up what the store holds."""
        self._recover()
        end = self.state.log_end_offset
        self._turn = None
        self._turns = {turn: until for turn, until in self._turns.items() if until <= end}
        self._tail.clear(end)
        self.high_watermark = min(self.high_watermark, end)
        self._update_stable_offset()
        if self.intake is not None:
            self.intake.reload()

    def _recover(self) -> None:
        self.state = state = recovery.recover(self.store, self._clock.now())
        # A log that has never been written to gets its first checkpoint with its first append.
        self._since_checkpoint = 0 if state.next_index > 1 else CHECKPOINT_EVERY
        self._since_index = TIME_INDEX_EVERY
        self._newest = state.segments.max_timestamp
        self._jitter = self._roll_jitter(state.segments.active)
        if state.is_rebuilt:
            self._write_anew()

    def _write_anew(self) -> None:
        """Make what is stored beside the entries agree with them, before the log grows over it."""
        for name in checkpoint.stale(self.store, self.state):
            self.store.delete_state(name)
        for segment in self.state.segments.sealed:
            self.store.put_state(checkpoint.segment_name(segment.base_offset), segment.encode())
        self.store.put_state(checkpoint.CHECKPOINT, checkpoint.encode(self.state))
        self._join_turn()
        self.state.is_rebuilt = False

    def _roll(self, now: Millis) -> None:
        state = self.state
        sealed = state.segments.roll(state.log_end_offset, state.next_index, now)
        name, value = checkpoint.segment_name(sealed.base_offset), sealed.encode()
        self._jitter = self._roll_jitter(state.segments.active)
        self.write_checkpoint([lambda: self.store.put_state(name, value)])

    def _roll_jitter(self, segment: Segment) -> int:
        """Up to segment.jitter.ms, so that partitions do not all roll at once; the same after a restart."""
        most = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return crc32(segment.base_offset.to_bytes(8, "big"), crc32(self.log_id.key)) % (most + 1) if most > 0 else 0

    def write_checkpoint(self, changes: Sequence[Change] = ()) -> Pending:
        """Stage the state as it is, and in one write with it the changes to the store that it tells of.

        Where there are other replicas, that waits until all of it is committed: what was not may be taken back, and then
        an older checkpoint is needed.
        """
        encoded = checkpoint.encode(self.state)
        self._since_checkpoint = 0
        if self.replica is not None:
            return self.replica.defer([*changes, lambda: self.store.put_state(checkpoint.CHECKPOINT, encoded)])
        turn = self._join_turn()
        for change in changes:
            change()
        self.store.put_state(checkpoint.CHECKPOINT, encoded)
        return turn

    def close(self) -> bool:
        """Stage a checkpoint, so that the next start replays nothing; whether there was a need for it."""
        if self.is_dropped:
            return False
        if self.replica is not None:
            self.replica.close()
        if self._since_checkpoint and self.state.next_index > 1:
            self.write_checkpoint()
        return self.is_staged

    def drop(self) -> None:
        """The topic was deleted: whoever waits hears it with the next read."""
        self.is_dropped = True
        self._tail.clear(self.state.log_end_offset)
        if self.replica is not None:
            self.replica.drop()
        if self.intake is not None:
            self.intake.drop()
        if self._waiters:
            self._waiters.fire(self)

    # -- others ----------------------------------------------------------------------------------------------------
    def watch(self, callback: Callable[[LogCore], None]) -> None:
        """Be called whenever more has become readable."""
        if self._waiters is None:
            self._waiters = Waiters()
        self._waiters.add(callback)

    def unwatch(self, callback: Callable[[LogCore], None]) -> None:
        if self._waiters is not None:
            self._waiters.remove(callback)

    async def read_mended(self, work: Callable[[], T]) -> T:
        """Carry out a read of the store in a worker thread. What it finds damaged is mended first, where that is possible.

        Raises CORRUPT_MESSAGE where it is not, KAFKA_STORAGE_ERROR where the disk fails.
        """
        loop = asyncio.get_running_loop()
        for _ in range(MOST_MENDED):
            try:
                return await loop.run_in_executor(None, work)
            except DamagedBatch as damage:
                await self.mend(damage)
            except (StorageError, DamagedData) as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} has too many damaged batches for one read")

    async def mend(self, damage: DamagedBatch) -> None:
        """Put what another replica has in the place of damaged batches. Raises KafkaError where nobody has them."""
        self.damages.find(f"{self.topic}-{self.index}", damage)
        if self.replica is None:
            raise DamagedOffsets(damage.first, damage.last)
        await self.replica.mend(damage)
