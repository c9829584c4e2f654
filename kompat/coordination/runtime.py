"""Runs a state machine on a partition: decide, append, apply, commit, reply (docs/adr/0003-apply-at-append.md).

A command's records are applied as soon as they are appended, so that the next command sees them and need not wait. A
reply is only sent when its records, and all that were decided before, are committed. If a commit fails, the machine is
ahead of the log: it is rebuilt from the log before any further reply.

It runs on the leader of its partition. A broker that loses the leadership discards the machine, one that gains it builds it
from the log; on other brokers commands are refused with NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.coordination import reading
from kompat.coordination.batches import PlainBatches
from kompat.coordination.decision import Decision
from kompat.coordination.machine import BatchCodec, Codec, Machine, Patient, Snapshotting, Timed
from kompat.coordination.skipped import Skipped
from kompat.coordination.snapshots import Snapshots
from kompat.coordination.timers import Alarm
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Origin, Partition
from kompat.log.storage.store import PartitionStore
from kompat.types import Millis, Offset

M = TypeVar("M", bound=Machine[Any])
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_SNAPSHOT_AFTER_BYTES = 1 << 20  # of log since the last snapshot, and no less than its size
_JUMP_MS = 1000  # of the wall clock against monotonic time; less is drift, which is corrected when it adds up to this
_TURN_SECONDS = 0.01  # a long replay yields to other tasks this often


class Listener(Protocol[R_contra]):
    """Keeps a view of the committed state, or acts on it."""

    def loaded(self) -> None:
        """The machine was built from the log: everything received before is invalid."""
        ...

    def committed(self, records: Sequence[R_contra]) -> None: ...


class Runtime(Generic[M, R]):
    def __init__(
        self,
        make: Callable[[], M],
        codec: Codec[R],
        partition: Partition,
        *,
        clock: Clock,
        batches: BatchCodec[R] | None = None,
        store: PartitionStore | None = None,
        listener: Listener[R] | None = None,
        ticked: Callable[[Any], None] | None = None,
        failures: Mapping[ErrorCode, ErrorCode] | None = None,
        snapshot_after: int = _SNAPSHOT_AFTER_BYTES,
        is_leading: bool = True,
    ) -> None:
        """`store` is the partition's: it has the snapshots, if the machine makes any. `ticked` receives the replies to ticks,
        which have no caller. `failures`: the error codes for callers when the log fails. `is_leading`: False if it has to
        wait for `lead`."""
        self._make = make
        self._batches: BatchCodec[R] = batches or PlainBatches(codec)
        self.partition = partition
        self.skipped = Skipped(partition)
        self._clock = clock
        self._listener = listener
        self._ticked = ticked
        self._failures = failures or {}
        self._snapshot_after = snapshot_after
        self._snapshot_size = 0
        self._since_snapshot = 0
        self._tail = Promise.resolved(None)  # the newest append
        self._loading: asyncio.Task[None] | None = None
        self._is_loaded = False
        self._is_leading = is_leading
        self.epoch = partition.leader_epoch  # of its leadership
        self.machine: M = make()
        can_snapshot = store is not None and isinstance(self.machine, Snapshotting)
        self._snapshots = Snapshots(store, codec) if store is not None and can_snapshot else None
        self._alarm = Alarm(clock, self._next_deadline, self._tick) if isinstance(self.machine, Timed) else None
        self._is_patient = isinstance(self.machine, Patient)
        self._skew = self._wall_ahead()
        self.committed_offset = Offset(0)  # the next that is not committed yet

    # -- commands --------------------------------------------------------------------------------------------------
    async def run(self, command: Callable[[M], Decision[R, T]]) -> T:
        """Decide, and reply when everything that the reply depends on is committed."""
        refusal: KafkaError | None = None
        try:
            while not self._is_ready or self._is_snapshot_due():
                await (self._snapshot() if self._is_ready else self._loaded())
            if self._is_patient:
                self._follow_clock()
            try:
                decision = command(self.machine)
            except KafkaError as error:
                refusal = error
            else:
                self._carry_out(decision)
            await self._tail  # the reason of the refusal may not be committed yet either
        except KafkaError as failure:
            self._raise_translated(failure)
        if refusal is not None:
            raise refusal
        return decision.reply

    def _raise_translated(self, failure: KafkaError) -> NoReturn:
        """Callers get a coordinator's error instead of one of the log."""
        code = self._failures.get(failure.code)
        if code is None:
            raise failure
        raise KafkaError(code, failure.message) from failure

    def run_now(self, command: Callable[[M], Decision[R, T]]) -> tuple[T, Promise[None]] | None:
        """As `run`, without a coroutine: the reply, and the promise after which it may be sent. None: `run` has to wait first."""
        if not self._is_ready or self._is_snapshot_due():
            return None
        if self._is_patient:
            self._follow_clock()
        decision = command(self.machine)
        self._carry_out(decision)
        return decision.reply, self._tail

    def _carry_out(self, decision: Decision[R, Any]) -> None:
        if decision.records:
            self._append(decision.records)
        if self._alarm is not None:
            self._alarm.arm()

    def _append(self, records: Sequence[R]) -> None:
        appended = None
        for batch in self._batches.encode(records, self._clock.now()):
            # All batches of a decision are in one turn of the group commit: they are written as a whole or not at all.
            try:
                appended = self.partition.append(memoryview(batch), origin=Origin.OWNER)
            except KafkaError as error:
                # A fenced producer has changed nothing. Else the soft state of the machine, with the replies that it holds,
                # is ahead of the log: it is rebuilt.
                if appended is not None or error.code not in _FENCED:
                    self._discard()
                raise
            self._since_snapshot += len(batch)
        if appended is None:
            return
        for record in records:
            self.machine.apply(record)
        self._tail = appended.pending
        end = Offset(appended.last_offset + 1)
        self._tail.add_done_callback(lambda pending: self._ended(pending, records, end))

    def _ended(self, pending: Promise[None], records: Sequence[R], end: Offset) -> None:
        if pending.error is not None:
            self._discard()
            return
        if self._is_loaded:  # else the next load includes it
            self.committed_offset = end
            if self._listener is not None:
                self._listener.committed(records)

    def _discard(self) -> None:
        """The machine differs from the log. It is loaded again without a command, because a timer may be the only one to need it."""
        self._is_loaded = False
        if self._alarm is not None:
            self._alarm.arm()

    # -- leading ---------------------------------------------------------------------------------------------------
    @property
    def is_leading(self) -> bool:
        """Whether it still leads in the epoch in which `lead` was called. The partition learns first that this has ended: decisions
        after that may contradict those of the next leader."""
        partition = self.partition
        return self._is_leading and partition.is_led and partition.leader_epoch == self.epoch

    @property
    def _is_ready(self) -> bool:
        return self._is_loaded and self.is_leading

    def lead(self) -> asyncio.Task[None]:
        """This broker leads the partition from now on: resume what is in progress."""
        self.resign()
        self._is_leading = True
        self.epoch = self.partition.leader_epoch
        self._loading = loading = asyncio.ensure_future(self._load())
        loading.add_done_callback(self._taken_up)
        return loading

    def _taken_up(self, loading: asyncio.Task[None]) -> None:
        """What is in progress cannot wait for a command: if this load has failed, another one is started."""
        if not loading.cancelled() and loading.exception() is not None and self._loading is loading:
            self._loading = None
            self._discard()

    def resign(self) -> None:
        """Another broker leads the partition, or will: its writes make this machine's state invalid."""
        self._is_leading = self._is_loaded = False
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        self.machine = self._make()

    # -- loading ---------------------------------------------------------------------------------------------------
    async def load(self) -> None:
        """Build the machine from its snapshot and the log after it."""
        try:
            await self._loaded()
        except KafkaError as failure:
            self._raise_translated(failure)

    async def _loaded(self) -> None:
        while not self._is_ready:
            if not self.is_leading:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self._loading is None:
                self._loading = asyncio.ensure_future(self._load())
            try:
                await _unless_resigned(self._loading)
            finally:
                if self._loading is not None and self._loading.done():
                    self._loading = None

    async def _load(self) -> None:
        await _quietly(self._tail)
        self._tail = Promise.resolved(None)
        machine, position = self._make(), self.partition.log_start_offset
        snapshot = self._snapshots.read() if self._snapshots is not None else None
        if snapshot is not None:
            position = snapshot.next_offset
            self._snapshot_size = snapshot.size
            self.skipped.apply_snapshot(machine, snapshot)
        self._since_snapshot = 0
        while position < self.partition.log_end_offset:
            if position >= self.partition.high_watermark:
                # Written, but not committed: a commit is in progress, or the flush failed. The log decides.
                await self.partition.when_committed()
            before, position = position, await self._replay(machine, position)
            if position == before:
                await asyncio.sleep(_TURN_SECONDS)  # yield to the task that can change it
        self.machine = machine
        self.committed_offset = position
        self._is_loaded = True
        if self._listener is not None:
            self._listener.loaded()
        if self._alarm is not None:
            self._alarm.arm()

    async def _replay(self, machine: M, position: Offset) -> Offset:
        found = await reading.read(self.partition, position)
        if not found.buffers:  # the cleaner may have removed everything after this point
            return max(position, found.high_watermark)
        loop = asyncio.get_running_loop()
        pause = loop.time() + _TURN_SECONDS
        for written in reading.decode(found, position, self._batches, self.skipped):
            for record, offset in zip(written.records, written.offsets, strict=True):
                self.skipped.apply(machine, record, offset)
            position = written.end
            self._since_snapshot += written.size
            if loop.time() > pause:
                await asyncio.sleep(0)
                pause = loop.time() + _TURN_SECONDS
        return position

    # -- snapshots -------------------------------------------------------------------------------------------------
    def _is_snapshot_due(self) -> bool:
        return self._snapshots is not None and self._since_snapshot > max(self._snapshot_after, self._snapshot_size)

    async def _snapshot(self) -> None:
        """Take a snapshot when nothing is in progress: only then the machine's state is that of the log end."""
        while not self._tail.is_done:
            await _quietly(self._tail)
        machine: object = self.machine
        if not (self._is_loaded and self._is_snapshot_due() and self._snapshots and isinstance(machine, Snapshotting)):
            return  # another command was faster, or what was in progress has failed
        end = self.partition.log_end_offset
        snapshot = self._snapshots.encode(machine.snapshot(), end, self._clock.now())
        self._snapshot_size = len(snapshot[1] or b"")
        self._since_snapshot = 0
        # In one write with the snapshot, since the log before it is not needed any more. If that fails, the old snapshot
        # is still there, and the next one is due when the log has grown by as much again.
        with contextlib.suppress(KafkaError):
            self.partition.write_states([snapshot])
            await self.partition.delete_records(end, origin=Origin.OWNER)

    # -- time ------------------------------------------------------------------------------------------------------
    def _next_deadline(self) -> Millis | None:
        if not self.is_leading:
            return None
        if not self._is_loaded:
            return Millis(0)
        return cast("Timed[R]", self.machine).next_deadline()

    def _wall_ahead(self) -> int:
        return self._clock.now() - int(self._clock.monotonic() * 1000)

    def _follow_clock(self) -> None:
        """Called right before a command, so that its time and its deadlines agree."""
        skew = self._wall_ahead()
        moved = skew - self._skew
        if abs(moved) >= _JUMP_MS:
            self._skew = skew
            cast("Patient", self.machine).clock_moved(moved)
            if self._alarm is not None:
                self._alarm.clock_moved()

    async def _tick(self) -> None:
        if self.partition.is_dropped:
            if self._alarm is not None:
                self._alarm.close()
            return
        if not self.is_leading:
            return
        reply = await self.run(lambda machine: cast("Timed[R]", machine).tick(self._clock.now()))
        if self._ticked is not None:
            self._ticked(reply)

    async def close(self) -> None:
        """Wait for what is in progress; stop the timer."""
        if self._alarm is not None:
            self._alarm.close()
        if self._loading is not None:  # its waiters may be gone, and it must not read from a closed log
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await _quietly(self._tail)


async def _unless_resigned(loading: asyncio.Task[None]) -> None:
    """Wait for a load; if it was cancelled, the caller has to check again."""
    try:
        await asyncio.shield(loading)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if not loading.cancelled() or (current is not None and current.cancelling()):
            raise


async def _quietly(pending: Promise[None]) -> None:
    """Wait until it has succeeded or failed."""
    with contextlib.suppress(KafkaError):
        await pending
