"""A share service on a disk that can be full and can crash, and members who use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kompat.clock import Clock, SystemClock
from kompat.cluster.state import Topic
from kompat.config.topic import TopicConfig
from kompat.coordination.shards import Partitions
from kompat.errors import ErrorCode, KafkaError, PeerUnavailable
from kompat.extensions.dead_letters.appender import DlqAppender
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder
from kompat.extensions.dead_letters.share_groups import DeadLetterWriter
from kompat.extensions.priority.index import order_of
from kompat.extensions.service import Extensions
from kompat.log.commit import Fsync, GroupCommit
from kompat.log.manager import Logs, LogSettings
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, iterate, split_batches
from kompat.rpc import codec
from kompat.rpc.router import Router
from kompat.share.coordinator import ShareCoordinator
from kompat.share.machine.messages import AckBatch, AckType, AcquireMode
from kompat.share.machine.order import Order
from kompat.share.machine.settings import ShareSettings
from kompat.share.persister import Persister
from kompat.share.requests import FetchedPartition, FetchRequest
from kompat.share.service import ShareService
from kompat.types import Buffer, LogId, NodeId
from tests.coordination.support import Disk, FixedTopic, LocalDirectory
from tests.extensions.one_broker import NoCommits, OneBroker

GROUP = "group"
ORDERS = UUID(int=21)
STATE = UUID(int=22)
LETTERS = UUID(int=23)
STATE_PARTITIONS = 3
EARLIEST = ShareSettings(offset_reset="earliest", backoff_ms=20, max_backoff_ms=100)


class Links:
    """The way to the broker that coordinates the states. Its answers may get lost."""

    def __init__(self, coordinator: Shop) -> None:
        self.coordinator = coordinator
        self.lost_answers = 0  # so many of the next
        self.sent: list[str] = []  # names of requests

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        received = memoryview(b"".join(body))
        self.sent.append(codec.decode(codec.Envelope, received).request)
        answer = await self.coordinator.rpc.receive(NodeId(1), received)
        if self.lost_answers:
            self.lost_answers -= 1
            raise PeerUnavailable("the link is gone", is_sent=True)
        return memoryview(b"".join(answer))


class _Follower(LocalDirectory):
    """Of a broker that leads none of the states."""

    def leader(self, log_id: LogId) -> NodeId | None:
        return NodeId(2) if log_id.topic_id == STATE else None

    def led(self, log_id: LogId) -> Partition | None:
        return None if log_id.topic_id == STATE else super().led(log_id)


class _RemoteTopic(FixedTopic):
    """All of it is led by another broker."""

    def existing(self) -> Partitions:
        return len(self.partitions) * [None]


class Shop:
    """What a broker has of share groups; another one on the same disk is the broker after a restart."""

    def __init__(
        self,
        disk: Disk | None = None,
        settings: ShareSettings = EARLIEST,
        *,
        clock: Clock | None = None,
        fsync: Fsync = "never",
        cache_bytes: int = 1 << 20,
        order: Order | None = None,
        updates_per_snapshot: int = 500,
        is_extended: bool = False,
        links: Links | None = None,
    ) -> None:
        """`links`: to the coordinator of the states, if it is not this broker."""
        self.disk = disk or Disk()
        self.settings = settings
        self.clock = clock or SystemClock()
        loop = asyncio.get_running_loop()
        self.commit = GroupCommit(self.disk, loop, fsync=fsync, on_failed=lambda: self.logs.reload_failed())
        self.logs = Logs(self.disk, self.commit, self.clock, LogSettings(cache_bytes=cache_bytes))
        self._extensions = Extensions(self.logs, self.clock, lambda name: not is_extended or name != "orders")
        self.orders = self._open(ORDERS, "orders", 0)
        self.states = [self._open(STATE, "__share_group_state", index) for index in range(STATE_PARTITIONS)]
        topic = (FixedTopic if links is None else _RemoteTopic)("__share_group_state", self.states)
        directory = (LocalDirectory if links is None else _Follower)(self.logs, topic)
        self.rpc = Router(NodeId(1), directory, links)
        self.letters = self._open(LETTERS, "dlq.orders", 0)
        self.is_letterbox_shut = False
        self._broker = OneBroker(self.logs)
        forwarder = ExactlyOnceForwarder(self._broker.rpc, self.clock, self._extensions.tracer)
        self.service = ShareService(
            ShareCoordinator(topic, self.rpc, self.clock, updates_per_snapshot),
            Persister(topic, self.rpc),
            self.rpc,
            logs=self.logs,
            settings=lambda _: self.settings,
            clock=self.clock,
            order_of=order_of if order is None else lambda _: order,
            dead_letters=DeadLetterWriter(DlqAppender(self._dead_letter_topic, forwarder), self.clock),
        )
        self.service.start()
        self._extensions.start(NoCommits())

    def _open(self, topic_id: UUID, name: str, index: int) -> Partition:
        return self.logs.open(LogId(topic_id, index), name, index, TopicConfig())

    async def _dead_letter_topic(self, group_id: str, topic: str) -> Topic | None:
        assert (group_id, topic) == (GROUP, "orders")
        if self.is_letterbox_shut:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "no topics are made here")
        return self._broker.topic("dlq.orders")

    def read_letters(self) -> list[Record]:
        return read_all(self.letters)

    def read_orders(self) -> list[Record]:
        return read_all(self.orders)

    async def close(self) -> None:
        self._extensions.close()
        await self.service.close()
        await self.logs.close()
        await self.commit.close()

    async def crash(self, **changes: Any) -> Shop:
        """Nothing more is written; the broker that follows has only what was."""
        disk = self.disk.crash()
        self._extensions.close()
        await self.service.close()
        await self.commit.close()
        return Shop(disk, changes.pop("settings", self.settings), **changes)

    # -- the log -----------------------------------------------------------------------------------------------------
    async def produce(self, size: int, **batch: Any) -> int:
        """One batch, its records named after their offsets."""
        first = self.orders.log_end_offset
        records = [Record(i, self.clock.now(), None, b"%d" % (first + i)) for i in range(size)]
        await self.orders.append(memoryview(build_batch(records, **batch)), origin=Origin.INTERNAL).pending
        return first

    async def send(
        self, *headers: Mapping[str, str], value: bytes | None = None, key: bytes | None = None, **batch: Any
    ) -> int:
        """As `produce`, by a client whose records have headers."""
        first = self.orders.log_end_offset
        records = [
            Record(
                i,
                self.clock.now(),
                key,
                b"%d" % (first + i) if value is None else value,
                [(name, text.encode()) for name, text in each.items()],
            )
            for i, each in enumerate(headers)
        ]
        await self.orders.append(memoryview(build_batch(records, **batch))).pending
        return first

    async def end_transaction(self, producer_id: int, kind: ControlType) -> None:
        marker = control_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=self.clock.now()
        )
        await self.orders.append(memoryview(marker), origin=Origin.INTERNAL).pending

    # -- members -----------------------------------------------------------------------------------------------------
    def request(self, member: str, max_records: int = 500, **fields: Any) -> FetchRequest:
        return FetchRequest(
            group_id=GROUP,
            member_id=member,
            partitions=[LogId(ORDERS, 0)],
            max_records=max_records,
            **{"max_wait_ms": 20_000, **fields},
        )

    async def fetch(self, member: str, max_records: int = 500, **fields: Any) -> FetchedPartition:
        found = await self.service.fetch(self.request(member, max_records, **fields))
        if not found:
            return FetchedPartition(LogId(ORDERS, 0))
        assert found[0].error is None, found[0].error
        return found[0]

    async def fetch_offsets(self, member: str, max_records: int = 500, **fields: Any) -> list[int]:
        """The offsets that a member got; the records have to be those that it is told it has."""
        fetched = await self.fetch(member, max_records, **fields)
        return held(fetched)

    async def fetch_exactly(self, member: str, max_records: int, **fields: Any) -> list[int]:
        return await self.fetch_offsets(member, max_records, mode=AcquireMode.RECORD_LIMIT, **fields)

    async def acknowledge(self, member: str, *said: tuple[int, int, AckType]) -> KafkaError | None:
        """Why it was refused, if it was."""
        batches = [AckBatch(first, last, [kind]) for first, last, kind in said]
        [outcome] = self.service.acknowledge(GROUP, member, {LogId(ORDERS, 0): batches})
        done = asyncio.Event()
        outcome.promise.add_done_callback(lambda _: done.set())
        await done.wait()
        return outcome.promise.error


def read_all(log: Partition) -> list[Record]:
    found = log.store.read(log.log_start_offset, 1 << 20, log.high_watermark)
    batches = [batch for buffer in found.buffers for batch in split_batches(memoryview(buffer))]
    return [record for batch in batches for record in iterate(batch)]


def held(fetched: FetchedPartition) -> list[int]:
    offsets = [offset for span in fetched.acquired for offset in range(span.first, span.last + 1)]
    records = {
        record.offset: record.value
        for buffer in fetched.buffers
        for batch in split_batches(memoryview(buffer))
        for record in iterate(batch)
    }
    assert offsets == sorted(offsets)
    assert all(records[offset] == b"%d" % offset for offset in offsets)
    return offsets


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
