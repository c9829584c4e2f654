"""Where transactions meet what they are about: partitions to end them in, on any broker, and coordinators to ask, likewise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kompat.clock import Clock
from kompat.cluster.service import ClusterService
from kompat.coordination.shards import home_of
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.service import GroupService
from kompat.log.manager import Logs
from kompat.log.partition import Origin
from kompat.protocol.records import ControlType, control_batch
from kompat.txn.machine import Producer
from kompat.txn.service import Marker, TransactionService
from kompat.types import LogId, TopicPartition

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"


class TransactionLinks:
    """In a cluster by way of the partitions' leaders, else at once."""

    def __init__(self, cluster: ClusterService, logs: Logs, clock: Clock) -> None:
        self._cluster = cluster
        self._logs = logs
        self._clock = clock
        self._groups: GroupService
        self._transactions: TransactionService

    def bind(self, groups: GroupService, transactions: TransactionService) -> None:
        """Before anything is asked: they need this to be built."""
        self._groups = groups
        self._transactions = transactions
        if self._cluster.member is not None:
            asking = self._cluster.member.asking
            asking.serve("end-transaction", self._on_end)
            asking.serve("add-to-transaction", self._on_add)
            asking.serve("verify-transaction", self._on_verify)
            transactions.elsewhere = self

    # -- markers ---------------------------------------------------------------------------------------------------
    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """The end of a transaction in one partition."""
        topic = self._cluster.topic(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return  # it was deleted: nobody needs it
        if topic.internal and topic.name != OFFSETS:
            return  # no transaction can have written there, whatever a forged state says
        if self._cluster.member is None:
            await self._write_here(partition, marker)
            return
        log_id = LogId(topic.id, partition.partition)
        arguments = [
            partition.topic,
            partition.partition,
            marker.producer_id,
            marker.producer_epoch,
            marker.commit,
            marker.coordinator_epoch,
        ]
        await self._cluster.member.asking.ask(log_id, "end-transaction", arguments)

    async def _on_end(self, told: Sequence[Any]) -> None:
        topic, partition, producer_id, producer_epoch, commit, coordinator_epoch = told
        marker = Marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        await self._write_here(TopicPartition(topic, partition), marker)

    async def _write_here(self, partition: TopicPartition, marker: Marker) -> None:
        """Where it is a partition of the offsets, groups have to know of it."""
        if partition.topic == OFFSETS:
            await self._groups.end_transaction(
                partition.partition,
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
            )
            return
        log = self._logs.find(partition.topic, partition.partition)
        if log is None:
            if self._cluster.member is not None:  # it is on its way to another broker
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        batch = control_batch(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now(),
        )
        await log.append(memoryview(batch), origin=Origin.INTERNAL).pending.wait()

    # -- transactions that another broker coordinates --------------------------------------------------------------
    async def add(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        wanted = [[each.topic, each.partition] for each in partitions]
        await self._ask(transactional_id, "add-to-transaction", [producer.id, producer.epoch, wanted])

    async def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        wanted = [partition.topic, partition.partition]
        await self._ask(transactional_id, "verify-transaction", [producer.id, producer.epoch, wanted])

    async def _ask(self, transactional_id: str, command: str, arguments: Sequence[Any]) -> None:
        topic, member = self._cluster.topic(TRANSACTIONS), self._cluster.member
        if topic is None or member is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        home = LogId(topic.id, home_of(transactional_id, len(topic.partitions)))
        try:
            await member.asking.ask(home, command, [transactional_id, *arguments])
        except KafkaError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from error
            raise

    async def _on_add(self, told: Sequence[Any]) -> None:
        transactional_id, producer_id, epoch, partitions = told
        wanted = [TopicPartition(*each) for each in partitions]
        await self._transactions.add_for_another(transactional_id, Producer(producer_id, epoch), wanted)

    async def _on_verify(self, told: Sequence[Any]) -> None:
        transactional_id, producer_id, epoch, partition = told
        await self._transactions.verify_here(transactional_id, Producer(producer_id, epoch), TopicPartition(*partition))
