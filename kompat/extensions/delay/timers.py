"""Changes to one partition's parked records, as state writes. Pure: they follow from the states and the arguments.

Records wait in the order of their due times, then of their slots: a slot is the record's offset in the log, which
identifies it. Nothing is held in memory; due records are read when they are delivered.
"""

from __future__ import annotations

from kompat.extensions.delay import records as parked
from kompat.extensions.delay.records import DelayedRecord, Summary
from kompat.extensions.states import Draft
from kompat.log.interceptor import StateWrite
from kompat.types import NO_PRODUCER, Millis, Offset, ProducerId


class Timers:
    """Changes that are made together. `writes` returns their result."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._before = draft.get(parked.SUMMARY)
        self.summary = Summary.decode(self._before)
        self.replaced: list[DelayedRecord] = []  # replaced by others

    def writes(self) -> list[StateWrite]:
        summary = self.summary
        if not summary.waiting:
            summary.begin_with(parked.NEVER, Offset(0))
        encoded = summary.encode() if summary.waiting or summary.undecided else None
        if encoded is None and self._before is not None:
            self._draft.delete(parked.SUMMARY)
        elif encoded is not None and encoded != self._before:
            self._draft.put(parked.SUMMARY, encoded)
        return self._draft.writes()

    # -- coming ----------------------------------------------------------------------------------------------------
    def park(self, record: DelayedRecord) -> None:
        """Park it, instead of the one that waits under its schedule id."""
        self.replace(record.schedule_id)
        value = record.encode()
        self._wait(record.slot, record.due, record.schedule_id, value)
        self.summary.size += len(value)

    def park_undecided(self, record: DelayedRecord, producer_id: int) -> None:
        """Keep it until its producer's transaction ends."""
        value = record.encode()
        self._draft.put(parked.undecided_name(producer_id, record.slot), value)
        self._draft.put(parked.place_name(record.slot), parked.encode_place(record.due, producer_id))
        self.summary.undecided += 1
        self.summary.size += len(value)

    def _wait(self, slot: Offset, due: Millis, schedule_id: str | None, value: bytes) -> None:
        self._draft.put(parked.timer_name(due, slot), value)
        self._draft.put(parked.place_name(slot), parked.encode_place(due, NO_PRODUCER))
        if schedule_id is not None:
            self._draft.put(parked.schedule_name(schedule_id), parked.encode_slot(slot))
        summary = self.summary
        summary.waiting += 1
        if (due, slot) < (summary.none_before, summary.from_slot):
            summary.begin_with(due, slot)

    def commit(self, producer_id: int, start: Offset) -> None:
        """The producer's transaction, begun at `start`, was committed: its records are parked, or due at once."""
        for slot, value in self._undecided(producer_id, start):
            head = parked.head(value)
            self._forget_undecided(producer_id, slot, value)
            self.replace(head.schedule_id)
            if len(value) > head.size:
                self._wait(slot, head.due, head.schedule_id, value)
                self.summary.size += len(value)

    def abort(self, producer_id: int, start: Offset) -> None:
        for slot, value in self._undecided(producer_id, start):
            self._forget_undecided(producer_id, slot, value)

    def _undecided(self, producer_id: int, start: Offset) -> list[tuple[Offset, bytes]]:
        if not self.summary.undecided:
            return []
        first, end = parked.undecided_name(producer_id, start), parked.undecided_name(producer_id + 1, Offset(0))
        found = self._draft.view.range(first, end)
        return [(parked.undecided_slot(name), value) for name, value in found]

    # -- going -----------------------------------------------------------------------------------------------------
    def replace(self, schedule_id: str | None) -> None:
        """Another record replaces the one that waits under the id."""
        slot = self.slot_of(schedule_id) if schedule_id is not None else None
        removed = self.remove(slot) if slot is not None else None
        if removed is not None:
            self.replaced.append(removed)

    def remove(self, slot: Offset) -> DelayedRecord | None:
        """Remove the record; None if there is none."""
        place = self._draft.get(parked.place_name(slot))
        if place is None:
            return None
        due, producer_id = parked.decode_place(place)
        if producer_id != NO_PRODUCER:
            return self._remove_undecided(producer_id, slot)
        value = self._draft.get(parked.timer_name(due, slot))
        return None if value is None else self._forget(parked.decode(slot, value), len(value))

    def take_due(self, now: Millis, limit: int, max_bytes: int) -> list[DelayedRecord]:
        """Remove records that are due by `now`, in their order, up to the limits, but at least one. Before other changes only.

        `max_bytes`: of the records as they are stored, and as they are before compression.
        """
        summary = self.summary
        # Start at the first one: before that, the store would have to iterate over deleted ones.
        start = parked.timer_name(summary.none_before, summary.from_slot)
        end = parked.timer_name(Millis(now + 1), Offset(0))
        if not summary.waiting or start >= end:
            return []
        taken: list[DelayedRecord] = []
        left = max_bytes
        for name, value in self._draft.view.range(start, end, limit, max_bytes):
            record = parked.decode(parked.timer_of(name)[1], value)
            left -= record.plain_size
            if taken and left < 0:
                break
            taken.append(self._forget(record, len(value)))
            start = name + b"\0"
        following = self._draft.view.range(start, parked.AFTER_TIMERS, 1)
        if following:
            summary.begin_with(*parked.timer_of(following[0][0]))
        return taken

    def _forget(self, record: DelayedRecord, size: int) -> DelayedRecord:
        """`size`: in bytes, as it is stored."""
        slot = record.slot
        self._draft.delete(parked.timer_name(record.due, slot))
        self._draft.delete(parked.place_name(slot))
        if record.schedule_id is not None and self.slot_of(record.schedule_id) == slot:
            self._draft.delete(parked.schedule_name(record.schedule_id))
        self.summary.waiting -= 1
        self.summary.size -= size
        return record

    def _remove_undecided(self, producer_id: ProducerId, slot: Offset) -> DelayedRecord | None:
        value = self._draft.get(parked.undecided_name(producer_id, slot))
        if value is None:
            return None
        self._forget_undecided(producer_id, slot, value)
        return parked.decode(slot, value)

    def _forget_undecided(self, producer_id: int, slot: Offset, value: bytes) -> None:
        self._draft.delete(parked.undecided_name(producer_id, slot))
        self._draft.delete(parked.place_name(slot))
        self.summary.undecided -= 1
        self.summary.size -= len(value)

    # -- looking ---------------------------------------------------------------------------------------------------
    def slot_of(self, schedule_id: str) -> Offset | None:
        value = self._draft.get(parked.schedule_name(schedule_id))
        return None if value is None else parked.decode_slot(value)
