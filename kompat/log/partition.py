"""A partition: append, read, high watermark and last stable offset. The log's semantics, once.

An append is checked, stamped with its offset and staged; it becomes visible (the high watermark passes it) when the
turn's group commit has written it. A partition with one replica commits what is written; one with others, what a majority
of them has (kompat/raft/replica). If the disk refuses a turn, the partition goes back to what the store holds, and all is as before
that turn.

It owns four collaborators: `log` has the state and the store (local_log.py), `appender` lets the leader's batches in, `reader` reads
them, `upkeep` is for retention, the cleaner and mending. What followers are sent goes straight to the log (raft/replica/log.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kompat.clock import Clock
from kompat.common.meters import TopicMeter
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import DamagedBatch, DamagedOffsets, ErrorCode, KafkaError
from kompat.log.appender import Appender
from kompat.log.cache import TailCache
from kompat.log.checkpoint import LogState
from kompat.log.commit import GroupCommit
from kompat.log.damage_report import DamageReport
from kompat.log.fetch_listener import FetchListener
from kompat.log.interceptor import AppendInterceptor, Prepared, StateWrite
from kompat.log.local_log import LocalLog
from kompat.log.partition_api import Appended, FoundOffset, Isolation, Origin, ReadResult
from kompat.log.producers import Producers
from kompat.log.read_ahead import ReadAhead
from kompat.log.reader import LogReader
from kompat.log.replica_api import ReplicaApi
from kompat.log.storage.store import PartitionStore
from kompat.log.turns import Turns
from kompat.log.upkeep import ALL_COMMITTED, Upkeep
from kompat.log.validation import Writable
from kompat.log.waiters import Waiters
from kompat.types import NO_TIMESTAMP, LeaderEpoch, LogId, Millis, Offset

__all__ = ["ALL_COMMITTED", "Appended", "FoundOffset", "Isolation", "Origin", "Partition", "ReadResult"]

T = TypeVar("T")


class Partition:
    __slots__ = (
        "_waiters",
        "appender",
        "damages",
        "fetch_listener",
        "high_watermark",
        "index",
        "interceptor",
        "is_dropped",
        "is_internal",
        "last_stable_offset",
        "leader_epoch",
        "log",
        "log_id",
        "meter",
        "reader",
        "topic",
        "upkeep",
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
        damages: DamageReport | None = None,
        meter: TopicMeter | None = None,
        is_internal: bool = False,
    ) -> None:
        """Recover the partition from its store. `is_internal`: it is of a topic that only the broker writes to."""
        self.log_id = log_id
        self.topic = topic
        self.index = index
        self.is_internal = is_internal
        self.is_dropped = False
        self.damages = damages or DamageReport()
        self.meter = meter or TopicMeter()  # its topic's
        self.interceptor: AppendInterceptor | None = None  # extensions set it, where they are enabled
        self.fetch_listener: FetchListener | None = (
            None  # extensions set it, while they hold records back until a consumer waits
        )
        self._waiters: Waiters[Partition] | None = None  # most partitions never have one
        turns = Turns(commit, self._written)
        self.log = log = LocalLog(log_id, store=store, turns=turns, config=config, clock=clock, cache=cache)
        self.appender = Appender(self, log)
        self.reader = LogReader(self, log, read_ahead or ReadAhead(limit=0))
        self.upkeep = Upkeep(self, log)
        self.lead(LeaderEpoch(max(0, log.state.epochs.latest)))
        self.high_watermark = self.last_stable_offset = log.state.log_end_offset
        self._update_stable_offset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.index} {self.log_start_offset}..{self.log_end_offset}>"

    # -- what it knows ---------------------------------------------------------------------------------------------
    @property
    def replica(self) -> ReplicaApi | None:
        """This broker's one of several; None: there are no others."""
        return self.log.replica

    @property
    def is_led(self) -> bool:
        """Does this broker lead it?"""
        replica = self.log.replica
        return replica is None or replica.is_leading

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def store(self) -> PartitionStore:
        return self.log.store

    @property
    def state(self) -> LogState:
        return self.log.state

    @property
    def log_start_offset(self) -> Offset:
        return self.log.state.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self.log.state.log_end_offset

    @property
    def size(self) -> int:
        return self.log.state.segments.size

    @property
    def producers(self) -> Producers:
        return self.log.state.producers

    def end_offset_for_epoch(self, epoch: int) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch up to `epoch` and where it ends; (-1, -1) where `epoch` is unknown."""
        return self.log.state.epochs.end_offset(epoch, self.log.state.log_end_offset)

    def configure(self, config: TopicConfig) -> None:
        self.log.config = config
        if self.interceptor is not None:
            self.interceptor.configured()

    def replicate(self, replica: ReplicaApi | None) -> None:
        """From here on the replicas decide what is committed; None: it has no others."""
        self.log.replica = replica

    def lead(self, epoch: LeaderEpoch) -> None:
        """From here on this broker writes in `epoch`."""
        self.leader_epoch = epoch
        self.log.state.epochs.assign(epoch, self.log.state.log_end_offset)

    def require_writable(self, origin: Origin) -> None:
        """The one gate to internal topics: INVALID_TOPIC_EXCEPTION for all but their owner, whichever way a write comes."""
        if self.is_internal and origin is not Origin.OWNER:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot write to internal topic {self.topic}")

    # -- append ----------------------------------------------------------------------------------------------------
    def append(
        self,
        records: Writable,
        *,
        origin: Origin = Origin.CLIENT,
        writes: Sequence[StateWrite] = (),
        prepared: Prepared | None = None,
        is_patient: bool = False,
        client_id: str | None = None,
    ) -> Appended:
        """Check, stamp in place and stage one batch, and states along. Its bytes are the log's from here on. Raises KafkaError.

        `is_patient`: raises Costly where its records or their headers take long, and is called again with what was `prepared`.
        `client_id`: of the producer.
        """
        return self.appender.append(records, origin, writes, prepared, is_patient, client_id)

    def write_states(self, writes: Sequence[StateWrite]) -> Promise[None]:
        """Write states of an extension, without a batch in the log."""
        if self.log.replica is not None:
            return self.log.replica.propose_states(writes)
        turn = self.log.join_turn()
        self.stage_states(writes, turn)
        return turn

    def stage_states(self, writes: Sequence[StateWrite], turn: Promise[None]) -> None:
        """Stage states with the turn, and notify the interceptor."""
        self.log.stage_states(writes)
        if self.interceptor is not None:
            self.interceptor.staged(writes, turn)

    def refused(self, producer_id: int, epoch: int, sequence: int) -> None:
        """An idempotent producer's batch was rejected with a retriable error."""
        self.appender.refused(producer_id, epoch, sequence)

    def has_refused(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether that happened a moment ago."""
        return self.appender.has_refused(producer_id, epoch, sequence)

    # -- commit ----------------------------------------------------------------------------------------------------
    def when_committed(self) -> Promise[None]:
        """Commit the log up to its end, including batches that were written but could not be forced to disk."""
        return self.log.join_turn() if self.log.replica is None else self.log.replica.when_committed()

    def _written(self, end: Offset) -> None:
        """A turn that this partition took part in is written, and the log with it up to `end`."""
        replica = self.log.replica
        if replica is not None:
            replica.written()
        elif end > self.high_watermark:
            self.advance(end)

    def advance(self, high_watermark: Offset) -> None:
        """Everything before the high watermark is committed."""
        self.high_watermark = high_watermark
        self._update_stable_offset()
        if self._waiters:
            self._waiters.fire(self)

    def _update_stable_offset(self) -> None:
        state = self.log.state
        producers = state.producers
        self.last_stable_offset = self.high_watermark
        if producers.has_transactions:
            producers.advance(self.high_watermark)
            first = producers.first_unstable()
            if first is not None and first < self.high_watermark:
                self.last_stable_offset = max(first, state.log_start_offset)

    def move_start(self, offset: Offset) -> None:
        self.log.move_start(offset)
        self._update_stable_offset()
        if self.interceptor is not None:
            self.interceptor.start_moved()

    async def delete_records(self, offset: Offset, *, origin: Origin = Origin.CLIENT) -> Offset:
        """Move the log's start to `offset`: the new start. Its space goes when whole segments lie before it."""
        self.require_writable(origin)
        return await self.upkeep.delete_records(offset)

    # -- life ------------------------------------------------------------------------------------------------------
    @property
    def is_staged(self) -> bool:
        return bool(self.log.turns.under_way)

    def reload(self) -> None:
        """A turn could not be written: go back to what the store holds. Earlier turns may still be under way."""
        self.restore()
        log = self.log
        if log.replica is not None:
            log.replica.failed()
        else:
            log.state.epochs.assign(self.leader_epoch, log.state.log_end_offset)

    def restore(self) -> None:
        """Forget what is in memory, and take up what the store holds."""
        self.log.restore()
        self.high_watermark = min(self.high_watermark, self.log.state.log_end_offset)
        self._update_stable_offset()
        if self.interceptor is not None:
            self.interceptor.reload()

    def close(self) -> bool:
        """Stage a checkpoint, so that the next start replays nothing; whether there was a need for it."""
        if self.is_dropped:
            return False
        if self.log.replica is not None:
            self.log.replica.close()
        if self.log.needs_checkpoint:
            self.log.write_checkpoint()
        return self.is_staged

    def drop(self) -> None:
        """The topic was deleted: waiting readers get the error with their next read."""
        self.is_dropped = True
        self.log.tail.clear(self.log.state.log_end_offset)
        if self.log.replica is not None:
            self.log.replica.drop()
        if self.interceptor is not None:
            self.interceptor.drop()
        if self._waiters:
            self._waiters.fire(self)

    # -- reads -----------------------------------------------------------------------------------------------------
    def watch(self, callback: Callable[[Partition], None]) -> None:
        """Call back whenever more has become readable."""
        if self._waiters is None:
            self._waiters = Waiters()
        self._waiters.add(callback)

    def unwatch(self, callback: Callable[[Partition], None]) -> None:
        if self._waiters is not None:
            self._waiters.remove(callback)

    def read(
        self, offset: Offset, max_bytes: int, isolation: Isolation, *, minimum_one: bool = True
    ) -> ReadResult | None:
        """Whole batches from the one that holds `offset`, from memory; None: they have to come from the store.

        At least one batch unless `minimum_one` is off, else at most `max_bytes`; nothing that is not committed, and
        with READ_COMMITTED nothing of open transactions. Raises OFFSET_OUT_OF_RANGE.
        """
        return self.reader.read(offset, max_bytes, isolation, minimum_one)

    async def read_stored(
        self, offset: Offset, max_bytes: int, isolation: Isolation, *, minimum_one: bool = True
    ) -> ReadResult:
        """As `read`, from the store, in a worker thread."""
        return await self.reader.read_stored(offset, max_bytes, isolation, minimum_one)

    async def read_around(self, offset: Offset, max_bytes: int, isolation: Isolation) -> ReadResult:
        """As `read_stored`, for the broker's own readers, which cannot seek: batches that no replica has any more are skipped."""
        while True:
            try:
                return await self.read_stored(offset, max_bytes, isolation)
            except DamagedOffsets as lost:
                offset = Offset(min(lost.last + 1, self.high_watermark))

    def available(self, offset: Offset, isolation: Isolation) -> int:
        """Bytes that a read at `offset` could give; for what is not in memory, an upper bound."""
        return self.reader.available(offset, isolation)

    def earliest(self) -> FoundOffset:
        state = self.log.state
        start = state.log_start_offset
        return FoundOffset(start, NO_TIMESTAMP, state.epochs.at(start))

    def latest(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> FoundOffset:
        end = self.last_stable_offset if isolation else self.high_watermark
        return FoundOffset(end, NO_TIMESTAMP, self.leader_epoch)

    async def offset_for_time(
        self, timestamp: Millis, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> FoundOffset | None:
        """The first readable record whose timestamp is at least `timestamp`."""
        return await self.reader.first_at_or_after(timestamp, self.log_start_offset, self.latest(isolation).offset)

    async def max_timestamp_offset(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> FoundOffset | None:
        """The first readable record that carries the newest timestamp."""
        return await self.reader.newest(self.log_start_offset, self.latest(isolation).offset)

    async def read_mended(self, work: Callable[[], T]) -> T:
        """Read the store in a worker thread; what is found damaged is mended first, where that is possible. Raises KafkaError."""
        return await self.reader.read_mended(work)

    async def mend(self, damage: DamagedBatch) -> None:
        """Replace damaged batches by those of another replica. Raises KafkaError where no replica has them."""
        self.damages.find(f"{self.topic}-{self.index}", damage)
        if self.log.replica is None:
            raise DamagedOffsets(damage.first, damage.last)
        await self.log.replica.mend(damage)
