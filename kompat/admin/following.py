"""Follows a topic as a consumer does: it fetches partitions from their leaders, and keeps a position for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kompat.admin.fan_out import EARLIEST, LATEST, by_leader, offsets
from kompat.admin.requests import joined
from kompat.admin.route import Call
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kompat.protocol.records import ControlType, Record, control_type, iterate, read_header, split_batches
from kompat.types import ZERO_UUID, NodeId

WAIT_MS: Final = 5000  # max.wait.ms of a fetch
ALL_BYTES, EACH_BYTES = 1 << 20, 256 << 10  # maximum bytes of a fetch, and of each partition in it
HEARTBEAT: Final = 10.0  # seconds without records
PAUSE: Final = 0.25  # seconds, while a partition has no leader
PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)

Placed = tuple[int, Record]  # with its partition


class Fetched(NamedTuple):
    records: list[Placed]
    positions: dict[int, int]  # by partition: the offset after them


UnderWay = dict["asyncio.Task[Fetched]", Sequence[int]]


class Following:
    def __init__(self, call: Call, topic: str, positions: dict[int, int], *, is_committed: bool) -> None:
        self.positions = positions  # by partition: the next offset
        self._call = call
        self._topic = topic
        self._isolation = int(is_committed)

    async def rounds(self) -> AsyncGenerator[list[Placed]]:
        """Records as they arrive, and an empty list now and then as a heartbeat. Ends when the broker stops or the topic is deleted."""
        loop = asyncio.get_running_loop()
        under_way: UnderWay = {}
        stopping = asyncio.ensure_future(self._call.stopping.wait())
        last = loop.time()
        try:
            while self._call.services.cluster.topic(self._topic) is not None:
                await self._start(under_way)
                waited: set[asyncio.Future[Any]] = {stopping, *under_way}
                seconds = HEARTBEAT if under_way else PAUSE
                await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    return
                found = self._fetched(under_way)
                if found or loop.time() - last >= HEARTBEAT:
                    yield found
                    last = loop.time()
        finally:
            for task in (stopping, *under_way):
                task.cancel()
            await asyncio.gather(stopping, *under_way, return_exceptions=True)

    def _fetched(self, under_way: UnderWay) -> list[Placed]:
        """The records of finished fetches. Positions advance here and not before, so that a client never sees a position beyond what was sent."""
        found: list[Placed] = []
        for task in [task for task in under_way if task.done()]:
            del under_way[task]
            fetched = task.result()
            found += fetched.records
            self.positions.update(fetched.positions)
        return found

    async def _start(self, under_way: UnderWay) -> None:
        busy = {partition for partitions in under_way.values() for partition in partitions}
        idle = [partition for partition in self.positions if partition not in busy]
        for node, led in (await by_leader(self._call, {self._topic: idle})).items():
            partitions = led[self._topic]
            under_way[asyncio.ensure_future(self._fetch(node, partitions))] = partitions

    async def _fetch(self, node: NodeId, partitions: Sequence[int]) -> Fetched:
        wanted = [FetchPartition(each, self.positions[each], EACH_BYTES) for each in partitions]
        request = FetchRequest([FetchTopic(self._topic, ZERO_UUID, wanted)])
        request.max_wait_ms, request.min_bytes, request.max_bytes = WAIT_MS, 1, ALL_BYTES
        request.isolation_level = self._isolation
        response = await self._call.send(request, to=node)
        found = Fetched([], {})
        has_failed = response.error_code != ErrorCode.NONE
        for answer in (each for topic in response.responses for each in topic.partitions):
            if answer.error_code == ErrorCode.NONE:
                await self._take(answer, found)
            else:
                has_failed = True
                await self._reset_position(answer, found)
        if has_failed:
            await asyncio.sleep(PAUSE)
        return found

    async def _take(self, answer: Any, found: Fetched) -> None:
        index = answer.partition_index
        position = self.positions[index]
        for batch in visible(joined(answer.records), answer.aborted_transactions or ()):
            header = read_header(batch)
            if not header.is_control:
                async for record in sliced(iterate(batch)):
                    if record.offset >= position:
                        found.records.append((index, record))
            found.positions[index] = max(position, header.last_offset + 1)

    async def _reset_position(self, answer: Any, found: Fetched) -> None:
        """Reset a position that is out of range, after retention or truncation of the log."""
        code, index = ErrorCode(answer.error_code), answer.partition_index
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            wanted = {self._topic: [index]}
            first = (await offsets(self._call, wanted, EARLIEST)).get((self._topic, index))
            last = (await offsets(self._call, wanted, LATEST)).get((self._topic, index))
            if first is not None and last is not None:
                found.positions[index] = min(max(first, self.positions[index]), last)
        elif code not in PASSING and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(code)


def visible(records: bytes, aborted: Sequence[Any]) -> Iterator[memoryview]:
    """The batches of a fetch, including markers, without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    dropped: set[int] = set()
    for batch in split_batches(memoryview(records)):
        header = read_header(batch)
        while waiting and waiting[-1].first_offset <= header.last_offset:
            dropped.add(waiting.pop().producer_id)
        if header.is_control and control_type(batch) is ControlType.ABORT:
            dropped.discard(header.producer_id)
        if header.is_control or not (header.is_transactional and header.producer_id in dropped):
            yield batch


async def start_of(call: Call, topic: str, partitions: Sequence[int], timestamp: int) -> Mapping[int, int]:
    """The start positions of partitions for a timestamp, or a special one (LATEST, EARLIEST)."""
    found = await offsets(call, {topic: partitions}, timestamp)
    ends = await offsets(call, {topic: partitions}, LATEST)
    return {
        partition: found[topic, partition]
        if found.get((topic, partition), -1) >= 0
        else ends.get((topic, partition), 0)
        for partition in partitions
    }
