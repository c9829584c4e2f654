"""Records of a topic that is delivered by priority, as they wait: in ten lanes, one for each class. Pure, like timers.py.

| state's name | value |
| --- | --- |
| `l/s` | of each lane how many wait and where it begins, the number of the next run, and the totals |
| `l/q`, 9 - class, number | a run: records of one class that came together, as a batch |
| `l/x`, producer, slot, class | a run of an open transaction, without its records |
| `l/d`, slot, class | those records |
| `l/r`, offset | how many records were released there, if uncommitted ones are counted |

Runs are numbered as they come, so a lane is a queue. A run that is released in part stays whole, and the lane stores how far it
was released. A transaction's runs enter when it is committed; their records stay where they are until they are released.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple, Protocol

from kompat.config.topic import TopicConfig
from kompat.extensions.states import Draft
from kompat.log.packing import ADDED_BYTES, size_of
from kompat.protocol.batch import CRC_START
from kompat.protocol.records import Record, iterate
from kompat.types import Buffer, Millis, Offset

SUMMARY: Final = b"l/s"
QUEUE: Final = b"l/q"
UNDECIDED: Final = b"l/x"
DATA: Final = b"l/d"
RELEASED: Final = b"l/r"
HIGHEST: Final = 9
CLASSES: Final = HIGHEST + 1
NO_END: Final = 2**63 - 1
BY_PRIORITY: Final = "priority"  # a value of kompat.delivery.order

_VERSION = 1
_APART = 1  # flag: the records are in a state of their own
_FINISHED = 2  # flag: they look as they will in the log; else the headers that name their slots have to be added
_RUN = Struct(">BBBBIQQI")  # version, flags, class, codec, count, when it was parked, first slot, size of the batch
_TOTALS = Struct(">BQQQ")  # version, number of the next run, undecided records, bytes
_LANE = Struct(">QQI")  # count, number of the first run, records of it that are gone
_QUEUED = Struct(">BQ")
_TRANSACTION = Struct(">QQB")
_PLACE = Struct(">QB")
_NUMBER = Struct(">Q")


@dataclass(slots=True)
class Run:
    """Records of one class that came together."""

    priority: int
    count: int
    codec: int
    parked_at: Millis
    slot: Offset  # their offsets in the batch count from here
    batch: Buffer
    is_finished: bool = False

    def encode(self) -> bytes:
        return self._head(_FINISHED if self.is_finished else 0) + bytes(self.batch)

    def encode_apart(self) -> bytes:
        """Without the batch."""
        return self._head(_APART)

    def _head(self, flags: int) -> bytes:
        return _RUN.pack(
            _VERSION, flags, self.priority, self.codec, self.count, self.parked_at, self.slot, len(self.batch)
        )


class Taken(NamedTuple):
    """Records of a run that have left their lane."""

    records: list[Record]
    slot: Offset | None  # from where their offsets count; None: their headers name their slots already
    parked_at: Millis
    codec: int


@dataclass(slots=True)
class Lane:
    count: int = 0
    first: int = 0  # number of the first run
    gone: int = 0  # records of that run


@dataclass(slots=True)
class Summary:
    next_number: int = 0
    undecided: int = 0  # records of transactions that have not ended
    size: int = 0  # in bytes, of all runs, also of those that are released in part
    lanes: list[Lane] = field(default_factory=lambda: [Lane() for _ in range(CLASSES)])  # by class

    @property
    def waiting(self) -> int:
        return sum(lane.count for lane in self.lanes)

    def encode(self) -> bytes:
        totals = _TOTALS.pack(_VERSION, self.next_number, self.undecided, self.size)
        return b"".join([totals, *(_LANE.pack(lane.count, lane.first, lane.gone) for lane in self.lanes)])

    @classmethod
    def decode(cls, value: bytes | None) -> Summary:
        if value is None:
            return cls()
        _, next_number, undecided, size = _TOTALS.unpack_from(value)
        return cls(next_number, undecided, size, [Lane(*fields) for fields in _LANE.iter_unpack(value[_TOTALS.size :])])


class Opened(Protocol):
    """Caches the records of a run that is released in parts."""

    def take(self, run: bytes) -> list[Record] | None:
        """`run` is its name and beginning."""
        ...

    def keep(self, run: bytes, records: list[Record]) -> None: ...


@dataclass(slots=True)
class Limit:
    """The limit of one release; at least one record is released."""

    records: int
    size: int  # in bytes, before compression
    before: int = NO_END  # only runs with numbers below this
    has_taken: bool = False  # something was taken, so the rest has to fit

    @property
    def is_reached(self) -> bool:
        return self.records <= 0 or self.size <= 0


class Lanes:
    """Changes that are made together: `finish` writes the result to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._before = draft.get(SUMMARY)
        self.summary = Summary.decode(self._before)

    def finish(self) -> None:
        """The summary stays once there is one: numbers of runs are not reused."""
        encoded = self.summary.encode()
        if encoded != self._before:
            self._draft.put(SUMMARY, encoded)

    # -- coming ----------------------------------------------------------------------------------------------------
    def park(self, run: Run) -> None:
        self._enqueue(run.priority, run.count, run.encode())
        self.summary.size += len(run.batch)

    def park_undecided(self, run: Run, producer_id: int) -> None:
        """Keep it until its producer's transaction ends."""
        self._draft.put(_undecided_name(producer_id, run.slot, run.priority), run.encode_apart())
        self._draft.put(_data_name(run.slot, run.priority), bytes(run.batch))
        self.summary.undecided += run.count
        self.summary.size += len(run.batch)

    def _enqueue(self, priority: int, count: int, value: bytes) -> None:
        summary = self.summary
        lane, number = summary.lanes[priority], summary.next_number
        if not lane.count:
            lane.first, lane.gone = number, 0
        lane.count += count
        summary.next_number = number + 1
        self._draft.put(_queue_name(priority, number), value)

    def commit(self, producer_id: int, start: Offset) -> None:
        """The producer's transaction, begun at `start`, was committed: its runs enter their lanes now."""
        for name, value in self._undecided(producer_id, start):
            _, _, priority, _, count, *_ = _RUN.unpack_from(value)
            self._draft.delete(name)
            self.summary.undecided -= count
            self._enqueue(priority, count, value)

    def abort(self, producer_id: int, start: Offset) -> None:
        for name, value in self._undecided(producer_id, start):
            _, _, priority, _, count, _, slot, size = _RUN.unpack_from(value)
            self._draft.delete(name)
            self._draft.delete(_data_name(slot, priority))
            self.summary.undecided -= count
            self.summary.size -= size

    def _undecided(self, producer_id: int, start: Offset) -> list[tuple[bytes, bytes]]:
        if not self.summary.undecided:
            return []
        end = _undecided_name(producer_id + 1, Offset(0), HIGHEST)
        return self._draft.view.range(_undecided_name(producer_id, start, HIGHEST), end)

    # -- going -----------------------------------------------------------------------------------------------------
    def take(self, limit: Limit, opened: Opened) -> list[Taken]:
        """Remove the next records, the highest class first, up to the limit. Before other changes only."""
        taken: list[Taken] = []
        for priority in range(HIGHEST, -1, -1):
            lane = self.summary.lanes[priority]
            while lane.count and not limit.is_reached and lane.first < limit.before:
                self._take_from(priority, lane, limit, opened, taken)
        return taken

    def has_before(self, number: int) -> bool:
        """Whether a run waits that came before the one of this number."""
        return any(lane.count and lane.first < number for lane in self.summary.lanes)

    def _take_from(self, priority: int, lane: Lane, limit: Limit, opened: Opened, taken: list[Taken]) -> None:
        """Some runs of a lane: as many as one read gives."""
        start, end = _queue_name(priority, lane.first), _queue_name(priority, limit.before)
        found = self._draft.view.range(start, end, limit.records, limit.size)
        for name, value in found:
            if limit.is_reached:
                break
            lane.first = _number_of(name)
            self._take_run(name, value, lane, limit, opened, taken)
        if not found:  # all others came later
            lane.first = max(lane.first, limit.before)

    def _take_run(
        self, name: bytes, value: bytes, lane: Lane, limit: Limit, opened: Opened, taken: list[Taken]
    ) -> None:
        _, flags, priority, codec, _, parked_at, slot, size = _RUN.unpack_from(value)
        known = name + value[: _RUN.size + CRC_START]  # with the batch's checksum: names may be reused if a write fails
        records = opened.take(known)
        if records is None:
            batch = value[_RUN.size :] if not flags & _APART else self._draft.get(_data_name(slot, priority))
            records = list(iterate(batch or b""))
        end = _end(records, lane.gone, limit, NO_END if codec else size)
        if end == lane.gone:  # the next one does not fit behind those already taken
            opened.keep(known, records)
            return
        counted_from = None if flags & _FINISHED else Offset(slot)
        taken.append(Taken(records[lane.gone : end], counted_from, Millis(parked_at), codec))
        lane.count -= end - lane.gone
        lane.gone = end
        if end < len(records):
            opened.keep(known, records)
            return
        self._draft.delete(name)
        if flags & _APART:
            self._draft.delete(_data_name(slot, priority))
        self.summary.size -= size
        lane.first, lane.gone = lane.first + 1, 0


def _end(records: list[Record], start: int, limit: Limit, most: int) -> int:
    """Where the limit ends a run; the rest of the limit is stored. `most`: an upper bound of the records' bytes."""
    end, rest = start, len(records) - start
    if rest <= limit.records and most + rest * ADDED_BYTES <= limit.size:
        limit.size -= most + rest * ADDED_BYTES
        end = len(records)
    else:
        for record in records[start : start + limit.records]:
            limit.size -= size_of(record) + ADDED_BYTES
            if limit.size < 0 and (limit.has_taken or end > start):
                break
            end += 1
    limit.records -= end - start
    limit.has_taken = True
    return end


def _queue_name(priority: int, number: int) -> bytes:
    return QUEUE + _QUEUED.pack(HIGHEST - priority, number)


def _number_of(name: bytes) -> int:
    number: int = _QUEUED.unpack_from(name, len(QUEUE))[1]
    return number


def _undecided_name(producer_id: int, slot: Offset, priority: int) -> bytes:
    return UNDECIDED + _TRANSACTION.pack(producer_id, slot, HIGHEST - priority)


def _data_name(slot: int, priority: int) -> bytes:
    return DATA + _PLACE.pack(slot, HIGHEST - priority)


def released_name(offset: Offset) -> bytes:
    return RELEASED + _NUMBER.pack(offset)


def encode_released(count: int) -> bytes:
    return _NUMBER.pack(count)


def decode_released(name: bytes, value: bytes) -> tuple[Offset, int]:
    """Where records were released, and how many."""
    return Offset(_NUMBER.unpack_from(name, len(RELEASED))[0]), _NUMBER.unpack(value)[0]


def is_on(config: TopicConfig) -> bool:
    """Whether records of the topic wait in lanes. Those of a queue topic are in order already."""
    return (
        config.kompat_delivery_order == BY_PRIORITY
        and config.kompat_extensions_enable
        and not config.kompat_queue_source
    )
