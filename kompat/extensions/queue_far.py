"""Share partitions for queues, wherever they are led: waiting for records, taking some, and saying what became of them.

Waiting and taking are two steps: who does not wait any more has taken nothing. Between brokers records travel as text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakSet

from kompat.cluster.asking import Asking
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import queue_statistics, record_text
from kompat.extensions.queue_records import check, take
from kompat.extensions.queue_statistics import QueueStatistics
from kompat.log.manager import Logs
from kompat.protocol.records import Record
from kompat.share import receipts
from kompat.share.live import LivePartition
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.receipts import Receipt, member_of
from kompat.share.records import UNINITIALIZED
from kompat.share.requests import FetchRequest, TopicIdPartition
from kompat.share.service import ShareService
from kompat.types import LogId

LONGEST_WAIT = 5.0  # seconds, at another broker: then it is asked again
LEAST_WANTED = 1 << 16  # bytes that lanes may release for somebody who waits


LISTED_WITHIN = 1.0  # seconds that the first use of a group waits for its coordinator

logger = logging.getLogger(__name__)

# From a group and the id of the topic that it uses.
Adopt = Callable[[str, UUID], Awaitable[None]]


class Taken(NamedTuple):
    lock_ms: int
    given: Sequence[tuple[Receipt, Record]]


class Taking(NamedTuple):
    """How much to take, and in whose name."""

    lock: bytes
    max_records: int
    max_bytes: int
    lock_ms: int | None = None  # None: as the group has it
    begin: str | None = None  # where a group begins that has not yet; None: as its settings say


class Word(NamedTuple):
    """What is said of a delivery."""

    receipt: Receipt
    kind: AckType
    wait_ms: int | None = None
    reason: str | None = None  # why it is rejected


class FarShares:
    def __init__(
        self, shares: ShareService, logs: Logs, asking: Asking | None = None, adopt: Adopt | None = None
    ) -> None:
        """`asking`: None where this broker is alone. `adopt` has a group listed that has no members."""
        self._adopt = adopt
        self._adopted: WeakSet[LivePartition] = WeakSet()
        self._shares = shares
        self._logs = logs
        self._asking = asking
        if asking is not None:
            asking.serve("queue-wait", self._on_wait)
            asking.serve("queue-take", self._on_take)
            asking.serve("queue-settle", self._on_settle)
            asking.serve("queue-statistics", self._on_statistics)

    def is_here(self, partition: TopicIdPartition) -> bool:
        """Does this broker lead it? One that is alone does, if it is there at all."""
        log = self._logs.find_by_id(*partition)
        return self._asking is None or (log is not None and log.is_led)

    async def use(self, group_id: str, partition: TopicIdPartition, begin: str | None = None) -> LivePartition:
        """A share partition that is led here, of a group that its coordinator knows of. Raises KafkaError."""
        live = await self._shares.use(group_id, partition, begin)
        if self._adopt is not None and live not in self._adopted:
            self._adopted.add(live)
            try:
                async with asyncio.timeout(LISTED_WITHIN):
                    await self._adopt(group_id, partition.topic_id)
            except (KafkaError, TimeoutError) as error:  # it is looked anew when the share partition is loaded again
                logger.debug("group %s cannot be listed yet: %s", group_id, error)
        return live

    # -- anywhere --------------------------------------------------------------------------------------------------
    async def wait(self, group_id: str, partition: TopicIdPartition, seconds: float, begin: str | None = None) -> bool:
        """Until the group may take something, or the time is up. Raises KafkaError."""
        if self.is_here(partition):
            return await _until_available(await self.use(group_id, partition, begin), seconds)
        return bool(await self._ask(partition, "queue-wait", [group_id, min(seconds, LONGEST_WAIT), begin]))

    async def take(self, group_id: str, partition: TopicIdPartition, taking: Taking) -> Taken:
        """What can be had now. Raises KafkaError."""
        if self.is_here(partition):
            return await self._take(group_id, partition, taking)
        told = [group_id, taking.lock.hex(), *taking[1:]]
        lock_ms, given = await self._ask(partition, "queue-take", told)
        return Taken(lock_ms, [(receipts.decode(receipt), record_text.read(record)) for receipt, record in given])

    async def settle(self, partition: TopicIdPartition, words: Sequence[Word], *, all_or_none: bool) -> list[Refusal]:
        """For each word, in order, why it does not count, if so. `all_or_none`: where one does not, none does."""
        if self.is_here(partition):
            return await self._settle(partition, words, all_or_none=all_or_none)
        told = [
            [word.receipt.encode(), word.kind, word.wait_ms, *([word.reason] if word.reason else ())] for word in words
        ]
        answers = await self._ask(partition, "queue-settle", [told, all_or_none])
        return [None if each is None else KafkaError(ErrorCode(each[0]), each[1]) for each in answers]

    async def statistics(self, group_id: str, partition: TopicIdPartition) -> QueueStatistics:
        """All zero where the group has not begun. Raises KafkaError."""
        if not self.is_here(partition):
            return queue_statistics.read(await self._ask(partition, "queue-statistics", [group_id]))
        if (await self._shares.offsets.describe(group_id, partition)).start_offset == UNINITIALIZED:
            return QueueStatistics()
        found = QueueStatistics()
        for found in queue_statistics.counting(await self._shares.use(group_id, partition)):  # noqa: B007
            await asyncio.sleep(0)  # others have their turn: there may be very much to count
        self._shares.retire(group_id, [partition])
        return found

    async def _ask(self, partition: TopicIdPartition, command: str, arguments: Sequence[Any]) -> Any:
        assert self._asking is not None  # noqa: S101 - else all is here
        told = [partition.topic_id.hex, partition.partition, *arguments]
        return await self._asking.ask(LogId(*partition), command, told)

    # -- here ------------------------------------------------------------------------------------------------------
    async def _take(self, group_id: str, partition: TopicIdPartition, taking: Taking) -> Taken:
        live = await self.use(group_id, partition, taking.begin)
        request = FetchRequest(
            group_id=group_id,
            member_id=member_of(taking.lock),
            partitions=[partition],
            max_records=taking.max_records,
            max_bytes=taking.max_bytes,
            mode=AcquireMode.RECORD_LIMIT,
        )
        given: list[tuple[Receipt, Record]] = []
        for fetched in await self._shares.fetch(request).wait():
            if fetched.error is not None:
                raise fetched.error
            given += take(live, fetched, taking.lock)
        if taking.lock_ms is not None and given:
            await live.settle([receipt.says(AckType.RENEW, taking.lock_ms) for receipt, _ in given]).wait()
        return Taken(live.settings.lock_ms if taking.lock_ms is None else taking.lock_ms, given)

    async def _settle(self, partition: TopicIdPartition, words: Sequence[Word], *, all_or_none: bool) -> list[Refusal]:
        refusals: list[Refusal] = [None] * len(words)
        try:
            live = await self._shares.use_known(words[0].receipt.group_id, partition)
            for index, word in enumerate(words):
                refusals[index] = _judged(live, word)
            good = [index for index, refusal in enumerate(refusals) if refusal is None]
            if good and not (all_or_none and len(good) < len(words)):
                chosen = [words[index] for index in good]
                for word in chosen:
                    if word.reason and word.kind is AckType.REJECT:
                        live.say_why(word.receipt.offset, word.reason)
                await live.settle([word.receipt.says(word.kind, word.wait_ms) for word in chosen]).wait()
        except KafkaError as error:
            refusals = [refusal or error for refusal in refusals]
        return refusals

    # -- for other brokers -----------------------------------------------------------------------------------------
    async def _on_wait(self, told: Sequence[Any]) -> bool:
        partition, (group_id, seconds, begin) = self._ours(told)
        return await self.wait(group_id, partition, seconds, begin)

    async def _on_take(self, told: Sequence[Any]) -> list[Any]:
        partition, (group_id, lock, *rest) = self._ours(told)
        taken = await self._take(group_id, partition, Taking(bytes.fromhex(lock), *rest))
        return [taken.lock_ms, [[receipt.encode(), record_text.told(record)] for receipt, record in taken.given]]

    async def _on_settle(self, told: Sequence[Any]) -> list[Any]:
        partition, (listed, all_or_none) = self._ours(told)
        words = [Word(receipts.decode(text), AckType(kind), *rest) for text, kind, *rest in listed]
        refusals = await self._settle(partition, words, all_or_none=all_or_none)
        return [None if each is None else [each.code, each.message] for each in refusals]

    async def _on_statistics(self, told: Sequence[Any]) -> list[Any]:
        partition, (group_id,) = self._ours(told)
        return queue_statistics.told(await self.statistics(group_id, partition))

    def _ours(self, told: Sequence[Any]) -> tuple[TopicIdPartition, Sequence[Any]]:
        partition = TopicIdPartition(UUID(told[0]), told[1])
        if not self.is_here(partition):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition, told[2:]


Refusal = KafkaError | None


def _judged(live: LivePartition, word: Word) -> Refusal:
    try:
        check(live, word.receipt, word.receipt.says(word.kind, word.wait_ms))
    except KafkaError as error:
        return error
    return None


async def _until_available(live: LivePartition, seconds: float) -> bool:
    changed = asyncio.Event()

    def wake(_: object) -> None:
        changed.set()

    live.watch(wake)
    live.log.watch(wake)
    try:
        async with asyncio.timeout(seconds):
            while not _is_available(live):
                demand = live.log.demand
                if demand is not None and demand.counts_shares and live.is_at_end:
                    demand.asked(wake, LEAST_WANTED)
                await changed.wait()
                changed.clear()
    except TimeoutError:
        return False
    finally:
        live.unwatch(wake)
        live.log.unwatch(wake)
        if live.log.demand is not None:
            live.log.demand.left(wake)
    return True


def _is_available(live: LivePartition) -> bool:
    if live.is_fenced:
        return True  # whoever wants to take something finds out
    spans = live.next_spans(1)
    return bool(spans) and spans[0].first < live.end
