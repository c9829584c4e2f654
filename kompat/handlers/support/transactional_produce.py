"""Before a transactional batch is appended, its partition has to be part of the producer's transaction.

Clients with transaction.version 2 (Produce v12+) leave the adding to the broker. Older ones have added it themselves, and
it is verified: a late batch of a transaction that has ended must not open one that is never ended. Where a partition has an
open transaction of the producer, the coordinator is not involved.

Until the batch is appended the transaction may end. With version 2 its marker has a newer epoch, and the log refuses the
batch by that. Before, the epoch is the same: then a Guard detects a marker that was written in between.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context
from kompat.log.partition import Partition
from kompat.protocol.records import HEADER_SIZE, read_header
from kompat.txn.machine import Producer
from kompat.txn.service import TransactionService
from kompat.types import TopicPartition

FIRST_VERSION_WITH_IMPLICIT_ADD = 12
FIRST_VERSION_WITH_ABORTABLE = 11
# The coordinator is not ready: what producers of every age retry is NOT_ENOUGH_REPLICAS.
RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Turns:
    """One producer's requests one after the other: while one waits for the coordinator, its successors must not pass it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, transactional_id: str) -> asyncio.Lock:
        lock = self._locks.get(transactional_id)
        if lock is None:
            lock = self._locks[transactional_id] = asyncio.Lock()
        return lock

    def is_free(self, transactional_id: str) -> bool:
        """The batch can be appended at once."""
        lock = self._locks.get(transactional_id)
        return lock is None or not lock.locked()


class Guard:
    """Remembers how many transactions of a producer had ended in a partition, while this broker leads it."""

    __slots__ = ("_ends", "_epoch", "_partition", "_producer_id")

    def __init__(self, partition: Partition, producer_id: int) -> None:
        self._partition = partition
        self._producer_id = producer_id
        self._epoch = partition.leader_epoch
        self._ends = partition.producers.ends(producer_id)

    @property
    def holds(self) -> bool:
        partition = self._partition
        return partition.leader_epoch == self._epoch and partition.producers.ends(self._producer_id) == self._ends

    @property
    def refusal(self) -> KafkaError:
        if self._partition.leader_epoch != self._epoch:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker has led the partition meanwhile")
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")

    def check(self) -> None:
        """To be called where no other work can come between this and the append."""
        if not self.holds:
            raise self.refusal


async def admit(ctx: Context, transactional_id: str, partition: Partition, records: memoryview) -> Guard | None:
    """Raises KafkaError where the batch may not be appended in the producer's transaction. A guard is to be checked then."""
    if len(records) < HEADER_SIZE:
        return None  # the append itself refuses it
    header = read_header(records)
    if not header.is_transactional:
        return None
    producer = Producer(header.producer_id, header.producer_epoch)
    if is_open(partition, producer):
        return Guard(partition, producer.id)
    wanted = TopicPartition(partition.topic, partition.index)
    transactions = ctx.services.transactions
    try:
        if ctx.api_version >= FIRST_VERSION_WITH_IMPLICIT_ADD:
            await transactions.add_patiently(transactional_id, producer, [wanted])
        elif ctx.services.config["transaction.partition.verification.enable"]:
            return await verified(transactions, transactional_id, producer, partition)
    except KafkaError as error:
        raise KafkaError(_error_for_version(ctx, error.code), error.message) from error
    return None


async def verified(
    transactions: TransactionService, transactional_id: str, producer: Producer, partition: Partition
) -> Guard:
    """Verify with the coordinator, again while a marker was written meanwhile: it may be that of the transaction before."""
    while True:
        guard = Guard(partition, producer.id)
        await transactions.verify(transactional_id, producer, TopicPartition(partition.topic, partition.index))
        if guard.holds:
            return guard


def is_part(partition: Partition, records: memoryview) -> bool:
    """Whether the batch belongs to a transaction that its partition is part of already."""
    if len(records) < HEADER_SIZE:
        return False
    header = read_header(records)
    return header.is_transactional and is_open(partition, Producer(header.producer_id, header.producer_epoch))


def is_open(partition: Partition, producer: Producer) -> bool:
    """Has the producer written there in its transaction already?"""
    known = partition.producers.get(producer.id)
    return known is not None and known.epoch == producer.epoch and known.transaction_start >= 0


def _error_for_version(ctx: Context, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in RETRIED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.TRANSACTION_ABORTABLE and ctx.api_version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code
