"""Follows a machine's committed records on a broker that need not lead its partition.

The runtime decides, on the leader. Other brokers read the committed decisions from their own replica of the log. So their
view of the state is the same as on the leader, only a little later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kompat.coordination import reading
from kompat.coordination.batches import PlainBatches
from kompat.coordination.machine import BatchCodec, Codec, Machine
from kompat.coordination.skipped import Skipped
from kompat.coordination.snapshots import Snapshots
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition, ReadResult
from kompat.types import Offset

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine[Any])
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_RETRY = 1.0  # seconds, after a read that failed
_LONGEST_RETRY = 30.0  # after the same bug repeatedly


class FollowListener(Protocol[M_contra, R_contra]):
    def rebuilt(self, machine: M_contra) -> None:
        """Everything received before is invalid; the machine belongs to the listener."""
        ...

    def committed(self, records: Sequence[R_contra]) -> None: ...


class Following(Generic[M, R]):
    def __init__(
        self,
        make: Callable[[], M],
        codec: Codec[R],
        partition: Partition,
        listener: FollowListener[M, R],
        batches: BatchCodec[R] | None = None,
    ) -> None:
        self._make = make
        self._batches: BatchCodec[R] = batches or PlainBatches(codec)
        self._snapshots = Snapshots(partition.store, codec)
        self._partition = partition
        self.skipped = Skipped(partition)
        self._listener = listener
        self._task: asyncio.Task[None] | None = None  # reads what is not in memory
        self._waiters: list[tuple[Offset, asyncio.Future[None]]] = []
        self._is_closed = False
        self._is_broken = (
            False  # the listener has applied only a part of something: it has to be rebuilt from the beginning
        )
        self.position = Offset(0)  # the next offset that the listener has not received

    async def start(self) -> None:
        """Build the machine from the committed records, and follow the log from there on."""
        await self._load()
        self._partition.watch(self._advanced)
        self._advanced(self._partition)

    async def close(self) -> None:
        self._is_closed = True
        self._partition.unwatch(self._advanced)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _, waiter in self._waiters:
            waiter.cancel()

    async def reach(self, offset: Offset, seconds: float) -> bool:
        """Wait until the listener has received everything before an offset; returns whether it did so in time."""
        if self.position >= offset:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            return False
        finally:
            with contextlib.suppress(ValueError):
                self._waiters.remove((offset, waiter))
        return True

    # -- following -------------------------------------------------------------------------------------------------
    def _advanced(self, _: object) -> None:
        if self._task is not None or self._is_closed:
            return
        try:
            while self.position < self._partition.high_watermark:
                found = reading.read_memory(self._partition, self.position)
                if found is None:
                    break
                self._take(found)
            else:
                return
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # it was dropped
                return
        except Exception:  # noqa: BLE001 - logged there
            self._break()
        self._start_catching_up()

    def _start_catching_up(self) -> None:
        self._task = asyncio.ensure_future(self._catch_up())
        self._task.add_done_callback(self._caught_up)

    def rebuild(self) -> None:
        """The listener failed to apply something that it had accepted: rebuild it."""
        self._is_broken = True
        if self._task is None and not self._is_closed:
            self._start_catching_up()

    def _take(self, found: ReadResult) -> None:
        if not found.buffers:  # the cleaner may have removed everything after this point
            self.position = max(self.position, found.high_watermark)
        for written in reading.decode(found, self.position, self._batches, self.skipped):
            # Moved first: the listener may read it.
            self.position = written.end
            self._listener.committed(written.records)
        self._wake()

    def _wake(self) -> None:
        for offset, waiter in self._waiters:
            if offset <= self.position and not waiter.done():
                waiter.set_result(None)

    def _break(self) -> None:
        """A bug must not keep this broker from following later records."""
        logger.exception("%s could not be followed, and is read anew", self._partition)
        self._is_broken = True

    async def _catch_up(self) -> None:
        pause = _RETRY
        while not self._partition.is_dropped and (self._is_broken or self.position < self._partition.high_watermark):
            try:
                if self._is_broken:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_RETRY)
                await self._go_on()
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    logger.warning("%s cannot be followed: %s", self._partition, error)
                    await asyncio.sleep(_RETRY)
            except Exception:  # noqa: BLE001 - logged there
                self._break()

    async def _go_on(self) -> None:
        if self._is_broken or self.position < self._partition.log_start_offset:
            await self._load()  # or a snapshot has replaced the records that were not read
            self._is_broken = False
        else:
            self._take(await reading.read(self._partition, self.position))

    def _caught_up(self, done: asyncio.Task[None]) -> None:
        self._task = None
        if not done.cancelled():
            self._advanced(self._partition)

    # -- loading ---------------------------------------------------------------------------------------------------
    async def _load(self) -> None:
        while True:
            machine, position = self._make(), self._partition.log_start_offset
            snapshot = self._snapshots.read()
            if snapshot is not None:
                position = snapshot.next_offset
                self.skipped.apply_snapshot(machine, snapshot)
            try:
                position = await self._replay(machine, position)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await asyncio.sleep(0)  # a newer snapshot has been written meanwhile
                continue
            break
        self.position = position
        self._listener.rebuilt(machine)
        self._wake()

    async def _replay(self, machine: M, position: Offset) -> Offset:
        while position < self._partition.high_watermark:
            found = await reading.read(self._partition, position)
            if not found.buffers:
                return max(position, found.high_watermark)
            for written in reading.decode(found, position, self._batches, self.skipped):
                for record, offset in zip(written.records, written.offsets, strict=True):
                    self.skipped.apply(machine, record, offset)
                position = written.end
        return position
