"""Looking up what happened to records: by trace id, by message id, by where a record is, or by time.

In a cluster brokers write what they see where they lead, so every broker is asked for what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.anywhere import Anywhere
from kompat.extensions.reading import ReadRange, ReadService
from kompat.extensions.tracing import events, index
from kompat.extensions.tracing.context import TRACE_ID_SIZE, place_id
from kompat.extensions.tracing.events import Kind, Place, TraceEvent
from kompat.extensions.tracing.recorder import Recorder
from kompat.extensions.tracing.timeline import Timeline, timelines
from kompat.log.manager import Logs
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import Record, iterate, split_batches
from kompat.types import LogId, Millis, Offset

TRACE_TOPIC = "__kompat_trace"
MOST_BATCHES = 2000  # that are read for one trace
NO_LIMIT = 2**31 - 1
READ_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class EventPage:
    events: Sequence[TraceEvent]
    cursor: str | None  # where to go on; None: that was all


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStatistics:
    written: int  # events, since the start
    dropped: int


class TraceService:
    def __init__(
        self,
        recorder: Recorder,
        partitions: Callable[[], Sequence[Partition]],
        reads: ReadService,
        logs: Logs,
        anywhere: Anywhere | None = None,
    ) -> None:
        self._recorder = recorder
        self._logs = logs
        self._here = partitions
        self._reads = reads
        self._anywhere = anywhere
        if anywhere is not None:
            anywhere.serve("trace-settle", self._on_settle)
            anywhere.serve("trace-events", self._on_events)
            anywhere.serve("trace-message", self._on_message)
            anywhere.serve("trace-record", self._on_record)

    @property
    def statistics(self) -> TraceStatistics:
        return TraceStatistics(written=self._recorder.written, dropped=self._recorder.dropped)

    async def by_id(self, trace_id: str) -> list[Timeline]:
        """The stories of all records of a trace, in the order in which they began; none where nothing is known of it."""
        found = _trace_id(trace_id)
        await self._settle()
        return await self._stories(found)

    async def by_message_id(self, message_id: str) -> list[Timeline]:
        await self._settle()
        found = set(self._traces_of(message_id))
        for told in await self._ask_others("trace-message", message_id):
            found.update(map(bytes.fromhex, told))
        stories = [story for trace_id in found for story in await self._stories(trace_id)]
        return sorted(
            (story for story in stories if story.message_id == message_id),
            key=lambda story: story.steps[0].event.timestamp,
        )

    async def by_record(self, topic: str, partition: int, offset: int) -> Timeline | None:
        """The story of the record that is, or was, at this place."""
        if partition < 0 or offset < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}/{partition}/{offset} is no place for a record")
        await self._settle()
        place = Place(topic, partition, offset)
        found = await self._find(place) or self._follow(place)
        if found is None:
            return None
        trace_id, record = found
        return next((story for story in await self._stories(trace_id) if story.record == record), None)

    async def _find(self, place: Place) -> tuple[bytes, str] | None:
        found = self._find_here(place)
        if found is None:
            answers = await self._ask_others("trace-record", *place)
            told = next((answer for answer in answers if answer is not None), None)
            found = None if told is None else (bytes.fromhex(told[0]), told[1])
        return found

    def _follow(self, place: Place) -> tuple[bytes, str] | None:
        """The id that follows from the place itself."""
        log_id = self._log_id(place)
        return None if log_id is None else (place_id(log_id.key, place.offset), str(place))

    def _log_id(self, place: Place) -> LogId | None:
        if self._anywhere is None:
            log = self._logs.find(place.topic, place.partition)
            return None if log is None else log.log_id
        try:
            return self._anywhere.place(place.topic, place.partition)
        except KafkaError:
            return None

    async def search(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        from_time: Millis | None = None,
        to_time: Millis | None = None,
        event: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EventPage:
        """Events in the order of their times, those of a topic, a group or of a kind only. A page may be empty and yet not
        the last."""
        if event is not None and event not in Kind.__members__:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{event} is no event: those are {', '.join(Kind)}")
        await self._settle()
        if not self._exists:
            return EventPage([], None)

        def is_wanted(record: Record) -> bool:
            found = events.decode(record.value)
            return (
                found is not None
                and topic in (None, found.topic)
                and group in (None, found.group)
                and event in (None, found.event)
            )

        wanted = ReadRange(topic=TRACE_TOPIC, from_time=from_time, to_time=to_time)
        page = await self._reads.read(wanted, limit=limit, cursor=cursor, keep=is_wanted)
        found = (events.decode(each.record.value) for each in page.records)
        return EventPage([each for each in found if each is not None], page.cursor)

    # -- reading ---------------------------------------------------------------------------------------------------
    @property
    def _exists(self) -> bool:
        return bool(self._here()) if self._anywhere is None else self._anywhere.exists(TRACE_TOPIC)

    def _partitions(self) -> list[Partition]:
        """Those that this broker answers for."""
        return [each for each in self._here() if self._anywhere is None or each.is_led]

    async def _settle(self) -> None:
        await self._recorder.settle()
        await self._ask_others("trace-settle")

    async def _ask_others(self, command: str, *arguments: Any) -> list[Any]:
        return [] if self._anywhere is None else await self._anywhere.ask_others(command, arguments)

    async def _stories(self, trace_id: bytes) -> list[Timeline]:
        found = await self._events_here(trace_id)
        for told in await self._ask_others("trace-events", trace_id.hex()):
            found += [TraceEvent(**each) for each in told]
        return timelines(found)

    # -- what is here ----------------------------------------------------------------------------------------------
    async def _events_here(self, trace_id: bytes) -> list[TraceEvent]:
        found: list[TraceEvent] = []
        for partition in self._partitions():
            names = partition.store.state_range(*index.trace_range(trace_id), MOST_BATCHES, NO_LIMIT)
            for base in (index.batch_of(name) for name, _ in names):
                if base >= partition.log_start_offset:
                    found += await _events_of(partition, Offset(base), trace_id.hex())
        return found

    def _traces_of(self, message_id: str) -> list[bytes]:
        first, end = index.message_range(message_id)
        size = len(first) + TRACE_ID_SIZE  # longer ones are of message ids that begin like this one
        return [
            index.trace_of(name)
            for partition in self._partitions()
            for name, _ in partition.store.state_range(first, end, MOST_BATCHES, NO_LIMIT)
            if len(name) == size
        ]

    def _find_here(self, place: Place) -> tuple[bytes, str] | None:
        name = index.record_name(place)
        values = (partition.store.state(name) for partition in self._partitions())
        return next((index.record_value(value) for value in values if value is not None), None)

    async def _on_settle(self, _: object) -> None:
        await self._recorder.settle()

    async def _on_events(self, told: Sequence[Any]) -> list[Any]:
        return [event.to_json() for event in await self._events_here(bytes.fromhex(told[0]))]

    async def _on_message(self, told: Sequence[Any]) -> list[str]:
        return [trace_id.hex() for trace_id in self._traces_of(told[0])]

    async def _on_record(self, told: Sequence[Any]) -> list[str] | None:
        found = self._find_here(Place(*told))
        return None if found is None else [found[0].hex(), found[1]]


async def _events_of(partition: Partition, base: Offset, trace_id: str) -> list[TraceEvent]:
    """Those of a trace in the batch that begins there."""
    isolation = Isolation.READ_UNCOMMITTED
    try:
        read = partition.read(base, READ_BYTES, isolation)
        if read is None:
            read = await partition.read_stored(base, READ_BYTES, isolation)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was faster
            return []
        raise
    if not read.buffers:
        return []
    batch = split_batches(memoryview(read.buffers[0]))[0]
    key = trace_id.encode()
    found = (events.decode(record.value) for record in iterate(batch) if record.key == key)
    return [event for event in found if event is not None]


def _trace_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != TRACE_ID_SIZE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text!r} is no trace id: that has 32 hexadecimal digits")
    return found
