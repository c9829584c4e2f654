"""Looking up what happened to records: by trace id, by message id, by where a record is, or by time.

In a cluster brokers write what they see where they lead, so every broker is asked for what it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.reads.service import ReadRange, ReadService
from kompat.extensions.tracing import events, index
from kompat.extensions.tracing.context import TRACE_ID_SIZE, place_id
from kompat.extensions.tracing.events import Kind, Place, TraceEvent
from kompat.extensions.tracing.recorder import TRACE_TOPIC, Recorder
from kompat.extensions.tracing.requests import (
    FindTracedRecord,
    FlushEvents,
    ListEvents,
    ListTracesOfMessage,
    TracedRecord,
)
from kompat.extensions.tracing.timeline import Timeline, timelines
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import Record, iterate, split_batches
from kompat.rpc.router import Router
from kompat.types import Millis, Offset

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
    def __init__(self, recorder: Recorder, partitions: PartitionLookup, rpc: Router, reads: ReadService) -> None:
        self._recorder = recorder
        self._partitions = partitions
        self._rpc = rpc
        self._reads = reads
        rpc.serve(FlushEvents, self._flush)
        rpc.serve(ListEvents, self._list_events)
        rpc.serve(ListTracesOfMessage, self._list_traces)
        rpc.serve(FindTracedRecord, self._find_record)

    @property
    def statistics(self) -> TraceStatistics:
        return TraceStatistics(written=self._recorder.written, dropped=self._recorder.dropped)

    async def by_id(self, trace_id: str) -> list[Timeline]:
        """Of all records of a trace, in the order in which they began; none where nothing is known of it."""
        found = _trace_id(trace_id)
        await self._rpc.call_all(FlushEvents())
        return await self._timelines(found)

    async def by_message_id(self, message_id: str) -> list[Timeline]:
        await self._rpc.call_all(FlushEvents())
        found = {each for ids in await self._rpc.call_all(ListTracesOfMessage(message_id)) for each in ids}
        all_of_them = [timeline for trace_id in found for timeline in await self._timelines(trace_id)]
        return sorted(
            (timeline for timeline in all_of_them if timeline.message_id == message_id),
            key=lambda timeline: timeline.steps[0].event.timestamp,
        )

    async def by_record(self, topic: str, partition: int, offset: int) -> Timeline | None:
        """Of the record that is, or was, at this place."""
        if partition < 0 or offset < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}/{partition}/{offset} is no place for a record")
        await self._rpc.call_all(FlushEvents())
        place = Place(topic, partition, offset)
        answers = await self._rpc.call_all(FindTracedRecord(place))
        found = next((each for each in answers if each is not None), None) or self._follow(place)
        if found is None:
            return None
        return next((each for each in await self._timelines(found.trace_id) if each.record == found.record), None)

    def _follow(self, place: Place) -> TracedRecord | None:
        """The id that follows from the place itself."""
        try:
            log_id = self._partitions.log_id(place.topic, place.partition)
        except KafkaError:
            return None
        return TracedRecord(place_id(log_id.key, place.offset), str(place))

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
        await self._rpc.call_all(FlushEvents())
        try:
            self._partitions.topic(TRACE_TOPIC)
        except KafkaError:
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

    async def _timelines(self, trace_id: bytes) -> list[Timeline]:
        return timelines(event for found in await self._rpc.call_all(ListEvents(trace_id)) for event in found)

    # -- what every broker does ------------------------------------------------------------------------------------
    async def _flush(self, _: FlushEvents) -> None:
        await self._recorder.flush()

    async def _list_events(self, request: ListEvents) -> list[TraceEvent]:
        found: list[TraceEvent] = []
        for partition in self._recorder.led():
            names = partition.store.state_range(*index.trace_range(request.trace_id), MOST_BATCHES, NO_LIMIT)
            for base in (index.batch_of(name) for name, _ in names):
                if base >= partition.log_start_offset:
                    found += await _events_of(partition, Offset(base), request.trace_id.hex())
        return found

    async def _list_traces(self, request: ListTracesOfMessage) -> list[bytes]:
        first, end = index.message_range(request.message_id)
        size = len(first) + TRACE_ID_SIZE  # longer ones are of message ids that begin like this one
        return [
            index.trace_of(name)
            for partition in self._recorder.led()
            for name, _ in partition.store.state_range(first, end, MOST_BATCHES, NO_LIMIT)
            if len(name) == size
        ]

    async def _find_record(self, request: FindTracedRecord) -> TracedRecord | None:
        name = index.record_name(request.place)
        values = (partition.store.state(name) for partition in self._recorder.led())
        return next((TracedRecord(*index.record_value(value)) for value in values if value is not None), None)


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
