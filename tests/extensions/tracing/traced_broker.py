"""Logs that heed headers and write traces down, on a store in memory and the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from kompat.clock import Clock, SystemClock
from kompat.config.topic import TopicConfig
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.reads.service import ReadService
from kompat.extensions.service import Extensions
from kompat.extensions.tracing.recorder import TRACE_TOPIC, Recorder
from kompat.extensions.tracing.service import TraceService
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs, LogSettings
from kompat.log.partition import Origin, Partition
from kompat.log.storage.memory import MemoryStore
from kompat.protocol.records import Record, build_batch
from kompat.types import LogId, Offset
from tests.extensions.one_broker import OneBroker

Headers = dict[str, str]


class TracedBroker:
    def __init__(self, *, cache: int = 1 << 20, clock: Clock | None = None, **trace_config: object) -> None:
        self.clock = clock or SystemClock()
        store = MemoryStore()
        commit = GroupCommit(store, asyncio.get_running_loop(), on_failed=lambda: self.logs.reload_failed())
        self.logs = Logs(store, commit, self.clock, LogSettings(cache_bytes=cache))
        self.extensions = Extensions(self.logs, self.clock, lambda name: name.startswith("__"))
        self._trace_config = TopicConfig(**trace_config)  # type: ignore[arg-type]
        self.made = 0
        broker = OneBroker(self.logs, self._make)
        partitions = PartitionLookup(broker)
        self.tracer = self.extensions.tracer
        self.recorder = Recorder(self.tracer, broker, broker.rpc, self.logs)
        self.forwarder = ExactlyOnceForwarder(broker.rpc, self.clock, self.tracer)
        self.reads = ReadService(partitions, broker.rpc)
        self.traces = TraceService(self.recorder, partitions, broker.rpc, self.reads)
        self.extensions.scheduler.start()

    def open(self, topic: str, partitions: int = 1, **config: object) -> list[Partition]:
        self.made += 1
        return [
            self.logs.open(LogId(UUID(int=self.made), index), topic, index, TopicConfig(**config))  # type: ignore[arg-type]
            for index in range(partitions)
        ]

    def trace_partitions(self) -> Sequence[Partition]:
        return [log for log in self.logs.all() if log.topic == TRACE_TOPIC]

    async def _make(self) -> None:
        self.made += 1
        for index in range(3):
            self.logs.open(LogId(UUID(int=self.made), index), TRACE_TOPIC, index, self._trace_config)

    async def send(self, log: Partition, *values: str, at: int | None = None, **headers: str) -> Offset:
        """One batch; `trace="1"` is `kompat-trace: 1`."""
        listed = tuple((_name(name), value.encode()) for name, value in headers.items())
        now = self.clock.now() if at is None else at
        records = [Record(i, now, b"k", value.encode(), listed) for i, value in enumerate(values)]
        appended = log.append(memoryview(build_batch(records)))
        await appended.pending
        return appended.base_offset

    async def send_at(self, log: Partition, *times: int) -> None:
        """One batch with records of these times."""
        records = [Record(i, time, None, str(time).encode()) for i, time in enumerate(times)]
        await log.append(memoryview(build_batch(records)), origin=Origin.INTERNAL).pending


def _name(name: str) -> str:
    return name if name == "traceparent" else f"kompat-{name.replace('_', '-')}"
