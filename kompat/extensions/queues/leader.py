"""The queue operations on share partitions that this broker leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from uuid import UUID
from weakref import WeakSet

from kompat.errors import KafkaError
from kompat.extensions.queues import statistics as queue_statistics
from kompat.extensions.queues.records import check, take
from kompat.extensions.queues.requests import (
    AcknowledgeRecords,
    Acquired,
    AcquireRecords,
    DescribeQueue,
    ReceiptAcknowledgement,
    WaitForRecords,
)
from kompat.extensions.queues.statistics import QueueStatistics
from kompat.log.long_poll import LongPoll
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.protocol.records import Record
from kompat.rpc.router import Router
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.partition import SharePartition
from kompat.share.receipts import Receipt, member_of
from kompat.share.records import UNINITIALIZED
from kompat.share.requests import FetchedPartition, FetchRequest
from kompat.share.service import ShareService
from kompat.types import LogId

LEAST_WANTED: Final = 1 << 16  # bytes that lanes may release for a client that waits
LISTED_WITHIN: Final = 1.0  # seconds that the first use of a group waits for its coordinator

logger = logging.getLogger(__name__)

# From a group and the id of the topic that it uses.
Adopt = Callable[[str, UUID], Awaitable[None]]


class QueueLeader:
    def __init__(self, rpc: Router, shares: ShareService, logs: Logs, adopt: Adopt) -> None:
        """`adopt` registers a group without members at its coordinator."""
        self._shares = shares
        self._logs = logs
        self._adopt = adopt
        self._adopted: WeakSet[SharePartition] = WeakSet()
        rpc.serve(WaitForRecords, self._wait)
        rpc.serve(AcquireRecords, self._acquire)
        rpc.serve(AcknowledgeRecords, self._acknowledge)
        rpc.serve(DescribeQueue, self._describe)

    async def _wait(self, log: Partition, request: WaitForRecords) -> bool:
        partitions = self._led(log, request.partitions)
        lives = [await self._use(request.group_id, each, request.begin) for each in partitions]
        is_available = await _Availability(lives, request.seconds).start()
        if not is_available:
            self._shares.retire(request.group_id, partitions)
        return is_available

    async def _acquire(self, log: Partition, request: AcquireRecords) -> Acquired:
        partitions = self._led(log, request.partitions)
        for each in partitions:
            await self._use(request.group_id, each, request.begin)
        fetched = await self._shares.fetch(
            FetchRequest(
                group_id=request.group_id,
                member_id=member_of(request.lock),
                partitions=partitions,
                max_records=request.max_records,
                max_bytes=request.max_bytes,
                mode=AcquireMode.RECORD_LIMIT,
            )
        )
        _raise_if_failed(fetched)
        given: list[tuple[Receipt, Record]] = []
        lock_ms = request.lock_ms
        for found in (found for found in fetched if found.acquired):
            live = await self._shares.use(request.group_id, found.partition)
            records = list(take(live, found, request.lock))
            if request.lock_ms is not None and records:
                await live.acknowledge_records(
                    [receipt.acknowledgement(AckType.RENEW, request.lock_ms) for receipt, _ in records]
                )
            lock_ms = live.settings.lock_ms if lock_ms is None else lock_ms
            given += records
        return Acquired(lock_ms or 0, given)

    async def _acknowledge(self, log: Partition, request: AcknowledgeRecords) -> list[KafkaError | None]:
        given = request.acknowledgements
        refusals: list[KafkaError | None] = [None] * len(given)
        try:
            live = await self._shares.use_known(given[0].receipt.group_id, log.log_id)
            refusals = [_refusal(live, each) for each in given]
            good = [each for each, refusal in zip(given, refusals, strict=True) if refusal is None]
            if good and not (request.all_or_none and len(good) < len(given)):
                for each in good:
                    if each.reason and each.kind is AckType.REJECT:
                        live.say_why(each.receipt.offset, each.reason)
                await live.acknowledge_records([each.receipt.acknowledgement(each.kind, each.wait_ms) for each in good])
        except KafkaError as error:
            refusals = [refusal or error for refusal in refusals]
        return refusals

    async def _describe(self, log: Partition, request: DescribeQueue) -> QueueStatistics:
        group_id, partition = request.group_id, log.log_id
        if (await self._shares.offsets.describe(group_id, partition)).start_offset == UNINITIALIZED:
            return QueueStatistics()
        found = QueueStatistics()
        for found in queue_statistics.counting(await self._shares.use(group_id, partition)):  # noqa: B007
            await asyncio.sleep(0)  # other tasks get their turn: there may be very much to count
        self._shares.retire(group_id, [partition])
        return found

    # -- finding ---------------------------------------------------------------------------------------------------
    def _led(self, first: Partition, partitions: Sequence[int]) -> list[LogId]:
        """Those of the first one's topic that this broker leads."""
        topic_id = first.log_id.topic_id
        logs = [self._logs.find_by_id(topic_id, each) for each in partitions]
        return [log.log_id for log in logs if log is not None and log.is_led]

    async def _use(self, group_id: str, partition: LogId, begin: str | None) -> SharePartition:
        """A share partition of a group that its coordinator knows of. Raises KafkaError."""
        live = await self._shares.use(group_id, partition, begin)
        if live not in self._adopted:
            self._adopted.add(live)
            try:
                async with asyncio.timeout(LISTED_WITHIN):
                    await self._adopt(group_id, partition.topic_id)
            except (KafkaError, TimeoutError) as error:  # it is retried when the share partition is loaded again
                logger.debug("group %s cannot be listed yet: %s", group_id, error)
        return live


def _raise_if_failed(fetched: Iterable[FetchedPartition]) -> None:
    """Raise an error only if nothing was acquired: acquired records have to be delivered."""
    errors = [each.error for each in fetched if each.error is not None]
    if errors and not any(each.acquired for each in fetched):
        raise errors[0]


def _refusal(live: SharePartition, given: ReceiptAcknowledgement) -> KafkaError | None:
    try:
        check(live, given.receipt, given.receipt.acknowledgement(given.kind, given.wait_ms))
    except KafkaError as error:
        return error
    return None


class _Availability(LongPoll[bool]):
    """Whether records of any of these share partitions become available before the timeout."""

    __slots__ = ("_lives",)

    def __init__(self, lives: Sequence[SharePartition], seconds: float) -> None:
        super().__init__(int(seconds * 1000))
        self._lives = lives

    def try_complete(self) -> None:
        is_available = any(map(_is_available, self._lives))
        if is_available or self.is_expired:
            self.resolve(is_available)
            return
        for live in self._lives:
            self.watch(live)
            self.watch(live.log)
            listener = live.log.fetch_listener
            if listener is not None and listener.counts_shares and live.is_at_end:
                self.notify(listener, LEAST_WANTED)


def _is_available(live: SharePartition) -> bool:
    if live.is_fenced:
        return True  # the attempt to acquire finds out
    spans = live.next_spans(1)
    return live.is_fenced or (bool(spans) and spans[0].first < live.end)
