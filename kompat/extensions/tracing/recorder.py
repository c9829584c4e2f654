"""Writes events a moment after they happened: traced records neither wait for it nor fail with it.

Events are gathered for some milliseconds and appended to `__kompat_trace` in batches, with their index in the same write.
A broker that crashes loses only the gathered events. Brokers write to partitions of the topic that they lead; one that
leads none of them sends its events to one that does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from kompat.cluster.state import Topic
from kompat.errors import DamagedData, KafkaError, StorageError
from kompat.extensions.tracing import index
from kompat.extensions.tracing.events import Happening
from kompat.extensions.tracing.index import Row
from kompat.extensions.tracing.requests import AppendEvents
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.interceptor import StateWrite
from kompat.log.manager import Logs
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import Compression, Record, build_batch
from kompat.rpc.router import Router
from kompat.types import LogId

logger = logging.getLogger(__name__)

TRACE_TOPIC: Final = "__kompat_trace"
SOON, LATER = 0.01, 0.05  # seconds that events are gathered: when there are few, and when there are many
FEW: Final = 8  # events
UPKEEP_SECONDS: Final = 60.0
PRUNED_AT_ONCE: Final = 64  # batches
PRUNED_BYTES: Final = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds, while there is no topic to write to
CLOSED_WITHIN: Final = 2.0  # seconds, when the broker stops

Observer = Callable[[Sequence[bytes]], None]


class InternalTopics(Protocol):
    """The part of `ClusterService` that is needed here."""

    def topic(self, name: str) -> Topic | None: ...

    async def ensure_internal_topic(self, name: str) -> Topic: ...


class Recorder:
    def __init__(
        self, tracer: Tracer, topics: InternalTopics, rpc: Router, logs: Logs, observers: Iterable[Observer] = ()
    ) -> None:
        """`observers` receive what was written."""
        self._tracer = tracer
        self._events = tracer.events
        self._topics = topics
        self._rpc = rpc
        self._logs = logs
        self._observers = tuple(observers)
        self._turn = asyncio.Lock()  # events of a record are written in their order
        self._tasks: list[asyncio.Task[None]] = []
        self._pruned: dict[Partition, int] = {}  # up to where the index is cleaned
        self.written = 0  # events, since the start
        rpc.serve(AppendEvents, self._append)

    @property
    def dropped(self) -> int:
        return self._events.dropped

    def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._record()), asyncio.ensure_future(self._keep_up())]

    async def close(self) -> None:
        """Write the gathered events."""
        with suppress(TimeoutError):  # others may stop at the same time
            async with asyncio.timeout(CLOSED_WITHIN):
                await self.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _record(self) -> None:
        was_few, pause = True, FIRST_PAUSE
        while True:
            await self._events.filled()
            await asyncio.sleep(SOON if was_few else LATER)
            was_few = self._events.count <= FEW
            try:
                await self._write_all()
                pause = FIRST_PAUSE
                continue
            except KafkaError as error:
                logger.warning("there is no topic for traces yet: %s", error)
            except Exception:  # a failure of some events must not stop the others
                logger.exception("events of traces could not be written")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def flush(self) -> None:
        """Write the gathered events, so that they can be read."""
        try:
            await self._write_all()
        except KafkaError as error:
            logger.warning("there is no topic for traces: %s", error)

    # -- writing ---------------------------------------------------------------------------------------------------
    async def _write_all(self) -> None:
        async with self._turn:
            while self._events.count:
                topic = await self._topics.ensure_internal_topic(TRACE_TOPIC)
                self._tracer.save()
                await self._write(self._events.take_some(), [LogId(topic.id, each.index) for each in topic.partitions])

    async def _write(self, happened: Sequence[Happening], log_ids: Sequence[LogId]) -> None:
        led = [each for each in log_ids if self._rpc.leader(each) == self._rpc.me]
        first = happened[0].entries[0][1]
        targets = led or [log_ids[first.partition_hash % len(log_ids)]]  # of another broker's, one is enough
        batches: dict[LogId, tuple[list[Row], list[Record]]] = defaultdict(lambda: ([], []))
        for happening in happened:
            for number, value in enumerate(happening.values()):
                trace = happening.entries[number][1]
                preferred = log_ids[trace.partition_hash % len(log_ids)]
                target = preferred if preferred in targets else targets[trace.partition_hash % len(targets)]
                rows, records = batches[target]
                records.append(Record(len(records), happening.at, trace.key, value))
                rows.append((happening, number))
        await asyncio.gather(*(self._send(log_id, *batch) for log_id, batch in batches.items()))

    async def _send(self, log_id: LogId, rows: Sequence[Row], records: Sequence[Record]) -> None:
        batch = build_batch(records, compression=Compression.LZ4)
        try:
            await self._rpc.call(log_id, AppendEvents(batch, index.names(rows)))
        except (KafkaError, StorageError, DamagedData) as error:
            if not self._events.dropped:  # logged once: the counter has the rest
                logger.warning("events of traces could not be written, and are dropped: %s", error)
            self._events.dropped += len(records)
        else:
            self.written += len(records)
            for observe in self._observers:
                observe([record.value or b"" for record in records])

    async def _append(self, partition: Partition, request: AppendEvents) -> None:
        writes = [*index.writes(partition.log_end_offset, request.names), *self._removals(partition)]
        await partition.append(memoryview(bytearray(request.batch)), origin=Origin.OWNER, writes=writes).pending

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def led(self) -> list[Partition]:
        """The partitions of the topic that this broker leads."""
        topic = self._topics.topic(TRACE_TOPIC)
        found = [self._logs.find_by_id(topic.id, each.index) for each in topic.partitions] if topic is not None else []
        return [each for each in found if each is not None and each.is_led]

    def _removals(self, partition: Partition) -> list[StateWrite]:
        """Some of the index entries of batches that retention has deleted."""
        start = partition.log_start_offset
        if self._pruned.get(partition, 0) >= start:
            return []
        found = partition.store.state_range(*index.batches_before(start), PRUNED_AT_ONCE, PRUNED_BYTES)
        if not found:
            self._pruned[partition] = start
        return [write for name, named in found for write in index.removals(name, named)]

    async def _keep_up(self) -> None:
        """Retention continues when nothing is traced any more."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            self.keep_up()

    def keep_up(self) -> None:
        for partition in self.led():
            try:
                if not partition.is_dropped and (writes := self._removals(partition)):
                    partition.write_states(writes)
            except (KafkaError, StorageError, DamagedData) as error:
                logger.warning("the index of traces cannot be cleaned: %s", error)
