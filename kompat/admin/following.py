"""Follows a topic as a consumer does: its partitions are fetched where they are led, each from where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kompat.admin.requests import joined
from kompat.admin.route import Call
from kompat.admin.spread import EARLIEST, LATEST, by_leader, offsets
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kompat.protocol.records import ControlType, Record, control_type, iterate, read_header, split_batches
from kompat.types import ZERO_UUID, NodeId

WAIT_MS: Final = 5000  # that a broker holds a fetch for which it has nothing
ALL_BYTES, EACH_BYTES = 1 << 20, 256 << 10  # of a fetch, and of each partition in it
HEARTBEAT: Final = 10.0  # seconds without anything to tell
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
    positions: dict[int, int]  # by partition: what comes after them


UnderWay = dict["asyncio.Task[Fetched]", Sequence[int]]


class Following:
    def __init__(self, call: Call, topic: str, positions: dict[int, int], *, is_committed: bool) -> None:
        self.positions = positions  # by partition: what comes next
        self._call = call
        self._topic = topic
        self._isolation = int(is_committed)

    async def rounds(self) -> AsyncGenerator[list[Placed]]:
        """Records as they come; now and then none, as a sign of life. Ends with the broker, and with the topic."""
        loop = asyncio.get_running_loop()
        under_way: UnderWay = {}
        stopping = asyncio.ensure_future(self._call.stopping.wait())
        last = loop.time()
        try:
            while self._call.services.cluster.topic(self._topic) is not None:
                self._start(under_way)
                waited: set[asyncio.Future[Any]] = {stopping, *under_way}
                seconds = HEARTBEAT if under_way else PAUSE
                await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    return
                found = self._settled(under_way)
                if found or loop.time() - last >= HEARTBEAT:
                    yield found
                    last = loop.time()
        finally:
            for task in (stopping, *under_way):
                task.cancel()
            await asyncio.gather(stopping, *under_way, return_exceptions=True)

    def _settled(self, under_way: UnderWay) -> list[Placed]:
        """What has come. Positions move with it and not before: a client is never told of more than it was sent."""
        found: list[Placed] = []
        for task in [task for task in under_way if task.done()]:
            del under_way[task]
            fetched = task.result()
            found += fetched.records
            self.positions.update(fetched.positions)
        return found

    def _start(self, under_way: UnderWay) -> None:
        busy = {partition for partitions in under_way.values() for partition in partitions}
        idle = [partition for partition in self.positions if partition not in busy]
        for node, led in by_leader(self._call, {self._topic: idle}).items():
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
                self._take(answer, found)
            else:
                has_failed = True
                await self._mend(answer, found)
        if has_failed:
            await asyncio.sleep(PAUSE)
        return found

    def _take(self, answer: Any, found: Fetched) -> None:
        index = answer.partition_index
        position = self.positions[index]
        for batch in visible(joined(answer.records), answer.aborted_transactions or ()):
            header = read_header(batch)
            if not header.is_control:
                found.records.extend((index, record) for record in iterate(batch) if record.offset >= position)
            found.positions[index] = max(position, header.last_offset + 1)

    async def _mend(self, answer: Any, found: Fetched) -> None:
        """Retention was faster, or a log has lost its end: go on with what there is."""
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
    """The batches of a fetch, markers among them, without those of transactions that were aborted."""
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
    """Where each partition stands at a time, or at a place that has a negative number."""
    found = await offsets(call, {topic: partitions}, timestamp)
    ends = await offsets(call, {topic: partitions}, LATEST)
    return {
        partition: found[topic, partition]
        if found.get((topic, partition), -1) >= 0
        else ends.get((topic, partition), 0)
        for partition in partitions
    }
