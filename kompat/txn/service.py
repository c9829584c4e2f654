"""Transactions: runs commands, and completes prepared commits and aborts.

The end of a transaction is decided by one record (PREPARE_…). From then on its markers have to reach every partition,
whatever happens to this process: they are written when the record is committed, and again after a restart for every end
that is prepared but not complete. A marker that is written twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar, Protocol

from kompat.clock import Clock
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import FAILURES, InternalTopic, Shards
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.rpc.messages import Coordinator, LeaderRequest
from kompat.rpc.router import Router
from kompat.txn import records
from kompat.txn.machine import MustAbort, Producer, TransactionMachine
from kompat.txn.markers import Marker
from kompat.txn.records import Changed, Record
from kompat.txn.state import NO_PRODUCER_ID, PREPARED, State, Transaction
from kompat.types import TopicPartition

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1  # after a marker that could not be written; doubled each time
LONGEST_RETRY_SECONDS = 5.0
AFTER_A_BUG_SECONDS = 5.0  # with a pause: what fails for ever would keep the broker busy
ADD_RETRY_SECONDS = 0.02  # while the previous transaction's markers are being written
ADD_RETRIES = 5
EPOCH_BUMPING_CLIENT = 2


class AddPartitions(LeaderRequest[None], frozen=True):
    """To the coordinator, from a broker with a batch of a producer that uses transaction.version 2. If it is refused, the
    producer sends the batch again, so it need not be retried for long."""

    patience: ClassVar[float] = 1.0
    is_idempotent: ClassVar[bool] = True  # within an epoch; the end of the transaction brings a newer one

    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]


class VerifyPartition(LeaderRequest[None], frozen=True):
    """To the coordinator: check that the partition is part of the producer's transaction."""

    patience: ClassVar[float] = 1.0
    is_idempotent: ClassVar[bool] = True

    transactional_id: str
    producer: Producer
    partition: TopicPartition


class MarkerWriter(Protocol):
    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """Done when the marker is committed; also if the partition was deleted and needs no marker."""
        ...


class TransactionCodec:
    """Records as keys and values of `__transaction_state`."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: bytes | None, value: bytes | None) -> Record | None:
        return None if key is None else records.decode(key, value)


class TransactionService:
    def __init__(
        self,
        topic: InternalTopic,
        *,
        rpc: Router,
        make: Callable[[], TransactionMachine],
        next_producer_id: Callable[[], Awaitable[int]],
        markers: MarkerWriter,
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._rpc = rpc
        self._make = make
        self._next_producer_id = next_producer_id
        self._markers = markers
        self._clock = clock
        self._shards: Shards[TransactionMachine, Record] = Shards(self._runtime, topic)
        self._completing: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()  # those among them that were prepared a second time
        self._starting: asyncio.Future[None] | None = None
        self._is_closed = False
        rpc.serve(AddPartitions, self._add)
        rpc.serve(VerifyPartition, self._verify)

    def _runtime(self, partition: Partition) -> Runtime[TransactionMachine, Record]:
        listener = _Completer(self)
        runtime: Runtime[TransactionMachine, Record] = Runtime(
            self._make,
            TransactionCodec(),
            partition,
            clock=self._clock,
            listener=listener,
            failures=FAILURES,
            is_leading=partition.is_led,
        )
        listener.runtime = runtime
        return runtime

    def start(self) -> None:
        """Resume transactions in progress, while clients are served already: a command waits for its partition."""
        self._starting = asyncio.ensure_future(self._shards.start())
        self._starting.add_done_callback(_log_failure)

    def leading(self, partition: Partition) -> None:
        """This broker coordinates the transactions of a partition from now on."""
        self._shards.lead(partition)

    def following(self, partition: Partition) -> None:
        """This broker coordinates them no longer: the new coordinator completes them."""
        self._shards.resign(partition)
        for transactional_id, task in self._completing.items():
            if self._shards.known_partition_of(transactional_id) == partition.index:
                task.cancel()

    async def close(self) -> None:
        self._is_closed = True
        tasks: list[asyncio.Future[None]] = [*self._completing.values()]
        if self._starting is not None:
            tasks.append(self._starting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._shards.close()

    # -- commands --------------------------------------------------------------------------------------------------
    async def init_producer(self, transactional_id: str | None, timeout_ms: int, expected: Producer | None) -> Producer:
        if transactional_id is None:
            return Producer(await self._next_producer_id(), 0)
        runtime = await self._shards.shard(transactional_id)
        fresh = await self._fresh_id(runtime, transactional_id)
        reply = await runtime.run(
            lambda m: m.init_producer(transactional_id, timeout_ms, expected, fresh_id=fresh, now=self._clock.now())
        )
        if isinstance(reply, MustAbort):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return reply

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition], *, client_version: int
    ) -> None:
        runtime = await self._shards.shard(transactional_id)
        wanted = tuple(partitions)
        await runtime.run(
            lambda m: m.add_partitions(
                transactional_id, producer, wanted, client_version=client_version, now=self._clock.now()
            )
        )

    async def add_patiently(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> None:
        """Sent to the coordinator. If a transaction is about to complete, it waits for a moment."""
        request = AddPartitions(transactional_id, producer, tuple(partitions))
        for attempt in range(ADD_RETRIES + 1):
            try:
                return await self._rpc.call(Coordinator(self._topic.name, transactional_id), request)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS or attempt == ADD_RETRIES:
                    raise
            await asyncio.sleep(ADD_RETRY_SECONDS)
        return None

    async def _add(self, _: Partition, request: AddPartitions) -> None:
        added = request.transactional_id, request.producer, request.partitions
        await self.add_partitions(*added, client_version=EPOCH_BUMPING_CLIENT)

    async def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """Sent to the coordinator."""
        request = VerifyPartition(transactional_id, producer, partition)
        await self._rpc.call(Coordinator(self._topic.name, transactional_id), request)

    async def _verify(self, partition: Partition, request: VerifyPartition) -> None:
        runtime = self._shards.at(partition)
        await runtime.run(lambda m: m.verify(request.transactional_id, request.producer, request.partition))

    async def end(self, transactional_id: str, producer: Producer, *, commit: bool, client_version: int) -> Producer:
        runtime = await self._shards.shard(transactional_id)
        fresh = await self._fresh_id(runtime, transactional_id)
        return await runtime.run(
            lambda m: m.end(
                transactional_id,
                producer,
                commit=commit,
                client_version=client_version,
                fresh_id=fresh,
                now=self._clock.now(),
            )
        )

    async def _fresh_id(self, runtime: Runtime[TransactionMachine, Record], transactional_id: str) -> int:
        """A producer id in case the machine needs one: for a new transactional id, and when the epochs are exhausted."""
        await runtime.load()
        known = runtime.machine.find(transactional_id)
        return await self._next_producer_id() if known is None or known.epoch_exhausted else NO_PRODUCER_ID

    async def write_marker(self, partition: TopicPartition, marker: Marker) -> None:
        """For another coordinator, or for an operator who ends a hanging transaction."""
        await self._markers.write(partition, marker)

    # -- questions -------------------------------------------------------------------------------------------------
    async def describe(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        runtime = self._shards.known_shard(transactional_id)
        found = None
        if runtime is not None:
            await runtime.load()
            found = runtime.machine.find(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found

    async def all(self) -> list[Transaction]:
        found: list[Transaction] = []
        for runtime in self._shards.all():
            try:
                await runtime.load()
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    raise
                continue  # another broker returns them
            found += runtime.machine.all()
        return found

    # -- completing ------------------------------------------------------------------------------------------------
    def complete_soon(self, runtime: Runtime[TransactionMachine, Record], transactional_id: str) -> None:
        """Called when the prepared end is committed."""
        if transactional_id in self._completing:
            self._again.add(transactional_id)  # that task may be about to end, and this may be the next transaction
            return

        def again() -> None:
            if not self._is_closed:
                self.complete_soon(runtime, transactional_id)

        def ended(task: asyncio.Task[None]) -> None:
            del self._completing[transactional_id]
            is_due = transactional_id in self._again
            self._again.discard(transactional_id)
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("the end of transaction %s could not be carried out", transactional_id, exc_info=error)
                asyncio.get_running_loop().call_later(AFTER_A_BUG_SECONDS, again)
            elif is_due:
                again()

        task = asyncio.ensure_future(self._complete(_Term(runtime), transactional_id))
        self._completing[transactional_id] = task
        task.add_done_callback(ended)

    async def _complete(self, term: _Term, transactional_id: str) -> None:
        prepared = term.runtime.machine.find(transactional_id)
        if prepared is None or prepared.state not in PREPARED:
            return None
        marker = Marker(
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            commit=prepared.state is State.PREPARE_COMMIT,
            coordinator_epoch=term.epoch,
        )
        producer = Producer(prepared.producer_id, prepared.producer_epoch)
        async with (
            asyncio.TaskGroup() as all_markers
        ):  # cancel the others: a late marker would end the next transaction
            for partition in prepared.partitions:
                all_markers.create_task(self._persist(term, partition, marker))
        patience = _Patience(f"the end of transaction {transactional_id} is not recorded yet")
        while term.lasts:
            try:
                return await term.runtime.run(lambda m: m.complete(transactional_id, producer, now=self._clock.now()))
            except KafkaError as error:
                await patience.wait(error)
        return None

    async def _persist(self, term: _Term, partition: TopicPartition, marker: Marker) -> None:
        """Retry until it is written: a prepared end is only left to the next coordinator."""
        patience = _Patience(f"the end marker for {partition} is not written yet")
        while term.lasts:
            try:
                return await self._markers.write(partition, marker)
            except KafkaError as error:
                if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                    return None  # a later end has been written there already
                await patience.wait(error)
        return None


class _Term:
    """The period in which this broker coordinates a partition's transactions.

    If it becomes the coordinator again, that is a new period: another broker may have ended the transaction, and its
    producer may have begun the next, which a late marker must not end.
    """

    def __init__(self, runtime: Runtime[TransactionMachine, Record]) -> None:
        self.runtime = runtime
        self.epoch = runtime.epoch

    @property
    def lasts(self) -> bool:
        """False if an operator has deleted the topic."""
        runtime = self.runtime
        return runtime.is_leading and runtime.epoch == self.epoch and not runtime.partition.is_dropped


class _Patience:
    """Pauses between retries that go on until one succeeds: they get longer, and only the first is logged."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seconds = RETRY_SECONDS

    async def wait(self, error: KafkaError) -> None:
        if self._seconds == RETRY_SECONDS:
            logger.warning("%s, and is tried again: %s", self._what, error)
        await asyncio.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, LONGEST_RETRY_SECONDS)


def _log_failure(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        logger.error("transactions could not be taken up", exc_info=done.exception())


class _Completer:
    """Listens to the committed records of one partition's runtime, and completes the prepared ends among them."""

    def __init__(self, service: TransactionService) -> None:
        self._service = service
        self.runtime: Runtime[TransactionMachine, Record] | None = None

    def loaded(self) -> None:
        if self.runtime is not None:
            self._see_to(list(self.runtime.machine.to_complete()))

    def committed(self, committed: Sequence[Record]) -> None:
        self._see_to(r.transaction for r in committed if isinstance(r, Changed) and r.transaction.state in PREPARED)

    def _see_to(self, prepared: Iterable[Transaction]) -> None:
        if self.runtime is not None:
            for each in prepared:
                self._service.complete_soon(self.runtime, each.transactional_id)
