"""Where reads come from: the logs that this broker leads, and those that other brokers lead."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.anywhere import Anywhere
from kompat.log.aborted import Aborted
from kompat.log.manager import Logs
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import BatchHeader, Record, iterate, read_header, split_batches
from kompat.types import Buffer, LogId, Millis, Offset, ProducerId


class Bounds(NamedTuple):
    """What can be read of a partition, and the first record in it that is not older than a time; None: all are."""

    start: int
    end: int
    from_time: int | None


class Chunk(NamedTuple):
    buffers: Sequence[Buffer]  # each holds one or more whole batches
    size: int
    next_offset: int  # where to go on; not after the offset asked for: there is nothing more
    aborted: Sequence[Aborted]

    def records(self, is_wanted: Callable[[memoryview], bool]) -> Iterator[Record]:
        """Those that readers see, of the batches that are wanted."""
        batches = [batch for buffer in self.buffers for batch in split_batches(memoryview(buffer))]
        return (
            record
            for batch in batches
            if _is_for_readers(batch, self.aborted) and is_wanted(batch)
            for record in iterate(batch)
        )


class Source(Protocol):
    """A partition that can be read."""

    @property
    def index(self) -> int: ...

    async def bounds(self, isolation: Isolation, from_time: Millis | None) -> Bounds: ...

    async def read(self, offset: int, max_bytes: int, isolation: Isolation) -> Chunk:
        """Batches from the one that holds the offset, or from the first there is after it."""
        ...


class HereSource:
    def __init__(self, log: Partition) -> None:
        self._log = log

    @property
    def index(self) -> int:
        return self._log.index

    async def bounds(self, isolation: Isolation, from_time: Millis | None) -> Bounds:
        log = self._log
        start, end = log.log_start_offset, log.latest(isolation).offset
        return Bounds(start, end, await self._find(from_time, isolation))

    async def _find(self, time: Millis | None, isolation: Isolation) -> int | None:
        found = None if time is None else await self._log.offset_for_time(time, isolation)
        return None if found is None else found.offset

    async def read(self, offset: int, max_bytes: int, isolation: Isolation) -> Chunk:
        log = self._log
        wanted = Offset(max(offset, log.log_start_offset))  # retention may have been faster
        try:
            read = log.read(wanted, max_bytes, isolation)
            if read is None:
                read = await log.read_stored(wanted, max_bytes, isolation)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return Chunk((), 0, offset, ())  # past the end
        return Chunk(read.buffers, read.size, read.next_offset, read.aborted or ())


class FarSource:
    def __init__(self, place: LogId, anywhere: Anywhere) -> None:
        self._place = place
        self._anywhere = anywhere

    @property
    def index(self) -> int:
        return self._place.partition

    async def bounds(self, isolation: Isolation, from_time: Millis | None) -> Bounds:
        return Bounds(*await self._ask("read-bounds", isolation, from_time))

    async def read(self, offset: int, max_bytes: int, isolation: Isolation) -> Chunk:
        text, next_offset, aborted = await self._ask("read-chunk", offset, max_bytes, isolation)
        batches = b64decode(text)
        found = [Aborted(ProducerId(p), Offset(f), Offset(last), Offset(0)) for p, f, last in aborted]
        return Chunk([batches] if batches else (), len(batches), next_offset, found)

    async def _ask(self, command: str, *arguments: Any) -> Any:
        told = [self._place.topic_id.hex, self._place.partition, *arguments]
        return await self._anywhere.ask(self._place, command, told)


class Finding(Protocol):
    def find(self, topic: str, partitions: Sequence[int] | None) -> Mapping[int, Source]:
        """Of a topic, all or these. Raises KafkaError."""
        ...


class HereSources:
    """The logs of a broker that knows nothing of a cluster."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def find(self, topic: str, partitions: Sequence[int] | None) -> Mapping[int, Source]:
        if partitions is not None:
            found = {index: self._logs.find(topic, index) for index in partitions}
        else:
            found = {log.index: log for log in self._logs.all() if log.topic == topic}
        sources = {index: HereSource(log) for index, log in sorted(found.items()) if log is not None}
        if not sources or len(sources) < len(found):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such partition of {topic} here")
        return sources


class Sources:
    """All partitions of the cluster, and answers for other brokers."""

    def __init__(self, anywhere: Anywhere) -> None:
        self._anywhere = anywhere
        anywhere.serve("read-bounds", self._on_bounds)
        anywhere.serve("read-chunk", self._on_chunk)

    def find(self, topic: str, partitions: Sequence[int] | None) -> Mapping[int, Source]:
        places = self._anywhere.places(topic)
        if partitions is not None:
            places = [self._anywhere.place(topic, partition) for partition in sorted(partitions)]
        return {place.partition: self._source(place) for place in places}

    def _source(self, place: LogId) -> Source:
        log = self._anywhere.led(place)
        return HereSource(log) if log is not None else FarSource(place, self._anywhere)

    async def _on_bounds(self, told: Sequence[Any]) -> list[Any]:
        log = self._anywhere.required(told)
        isolation, from_time = told[2:]
        return list(await HereSource(log).bounds(Isolation(isolation), from_time))

    async def _on_chunk(self, told: Sequence[Any]) -> list[Any]:
        log = self._anywhere.required(told)
        offset, max_bytes, isolation = told[2:]
        chunk = await HereSource(log).read(offset, max_bytes, Isolation(isolation))
        aborted = [[each.producer_id, each.first_offset, each.last_offset] for each in chunk.aborted]
        return [b64encode(b"".join(chunk.buffers)).decode(), chunk.next_offset, aborted]


def _is_for_readers(batch: memoryview, aborted: Sequence[Aborted]) -> bool:
    header = read_header(batch)
    return not header.is_control and not (header.is_transactional and _is_aborted(header, aborted))


def _is_aborted(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
