"""Receives what happens to records, and finds out whether it is part of a trace.

If no record is traced, `used` is empty, and nothing else is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.extensions.delay.records import DelayedRecord
from kompat.extensions.states import View
from kompat.extensions.tracing.buffer import EventBuffer
from kompat.extensions.tracing.events import Kind, Place, details
from kompat.extensions.tracing.offsets import Entry
from kompat.extensions.tracing.partition import PartitionTraces
from kompat.log.partition import Appended, Partition
from kompat.protocol.records import Record
from kompat.types import Millis

logger = logging.getLogger(__name__)

MOST_OF_ONE: Final = 16_384  # records that are remembered for a partition
MOST_OF_ALL: Final = 131_072
LEAST_OF_ONE: Final = 64
MOST_CLIENTS: Final = 1000  # whose names are kept


class Tracer:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events = EventBuffer()
        self.unsaved: dict[PartitionTraces, None] = {}  # a set that keeps its order
        self.used: dict[object, PartitionTraces] = {}  # by partition: those that have, or had, traced records
        self._clients: dict[str | None, str] = {}
        self._opened: dict[object, PartitionTraces] = {}

    def now(self) -> Millis:
        return self._clock.now()

    @property
    def has_room(self) -> bool:
        """Whether it is worth while to decode a batch."""
        return self.events.has_room

    @property
    def limit(self) -> int:
        """How many records a partition may remember: the more partitions do, the fewer."""
        return max(LEAST_OF_ONE, min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(self.used))))

    def traces_of(self, partition: Partition, view: View, *, mark: bytes) -> PartitionTraces:
        """For a partition that is opened. `mark`: the name of the state without which there are no traces from before."""
        traces = self._opened[partition] = PartitionTraces(partition, view, self, mark=mark)
        return traces

    def save(self) -> None:
        """Save the traced offsets of partitions for a restart."""
        unsaved, self.unsaved = self.unsaved, {}
        for traces in unsaved:
            try:
                traces.save()
            except KafkaError as error:
                logger.warning("%s will not remember what is traced: %s", traces.partition, error)

    def forget(self, partition: Partition) -> None:
        self._opened.pop(partition, None)
        self.used.pop(partition, None)

    def go_on(
        self, partition: Partition, entries: list[Entry], turn: Promise[None], report: Callable[[], None] = lambda: None
    ) -> None:
        """Records that began in another place were appended to a partition in this turn. `report` is called after the commit."""
        traces = self._opened.get(partition)
        if traces is not None and entries:
            traces.continue_at(entries, turn, report)

    def found(self, partition: Partition, offsets: Iterable[int]) -> list[Entry]:
        """The traced ones of these records of a partition."""
        traces = self.used.get(partition)
        if traces is None:
            return []
        return [(offset, trace) for offset in offsets if (trace := traces.find(offset)) is not None]

    # -- plain clients ---------------------------------------------------------------------------------------------
    def fetched(self, partition: Partition, first: int, end: int, client_id: str | None) -> None:
        """A plain consumer has fetched the records in [first, end)."""
        traces = self.used.get(partition)
        if traces is not None and first < end:
            entries = list(traces.between(first, end))
            traces.emit(Kind.DELIVERED, entries, self.client_text(client_id), at=self._clock.now())

    def happened(self, traces: PartitionTraces, kind: Kind, first: int, end: int, **more: str | int | None) -> None:
        """The same event for all traced records in [first, end)."""
        entries = list(traces.between(first, end))
        if entries:
            traces.emit(kind, entries, details(**more), at=self._clock.now())

    def client_text(self, client_id: str | None) -> str:
        """The field with the client id. There are few of them, and they come often."""
        text = self._clients.get(client_id)
        if text is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.clear()
            text = self._clients[client_id] = details(client_id=client_id)
        return text

    # -- dead letters ----------------------------------------------------------------------------------------------
    def redriven(self, dead_letters: Partition, places: Mapping[int, Place]) -> None:
        """The originals of these dead-letter records, by their offsets, were appended to their topics."""
        traces, entries = self.used.get(dead_letters), self.found(dead_letters, places)
        if traces is not None:
            new_places = [places[offset] for offset, _ in entries]
            traces.emit(Kind.PRODUCED, entries, details(reason="redriven"), at=self._clock.now(), new_places=new_places)

    # -- records that wait -----------------------------------------------------------------------------------------
    def fired(self, traces: PartitionTraces, due: Sequence[DelayedRecord], appended: Appended) -> None:
        """Delayed records were appended in this turn, in this order."""
        if traces.partition in self.used:
            waited = ((each.slot, each.record, details(due=each.due)) for each in due)
            self._moved(traces, waited, appended)

    def released(self, partition: Partition, records: Iterable[tuple[int, Record]], appended: Appended) -> None:
        """Records from lanes, by their slots, were appended in this turn, in this order."""
        traces = self.used.get(partition)
        if traces is not None:
            self._moved(traces, ((slot, record, "") for slot, record in records), appended)

    def _moved(
        self, traces: PartitionTraces, waited: Iterable[tuple[int, Record | None, str]], appended: Appended
    ) -> None:
        moved = []
        for offset, (slot, record, more) in enumerate(waited, appended.base_offset):
            trace = traces.trace_of(slot, record) if record is not None else None
            if trace is not None:
                moved.append((offset, (slot, trace), more))
        now = self._clock.now()

        def report() -> None:
            for offset, entry, more in moved:
                traces.emit(Kind.FIRED, [entry], more, at=now, new_places=[traces.label.place(offset)])

        entries = [(offset, trace) for offset, (_, trace), _ in moved]
        self.go_on(traces.partition, entries, appended.pending, report)

    def cancelled(self, traces: PartitionTraces, parked: DelayedRecord, reason: str) -> None:
        trace = traces.trace_of(parked.slot, parked.record) if parked.record is not None else None
        if trace is not None:
            traces.emit(Kind.CANCELLED, [(parked.slot, trace)], details(reason=reason), at=self._clock.now())
