"""A broker's coordinators on a disk that dies with one of its writes, and what clients would see of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kompat.clock import ManualClock
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.groups.config import GroupSettings
from kompat.groups.machine.messages import (
    CommitRequest,
    CommittedPartition,
    CommittedTopic,
    FetchedOffset,
    FetchedTopic,
    FetchRequest,
)
from kompat.groups.service import GroupService
from kompat.log.partition import Isolation, Origin, Partition
from kompat.protocol.records import (
    ControlType,
    Record,
    build_batch,
    control_batch,
    control_type,
    iterate,
    read_header,
    split_batches,
)
from kompat.txn.machine import Producer, TransactionMachine
from kompat.txn.markers import Marker
from kompat.txn.service import TransactionService
from kompat.types import LogId, Offset, ProducerEpoch, ProducerId, TopicPartition
from tests.coordination.support import Disk, FixedTopic, Node, local_router
from tests.groups.harness import table

T = TypeVar("T")

ID, GROUP, OFFSETS = "copier", "readers", "__consumer_offsets"
DATA = (TopicPartition("t", 0), TopicPartition("t", 1))
HOME = TopicPartition(OFFSETS, 0)
MINUTE = 60_000
PATIENCE = 10  # seconds


class MortalDisk(Disk):
    """Dies at a write: with it, or just after it. Nothing reaches it any more until it is revived."""

    def __init__(self, lives: int, *, keeps_last: bool) -> None:
        super().__init__()
        self.lives = lives
        self.keeps_last = keeps_last
        self.died = asyncio.Event()
        self.next_id = 100

    def flush(self) -> None:
        if self.lives <= 0:
            self._staged.clear()
            raise StorageError("the machine is off")
        self.lives -= 1
        if self.lives == 0:
            self.died.set()
            if not self.keeps_last:
                self._staged.clear()
                raise StorageError("the machine is off")
        super().flush()
        if self.lives == 0:
            raise StorageError("the machine was off before anybody heard")

    def revive(self, lives: int) -> None:
        self._staged.clear()
        self.lives = lives
        self.died.clear()


class World:
    """One life of a broker."""

    def __init__(self, disk: MortalDisk, offsets: TopicConfig | None = None) -> None:
        """`offsets` is how the offsets are kept: compacted, maybe."""
        self.disk = disk
        self._configs = {HOME: offsets or TopicConfig()}
        self._clock = ManualClock()
        self.advance = self._clock.advance
        self.node = Node(disk, clock=self._clock)
        self.logs = {place: self._open(place, number) for number, place in enumerate((*DATA, HOME), 1)}
        state = self._open(TopicPartition("__transaction_state", 0), 9)
        topic = FixedTopic("__transaction_state", [state])
        self.groups = GroupService(
            FixedTopic(OFFSETS, [self.logs[HOME]]),
            settings=GroupSettings,
            topics=table(t=4),
            clock=self.node.clock,
        )
        self.transactions = TransactionService(
            topic,
            rpc=local_router(self.node.logs, topic),
            make=lambda: TransactionMachine(max_timeout_ms=15 * MINUTE, expiration_ms=10_000 * MINUTE),
            next_producer_id=self._next_id,
            markers=self,
            clock=self.node.clock,
        )
        self.groups.start()
        self.transactions.start()

    def _open(self, place: TopicPartition, number: int) -> Partition:
        log_id = LogId(UUID(int=number), place.partition)
        return self.node.logs.open(log_id, place.topic, place.partition, self._configs.get(place, TopicConfig()))

    async def _next_id(self) -> int:
        self.disk.next_id += 1
        return self.disk.next_id

    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        if partition == HOME:
            await self.groups.end_transaction(
                self.logs[HOME],
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
            )
            return
        batch = control_batch(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self.node.clock.now(),
        )
        await self.logs[partition].append(memoryview(batch), origin=Origin.INTERNAL).pending

    async def stop(self) -> None:
        await self.transactions.close()
        await self.groups.close()
        with contextlib.suppress(KafkaError):  # there is no disk any more
            await self.node.close()

    # -- a client --------------------------------------------------------------------------------------------------
    async def init(self) -> Producer:
        return await patiently(lambda: self.transactions.init_producer(ID, MINUTE, None))

    async def produce(self, place: TopicPartition, producer: Producer, value: bytes, sequence: int) -> None:
        batch = build_batch(
            [Record(0, self.node.clock.now(), None, value, [])],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        await self.logs[place].append(memoryview(batch)).pending

    async def commit_offset(self, producer: Producer | None, offset: int, group_id: str = GROUP) -> None:
        """In the producer's transaction, or outside of any."""
        topic = CommittedTopic(name="t", partitions=(CommittedPartition(partition=0, offset=offset),))
        request = CommitRequest(group_id=group_id, topics=(topic,), api_version=3)
        if producer is not None:
            named = ProducerId(producer.id), ProducerEpoch(producer.epoch)
            request = replace(request, producer_id=named[0], producer_epoch=named[1])
        await self.groups.commit_offsets(request)

    async def offset(self) -> FetchedOffset:
        topic = FetchedTopic(name="t", partitions=(0,))
        [found] = await self.groups.fetch_offsets(FetchRequest(group_id=GROUP, topics=(topic,), require_stable=True))
        return found.partitions[0]

    # -- what is in the logs ---------------------------------------------------------------------------------------
    async def outcomes(self, place: TopicPartition) -> dict[bytes, bool | None]:
        """What became of each record: committed, aborted, or open (None)."""
        found = await self.logs[place].read_stored(Offset(0), 1 << 20, Isolation.READ_UNCOMMITTED)
        outcomes: dict[bytes, bool | None] = {}
        for batch in (batch for buffer in found.buffers for batch in split_batches(memoryview(buffer))):
            if read_header(batch).is_control:
                commits = control_type(batch) is ControlType.COMMIT
                outcomes.update({value: commits for value, outcome in outcomes.items() if outcome is None})
            else:
                outcomes.update({record.value or b"": None for record in iterate(batch)})
        return outcomes


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """As clients do: again while the transaction before is being ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
            await asyncio.sleep(0)
