"""Adds a partition's batches and due records to its lanes: all records go there first, and are released by priority.

A batch whose records are of one class is parked as it is, without decoding it if no header sets a class: that makes it cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import headers
from kompat.extensions.dedup.contested import Transaction
from kompat.extensions.headers import DEFAULT_PRIORITY, priority_of
from kompat.extensions.priority import lanes
from kompat.extensions.priority.lanes import Lanes, Run, Summary
from kompat.extensions.states import Draft, View
from kompat.log.interceptor import Intercepted, StateWrite
from kompat.log.partition import Partition
from kompat.log.validation import Writable
from kompat.protocol.records import BatchHeader, Record, build_batch, empty_batch, iterate, read_header
from kompat.types import Millis, Offset

RUN_RECORDS = 10_000  # of one run: it is decoded whole, however few of its records are released
ROOM_FOR_HEADERS = 256  # bytes that a record may grow by on its way into the log


class LaneInterceptor:
    """One partition's."""

    __slots__ = ("_partition", "_view", "is_used", "loads")

    def __init__(self, partition: Partition, view: View, *, is_extended: bool) -> None:
        self._partition = partition
        self._view = view
        self.loads = 0  # how often the states were loaded again
        self.load(is_extended=is_extended)

    def load(self, *, is_extended: bool) -> None:
        """Check whether the store has lanes; that is only possible if extensions are in use."""
        self.is_used = is_extended and self._view.get(lanes.SUMMARY) is not None
        self.loads += 1

    def staged(self, writes: Sequence[StateWrite]) -> None:
        if not self.is_used:
            self.is_used = any(name == lanes.SUMMARY for name, _ in writes)

    @property
    def is_on(self) -> bool:
        return lanes.is_on(self._partition.config)

    @property
    def summary(self) -> Summary:
        return Summary.decode(self._view.get(lanes.SUMMARY)) if self.is_used else Summary()

    # -- deciding --------------------------------------------------------------------------------------------------
    def intercept(
        self, left: Intercepted, named: int, base_offset: Offset, now: Millis, transaction: Transaction | None
    ) -> Intercepted:
        """Park what is left of a batch for the log."""
        batch, header = left.batch, left.header
        if not header.record_count:
            return left
        if len(batch) + ROOM_FOR_HEADERS > self._partition.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {len(batch)} bytes does not fit in a segment"
            )
        draft = Draft(self._view)
        waiting = Lanes(draft)
        for run in _runs(batch, header, named, base_offset, now):
            if transaction is None:
                waiting.park(run)
            else:
                waiting.park_undecided(run, transaction.producer_id)
        waiting.finish()
        empty = empty_batch(header)
        return left._replace(batch=empty, header=read_header(empty), writes=[*left.writes, *draft.writes()])

    def enter(self, records: Sequence[Record], codec: int, now: Millis) -> list[StateWrite]:
        """Delayed records that are due enter their lanes; they look as they will in the log."""
        draft = Draft(self._view)
        waiting = Lanes(draft)
        for priority, found in _by_class(records).items():
            numbered = [Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(found)]
            batch = build_batch(numbered, compression=codec)
            waiting.park(Run(priority, len(found), codec, now, Offset(0), batch, is_finished=True))
        waiting.finish()
        return draft.writes()

    def end_transaction(self, ended: Transaction, *, commits: bool) -> list[StateWrite]:
        if not self.is_used:
            return []
        draft = Draft(self._view)
        waiting = Lanes(draft)
        if commits:
            waiting.commit(ended.producer_id, ended.start)
        else:
            waiting.abort(ended.producer_id, ended.start)
        waiting.finish()
        return draft.writes()


def _runs(batch: Writable, header: BatchHeader, named: int, slot: Offset, now: Millis) -> list[Run]:
    codec, count = header.compression, header.record_count
    is_small = count <= RUN_RECORDS
    if is_small and not named & headers.PRIORITIES:
        return [Run(DEFAULT_PRIORITY, count, codec, now, slot, batch)]
    by_class = _by_class(iterate(batch))
    if is_small and len(by_class) == 1:
        return [Run(priority, count, codec, now, slot, batch) for priority in by_class]
    return [
        _part(records[at : at + RUN_RECORDS], priority, codec, now, slot)
        for priority, records in by_class.items()
        for at in range(0, len(records), RUN_RECORDS)
    ]


def _part(records: list[Record], priority: int, codec: int, now: Millis, slot: Offset) -> Run:
    """Some records of a batch, as a run that begins with the first of them."""
    first = records[0].offset
    for record in records:
        record.offset -= first
    return Run(priority, len(records), codec, now, Offset(slot + first), build_batch(records, compression=codec))


def _by_class(records: Iterable[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(priority_of(record.headers), []).append(record)
    return found
