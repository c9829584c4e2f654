"""A broker without sockets on a disk that can be full and can crash: what queues and dead letters need of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from kompat.clock import SystemClock
from kompat.cluster.names import is_internal
from kompat.cluster.requests import ConfigChange, ConfigOp, NewTopic
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Resource, ResourceType, Topic
from kompat.config.broker import BrokerConfig
from kompat.extensions.dead_letters.appender import DlqAppender
from kompat.extensions.dead_letters.destination import DeadLetterTopics
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder
from kompat.extensions.dead_letters.service import DeadLetterService
from kompat.extensions.dead_letters.share_groups import DeadLetterWriter
from kompat.extensions.priority.index import order_of
from kompat.extensions.queues.leader import QueueLeader
from kompat.extensions.queues.service import QueueService
from kompat.extensions.queues.topics import QueueTopics
from kompat.extensions.service import Extensions
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import Compression, Record, build_batch, iterate, recompress, split_batches
from kompat.share.build import build_shares
from kompat.types import Offset
from tests.coordination.support import Disk
from tests.extensions.one_broker import NoCommits


async def _list_nothing(group_id: str, topic_id: UUID) -> None:
    """There is no coordinator here that could list a group."""


class House:
    """Another one on the same disk is the broker after a restart."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.clock = SystemClock()
        self.commit = GroupCommit(self.disk, asyncio.get_running_loop(), on_failed=lambda: self.logs.reload_failed())
        self.logs = Logs(self.disk, self.commit, self.clock)
        self.extensions = Extensions(self.logs, self.clock, is_internal)
        self.config = BrokerConfig()
        self.cluster = ClusterService(self.config, self.clock, self.logs)

    async def start(self) -> House:
        await self.cluster.start()
        tracer = self.extensions.tracer
        forwarder = ExactlyOnceForwarder(self.cluster.rpc, self.clock, tracer)
        topics = DeadLetterTopics(self.cluster)
        self.shares = build_shares(
            self.config,
            self.clock,
            self.cluster,
            self.logs,
            order_of=order_of,
            dead_letters=DeadLetterWriter(DlqAppender(topics.find, forwarder), self.clock, profile=topics.profile),
        )
        self.shares.start()
        QueueLeader(self.cluster.rpc, self.shares, self.logs, _list_nothing)
        self.queue_topics = QueueTopics(self.cluster, self.logs, self.shares)
        await self.queue_topics.start()
        self.extensions.start(NoCommits())
        self.queues = QueueService(self.cluster)
        self.letters = DeadLetterService(self.cluster, self.logs, self.clock, tracer, forwarder)
        return self

    async def close(self) -> None:
        await self._stop()
        await self.cluster.close()
        await self.logs.close()
        await self.commit.close()

    async def _stop(self) -> None:
        await self.queue_topics.close()
        await self.shares.close()
        self.extensions.close()

    async def crash(self) -> House:
        """Nothing more is written; the broker that follows has only what was."""
        disk = self.disk.crash()
        await self._stop()
        await self.cluster.close()
        await self.commit.close()
        return await House(disk).start()

    # -- topics ----------------------------------------------------------------------------------------------------
    async def create(self, name: str, partitions: int = 1, **configs: object) -> Topic:
        """Settings with underscores for dots."""
        given = {key.replace("_", "."): str(value) for key, value in configs.items()}
        outcome = (await self.cluster.create_topics([NewTopic(name, partitions, 1, configs=given)]))[name]
        if not isinstance(outcome, Topic):
            raise outcome
        return outcome

    async def configure(self, kind: ResourceType, name: str, **configs: object) -> None:
        changes = [(key.replace("_", "."), ConfigOp.SET, str(value)) for key, value in configs.items()]
        [error] = await self.cluster.alter_configs([ConfigChange(Resource(kind, name), changes)])
        if error is not None:
            raise error

    async def configure_group(self, group_id: str, **configs: object) -> None:
        await self.configure(ResourceType.GROUP, group_id, **configs)

    def log(self, topic: str, partition: int = 0) -> Partition:
        found = self.logs.find(topic, partition)
        assert found is not None, topic
        return found

    async def send(
        self, topic: str, *values: str, partition: int = 0, headers: Any = (), codec: int = Compression.NONE
    ) -> Offset:
        records = [Record(place, self.clock.now(), b"k", value.encode(), headers) for place, value in enumerate(values)]
        appended = self.log(topic, partition).append(memoryview(build_batch(records, compression=codec)))
        await appended.pending
        return appended.base_offset

    async def acknowledge(
        self, topic: str, kind: str, *ids: bytes | None, partition: int = 0, more: Any = ()
    ) -> Offset:
        """As a client does it that produces to the queue topic: the offset that it is told."""
        headers = [(("kompat-ack", kind.encode()), ("kompat-ack-id", each), *more) for each in ids]
        records = [Record(place, self.clock.now(), None, b"", each) for place, each in enumerate(headers)]
        appended = self.log(topic, partition).append(memoryview(build_batch(records)))
        await appended.pending
        return appended.base_offset

    def records(self, topic: str, partition: int = 0, start: int | None = None) -> list[Record]:
        """All that is in a log."""
        log = self.log(topic, partition)
        position = log.log_start_offset if start is None else Offset(start)
        found: list[Record] = []
        while position < log.high_watermark:
            run = log.store.read(position, 1 << 20, log.high_watermark)
            found += [r for b in run.buffers for batch in split_batches(memoryview(b)) for r in iterate(batch)]
            position = run.next_offset
        return [record for record in found if record.offset >= log.log_start_offset]

    def batches(self, topic: str, partition: int = 0, start: int = 0) -> list[memoryview]:
        log = self.log(topic, partition)
        run = log.store.read(Offset(max(start, log.log_start_offset)), 1 << 30, log.high_watermark)
        return [batch for buffer in run.buffers for batch in split_batches(memoryview(buffer))]

    def plain_sizes(self, topic: str, start: int = 0) -> list[int]:
        """Of the batches in a log: how large they are without compression."""
        return [len(recompress(batch, Compression.NONE)) for batch in self.batches(topic, start=start)]

    def texts(self, topic: str, partition: int = 0) -> list[str]:
        return [(record.value or b"").decode() for record in self.records(topic, partition)]


class Reader:
    """A consumer of one partition of a queue topic, as a fetch looks to the partition."""

    def __init__(self, house: House, topic: str, partition: int = 0, *, at_start: bool = False) -> None:
        self.log = house.log(topic, partition)
        self.position = self.log.log_start_offset if at_start else self.log.high_watermark

    async def poll(self, seconds: float = 20.0) -> list[Record]:
        """The next records, waiting for them if there are none."""
        grown = asyncio.Event()
        fetch_listener = self.log.fetch_listener
        assert fetch_listener is not None

        def told(_: object) -> None:
            grown.set()

        self.log.watch(told)
        try:
            async with asyncio.timeout(seconds):
                while not (found := self._read()):
                    fetch_listener.reader_waiting(self, 1 << 20)
                    await grown.wait()
                    grown.clear()
                return found
        except TimeoutError:
            return []
        finally:
            fetch_listener.reader_gone(self)
            self.log.unwatch(told)

    async def take(self, count: int, seconds: float = 20.0) -> list[Record]:
        """So many records, or as many as there are within the time."""
        found: list[Record] = []
        deadline = asyncio.get_running_loop().time() + seconds
        while len(found) < count and asyncio.get_running_loop().time() < deadline:
            found += await self.poll(max(0.01, deadline - asyncio.get_running_loop().time()))
        return found

    def _read(self) -> list[Record]:
        self.position = max(self.position, self.log.log_start_offset)
        read = self.log.read(Offset(self.position), 1 << 20, Isolation.READ_UNCOMMITTED)
        assert read is not None
        found = [r for b in read.buffers for batch in split_batches(memoryview(b)) for r in iterate(batch)]
        found = [record for record in found if record.offset >= self.position]
        self.position = read.next_offset
        return found


def ack_id(record: Record) -> bytes | None:
    return dict(record.headers)["kompat-ack-id"]


def delivery_count(record: Record) -> int:
    return int(dict(record.headers)["kompat-delivery-count"] or b"")


def values(records: Sequence[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
