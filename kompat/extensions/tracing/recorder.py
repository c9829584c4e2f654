"""Writes events down, a moment after they happened: what is traced neither waits for it nor fails with it.

Events are gathered for some milliseconds and appended to `__kompat_trace` in batches, with their index in the same write.
A broker that dies loses what it has gathered, and no more. Should more happen than can be written, the newest events are
dropped and counted. A broker that leads no partition of the topic sends its events to one that does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.extensions.tracing import index
from kompat.extensions.tracing.events import Happening
from kompat.extensions.tracing.index import Names, Row
from kompat.log.commit import Pending
from kompat.log.intake import StateWrite
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import Compression, Record, build_batch

logger = logging.getLogger(__name__)

MOST_GATHERED: Final = 20_000  # events
AT_ONCE: Final = 500  # events that are written before others get their turn
SOON, LATER = 0.01, 0.05  # seconds that events are gathered: when there are few, and when there are many
FEW: Final = 8  # events
UPKEEP_SECONDS: Final = 60.0
PRUNED_AT_ONCE: Final = 64  # batches
PRUNED_BYTES: Final = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds, while there is no topic to write to
SENT_WITHIN: Final = 10.0  # seconds that another broker is tried: meanwhile events are gathered
CLOSED_WITHIN: Final = 2.0  # seconds, when the broker stops


class Sending(Protocol):
    """Partitions that other brokers lead."""

    def exists(self) -> bool: ...

    async def send(self, spread: int, batch: bytearray, names: Names) -> None:
        """Until it is committed. Raises KafkaError."""
        ...


Partitions = Callable[[], Sequence[Partition]]
Observer = Callable[[Sequence[bytes]], None]


class Recorder:
    def __init__(self, before: Callable[[], None]) -> None:
        """`before` is called before events are written."""
        self._before = before
        self._gathered: deque[Happening] = deque()
        self._count = 0  # of events in it
        self._existing: Partitions = tuple
        self._ensure: Callable[[], Awaitable[Sequence[Partition]]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._upkeep: asyncio.TimerHandle | None = None
        self._making: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None  # one at a time
        self.elsewhere: Sending | None = None  # where there are other brokers
        self._pause = FIRST_PAUSE
        self._was_few = True
        self._newest = Pending.done()
        self._pruned: dict[Partition, int] = {}  # up to where the index is known to be clean
        self.observer: Observer | None = None  # is shown what was written
        self.written = 0  # events, since the start
        self.dropped = 0

    def start(self, existing: Partitions, ensure: Callable[[], Awaitable[Sequence[Partition]]]) -> None:
        """`existing` gives the partitions of `__kompat_trace`, where it exists; `ensure` makes it."""
        self._existing, self._ensure = existing, ensure
        self._loop = asyncio.get_running_loop()
        self._upkeep = self._loop.call_later(UPKEEP_SECONDS, self._keep_up)
        if self._gathered:
            self._set_timer()

    async def close(self) -> None:
        """Write what there is."""
        with suppress(TimeoutError):  # others may stop at the same time
            async with asyncio.timeout(CLOSED_WITHIN):
                await self.settle()
        for handle in (self._timer, self._upkeep):
            if handle is not None:
                handle.cancel()
        self._loop = None
        for task in (self._making, self._sending):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # -- gathering -------------------------------------------------------------------------------------------------
    @property
    def has_room(self) -> bool:
        return self._count < MOST_GATHERED

    def add(self, happening: Happening) -> None:
        count = len(happening.entries)
        if self._count + count > MOST_GATHERED:
            self.dropped += count
            return
        if count <= AT_ONCE:
            self._gathered.append(happening)
        else:
            self._gathered.extend(happening.parts(AT_ONCE))
        self._count += count
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._loop is not None:
            self._timer = self._loop.call_later(SOON if self._was_few else LATER, self._time_is_up)

    def _time_is_up(self) -> None:
        self._was_few = self._count <= FEW
        self._write_some()

    def _write_some(self) -> None:
        self._timer = None
        self._before()
        partitions = self._existing()
        led = [each for each in partitions if each.replica is None or each.replica.is_leading]
        if not led and self._is_elsewhere:
            self._send_some()
            return
        if not partitions:
            self._make_topic()
            return
        self._write(self._take_some(), partitions, led)
        if self._gathered and self._loop is not None:
            self._timer = self._loop.call_soon(self._write_some)

    def _take_some(self) -> list[Happening]:
        some, count = [], 0
        while self._gathered and count < AT_ONCE:
            happening = self._gathered.popleft()
            some.append(happening)
            count += len(happening.entries)
        self._count -= count
        return some

    async def settle(self) -> None:
        """Write what there is, so that it can be read."""
        if self._gathered and not self._has_topic and self._ensure is not None:
            try:
                await self._ensure()
            except KafkaError as error:
                logger.warning("there is no topic for traces: %s", error)
        while (self._gathered and self._has_topic) or self._sending is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._write_some()
            if self._sending is not None:
                await asyncio.wait([self._sending])
        newest = self._newest
        if not newest.is_done:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            newest.add_done_callback(lambda _: None if done.done() else done.set_result(None))
            await done

    @property
    def _has_topic(self) -> bool:
        return bool(self._existing()) or self._is_elsewhere

    @property
    def _is_elsewhere(self) -> bool:
        return self.elsewhere is not None and self.elsewhere.exists()

    # -- writing ---------------------------------------------------------------------------------------------------
    def _write(self, happened: Sequence[Happening], partitions: Sequence[Partition], led: Sequence[Partition]) -> None:
        homes: dict[int, tuple[list[Row], list[Record]]] = defaultdict(lambda: ([], []))
        count = len(partitions)
        for happening in happened:
            at, entries = happening.at, happening.entries
            for number, value in enumerate(happening.values()):
                story = entries[number][1]
                rows, records = homes[story.spread % count]
                records.append(Record(len(records), at, story.key, value))
                rows.append((happening, number))
        for home, (rows, records) in homes.items():
            try:
                self._append(_one_of(led, partitions[home], home), rows, records)
            except (KafkaError, StorageError, DamagedData) as error:
                self._failed(len(rows), error)

    def _append(self, partition: Partition, rows: Sequence[Row], records: Sequence[Record]) -> None:
        batch = build_batch(records, compression=Compression.LZ4)
        self._newest = self.append(partition, batch, index.names(rows))
        self._newest.add_done_callback(lambda done: self._ended(done, records))

    def append(self, partition: Partition, batch: bytearray, names: Names) -> Pending:
        """Events of this broker, or of another one, with their index."""
        writes = [*index.writes(partition.log_end_offset, names), *self._removals(partition)]
        return partition.append(memoryview(batch), origin=Origin.OWNER, writes=writes).pending

    def _ended(self, done: Pending, records: Sequence[Record]) -> None:
        if done.error is not None:
            self._failed(len(records), done.error)
        else:
            self._show(records)

    def _show(self, records: Sequence[Record]) -> None:
        self.written += len(records)
        if self.observer is not None:
            self.observer([record.value or b"" for record in records])

    def _failed(self, count: int, error: Exception) -> None:
        if not self.dropped:  # told once: the counter tells the rest
            logger.warning("events of traces could not be written, and are dropped: %s", error)
        self.dropped += count

    # -- sending ---------------------------------------------------------------------------------------------------
    def _send_some(self) -> None:
        if self._sending is None and self.elsewhere is not None:
            self._sending = asyncio.ensure_future(self._send(self.elsewhere, self._take_some()))

    async def _send(self, elsewhere: Sending, happened: Sequence[Happening]) -> None:
        records: list[Record] = []
        rows: list[Row] = []
        for happening in happened:
            for number, value in enumerate(happening.values()):
                story = happening.entries[number][1]
                records.append(Record(len(records), happening.at, story.key, value))
                rows.append((happening, number))
        batch, names = build_batch(records, compression=Compression.LZ4), index.names(rows)
        spread = happened[0].entries[0][1].spread
        try:
            await _until_sent(lambda: elsewhere.send(spread, batch, names))
            self._show(records)
        except KafkaError as error:
            self._failed(len(records), error)
        finally:
            self._sending = None
        if self._gathered and self._timer is None:
            self._set_timer()

    # -- the topic -------------------------------------------------------------------------------------------------
    def _make_topic(self) -> None:
        if self._making is None and self._ensure is not None:
            self._making = asyncio.ensure_future(self._make(self._ensure))

    async def _make(self, ensure: Callable[[], Awaitable[Sequence[Partition]]]) -> None:
        try:
            await ensure()
        except KafkaError as error:
            logger.warning("there is no topic for traces yet: %s", error)
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        finally:
            self._making = None
        if self._gathered and self._timer is None:
            self._set_timer()

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def _removals(self, partition: Partition) -> list[StateWrite]:
        """The index of batches that retention has taken, some of it."""
        start = partition.log_start_offset
        if self._pruned.get(partition, 0) >= start:
            return []
        found = partition.store.state_range(*index.batches_before(start), PRUNED_AT_ONCE, PRUNED_BYTES)
        if not found:
            self._pruned[partition] = start
        return [write for name, named in found for write in index.removals(name, named)]

    def _keep_up(self) -> None:
        """Retention goes on when nothing is traced any more."""
        if self._loop is None:
            return
        self._upkeep = self._loop.call_later(UPKEEP_SECONDS, self._keep_up)
        for partition in self._existing():
            try:
                if not partition.is_dropped and partition.is_led and (writes := self._removals(partition)):
                    partition.write_states(writes)
            except (KafkaError, StorageError, DamagedData) as error:
                logger.warning("the index of traces cannot be cleaned: %s", error)


def _one_of(led: Sequence[Partition], home: Partition, number: int) -> Partition:
    """The home, or where another broker leads that, one that this broker leads."""
    if not led:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker leads no partition of the topic for traces")
    return home if home in led else led[number % len(led)]


async def _until_sent(send: Callable[[], Awaitable[None]]) -> None:
    """Whoever leads may be out of reach for a moment. Raises KafkaError."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + SENT_WITHIN, FIRST_PAUSE
    while True:
        try:
            return await send()
        except KafkaError:
            if loop.time() + pause > deadline:
                raise
        await asyncio.sleep(pause)
        pause *= 2
