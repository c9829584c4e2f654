"""Who is told of what happens to records, and finds out whether that is part of a story.

Where no record is traced, nobody comes here: `used` is empty, and that is all that is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.extensions.parked import Parked
from kompat.extensions.states import View
from kompat.extensions.tracing.events import Kind, Place, details
from kompat.extensions.tracing.offsets import Entry
from kompat.extensions.tracing.partition import Fresh, PartitionTraces
from kompat.extensions.tracing.recorder import Recorder
from kompat.log.commit import Pending
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
        self.recorder = Recorder(self.save)
        self.unsaved: dict[PartitionTraces, None] = {}  # a set that keeps its order
        self.used: dict[object, PartitionTraces] = {}  # by partition: those that have, or had, traced records
        self._clients: dict[str | None, str] = {}
        self.newest: Fresh | None = None  # the records that were appended last
        self._opened: dict[object, PartitionTraces] = {}

    def now(self) -> Millis:
        return self._clock.now()

    @property
    def has_room(self) -> bool:
        """Is it worth while to open a batch?"""
        return self.recorder.has_room

    @property
    def limit(self) -> int:
        """How many records a partition may remember: the more partitions do, the fewer."""
        return max(LEAST_OF_ONE, min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(self.used))))

    def traces_of(self, partition: Partition, view: View, *, mark: bytes) -> PartitionTraces:
        """For a partition that is opened. `mark`: the name of the state without which there is nothing from before."""
        traces = self._opened[partition] = PartitionTraces(partition, view, self, mark=mark)
        return traces

    def save(self) -> None:
        """Let partitions remember after a restart what they remember now."""
        unsaved, self.unsaved = self.unsaved, {}
        for traces in unsaved:
            try:
                traces.save()
            except KafkaError as error:
                logger.warning("%s will not remember what is traced: %s", traces.partition, error)

    def forget(self, partition: Partition) -> None:
        self._opened.pop(partition, None)
        self.used.pop(partition, None)

    def go_on(self, partition: Partition, entries: list[Entry], turn: Pending, tell: Callable[[], None]) -> None:
        """Records were appended in this turn to a partition whose stories began elsewhere. `tell` of it, when it is true."""
        traces = self._opened.get(partition)
        if traces is not None and entries:
            traces.continue_at(entries, turn, tell)

    # -- plain clients ---------------------------------------------------------------------------------------------
    def sent_by(self, partition: Partition, client_id: str | None) -> None:
        """What was just appended to the partition came from this client."""
        fresh, self.newest = self.newest, None
        if fresh is not None and fresh.traces.partition is partition:
            fresh.client_id = client_id

    def fetched(self, partition: Partition, first: int, end: int, client_id: str | None) -> None:
        """A plain consumer was given the records in [first, end)."""
        traces = self.used.get(partition)
        if traces is not None and first < end:
            entries = list(traces.between(first, end))
            traces.emit(Kind.DELIVERED, entries, self.client_text(client_id), at=self._clock.now())

    def happened(self, traces: PartitionTraces, kind: Kind, first: int, end: int, **more: str | int | None) -> None:
        """The same to all traced records in [first, end)."""
        entries = list(traces.between(first, end))
        if entries:
            traces.emit(kind, entries, details(**more), at=self._clock.now())

    def client_text(self, client_id: str | None) -> str:
        """The field that tells of a client. There are few of them, and they come often."""
        text = self._clients.get(client_id)
        if text is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.clear()
            text = self._clients[client_id] = details(client_id=client_id)
        return text

    # -- dead letters ----------------------------------------------------------------------------------------------
    def redriven(self, letters: Partition, offsets: Sequence[int], target: Partition, appended: Appended) -> None:
        """The records of these letters were appended to their topic in this turn, in this order."""
        traces = self.used.get(letters)
        if traces is None:
            return
        moved = [
            (letter, offset, story)
            for offset, letter in enumerate(offsets, appended.base_offset)
            if (story := traces.find(letter)) is not None
        ]
        now = self._clock.now()

        def tell() -> None:
            places = [Place(target.topic, target.index, offset) for _, offset, _ in moved]
            entries = [(letter, story) for letter, _, story in moved]
            traces.emit(Kind.PRODUCED, entries, details(reason="redriven"), at=now, new_places=places)

        self.go_on(target, [(offset, story) for _, offset, story in moved], appended.pending, tell)

    # -- records that wait -----------------------------------------------------------------------------------------
    def fired(self, traces: PartitionTraces, due: Sequence[Parked], appended: Appended) -> None:
        """Records that waited for their time were appended in this turn, in this order."""
        if traces.partition in self.used:
            waited = ((each.slot, each.record, details(due=each.due)) for each in due)
            self._moved(traces, waited, appended)

    def released(self, partition: Partition, records: Iterable[tuple[int, Record]], appended: Appended) -> None:
        """Records that waited for their turn at their slots were appended in this turn, in this order."""
        traces = self.used.get(partition)
        if traces is not None:
            self._moved(traces, ((slot, record, "") for slot, record in records), appended)

    def _moved(
        self, traces: PartitionTraces, waited: Iterable[tuple[int, Record | None, str]], appended: Appended
    ) -> None:
        moved = []
        for offset, (slot, record, more) in enumerate(waited, appended.base_offset):
            story = traces.story_of(slot, record) if record is not None else None
            if story is not None:
                moved.append((offset, (slot, story), more))
        now = self._clock.now()

        def tell() -> None:
            for offset, entry, more in moved:
                traces.emit(Kind.FIRED, [entry], more, at=now, new_places=[traces.home.place(offset)])

        entries = [(offset, story) for offset, (_, story), _ in moved]
        self.go_on(traces.partition, entries, appended.pending, tell)

    def cancelled(self, traces: PartitionTraces, parked: Parked, reason: str) -> None:
        story = traces.story_of(parked.slot, parked.record) if parked.record is not None else None
        if story is not None:
            traces.emit(Kind.CANCELLED, [(parked.slot, story)], details(reason=reason), at=self._clock.now())
