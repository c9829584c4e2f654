"""Compaction: keep the newest record of every key. Pure; cleaner.py runs it.

As Kafka's cleaner does it: offsets stay, records of aborted transactions go, a deletion (a record without value) stays
for `delete.retention.ms` after it was first cleaned, so that readers on their way see it, and so does a transaction's
end marker after the last of its records. When a batch's deletions may go is noted in the batch itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from kompat.config.topic import TopicConfig
from kompat.log.aborted import Aborted
from kompat.log.checkpoint import LogState
from kompat.log.storage.store import Rewrite
from kompat.protocol.records import (
    BatchHeader,
    ControlType,
    Record,
    control_type,
    empty_batch,
    iterate,
    keep_records,
    read_header,
)
from kompat.types import Buffer, Millis, Offset

BYTES_PER_KEY = 160  # of an entry in the map: digest, offset and their share of the table
DIGEST = 16
NEVER = 2**63 - 1


# -- what is to be cleaned ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Dirty:
    """The part of a log that no cleaning has seen yet, and how urgent it is."""

    start: Offset
    end: Offset
    ratio: float
    is_overdue: bool  # max.compaction.lag.ms is over


def dirty_part(state: LogState, config: TopicConfig, last_stable_offset: Offset, now: Millis) -> Dirty | None:
    """What may be cleaned now: sealed segments, up to the last stable offset, older than min.compaction.lag.ms."""
    if not config.compact:
        return None
    start = max(state.cleaned_offset, state.log_start_offset)
    end = min(state.segments.active.base_offset, last_stable_offset)
    clean = dirty = 0
    is_overdue = False
    for position, segment in enumerate(state.segments.sealed):
        if segment.base_offset >= end:
            break
        if state.segments.end_of(position) <= start:
            clean += segment.size
            continue
        if config.min_compaction_lag_ms > 0 and segment.newest > now - config.min_compaction_lag_ms:
            end = segment.base_offset
            break
        dirty += segment.size
        is_overdue |= now - segment.first_timestamp > config.max_compaction_lag_ms
    if end <= start or not dirty:
        return None
    return Dirty(start, end, dirty / (clean + dirty), is_overdue)


def is_due(dirty: Dirty, config: TopicConfig) -> bool:
    return dirty.is_overdue or dirty.ratio > config.min_cleanable_dirty_ratio


@dataclass(slots=True)
class Cleaned:
    """What became of some batches of a segment."""

    rewrites: list[Rewrite] = field(default_factory=list)
    growth: int = 0  # in bytes: mostly negative
    markers: list[Offset] = field(default_factory=list)  # of aborted transactions that are gone without a trace
    newest: tuple[Millis, Offset] | None = None  # the newest timestamp and its batch, where the whole segment was seen
    next_offset: Offset = Offset(0)  # noqa: RUF009 - where to go on


# -- transactions ------------------------------------------------------------------------------------------------------
class Transactions:
    """Walks along with the batches and knows which of them a transaction has made void."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming = sorted(aborted, key=lambda a: a.first_offset, reverse=True)
        self._aborted: dict[int, bool] = {}  # by producer: whether records of it were met
        self._ends: dict[int, int] = {}  # by producer: where its aborted transaction ends, should its marker not be met
        self._with_records: set[int] = set()  # producers of open or committed transactions whose records were met

    def is_void(self, batch: Buffer, header: BatchHeader) -> bool:
        """Whether the batch can be removed: it was aborted, or ends a transaction that has no records left."""
        self._pass_ends(header.base_offset)
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            coming = self._coming.pop()
            self._aborted[coming.producer_id] = False
            self._ends[coming.producer_id] = coming.last_offset
        if header.is_control:
            return self._is_void_marker(batch, header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._with_records.add(header.producer_id)
        return False

    def _pass_ends(self, offset: int) -> None:
        """The marker of a transaction may be damaged: what follows is of others all the same."""
        for producer in [producer for producer, end in self._ends.items() if end < offset]:
            del self._ends[producer]
            self._aborted.pop(producer, None)

    def _is_void_marker(self, batch: Buffer, header: BatchHeader) -> bool:
        kind = control_type(batch)
        if kind is ControlType.ABORT:
            return not self._aborted.pop(header.producer_id, False)
        if kind is ControlType.COMMIT:
            had_records = header.producer_id in self._with_records
            self._with_records.discard(header.producer_id)
            return not had_records
        return False


# -- the newest offset of every key ------------------------------------------------------------------------------------
class KeyMap:
    """Key → newest offset, in bounded memory: long keys by a digest that does not collide."""

    __slots__ = ("_limit", "_offsets", "end")

    def __init__(self, memory: int, start: Offset) -> None:
        self._limit = max(1, memory // BYTES_PER_KEY)
        self._offsets: dict[bytes, int] = {}
        self.end = start  # everything before it is in the map

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._limit

    def add(self, batch: Buffer, header: BatchHeader, *, is_void: bool) -> None:
        if not is_void and not header.is_control:
            for record in iterate(batch):
                if record.key is not None:
                    self._offsets[_short(record.key)] = record.offset
        self.end = Offset(header.last_offset + 1)

    def is_newest(self, record: Record) -> bool:
        if record.key is None:
            return False
        return record.offset >= self._offsets.get(_short(record.key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) < DIGEST else blake2b(key, digest_size=DIGEST).digest()


# -- cleaning ----------------------------------------------------------------------------------------------------------
class Cleaning:
    """One walk over a log with a full map: every batch in turn, each answered with what replaces it."""

    def __init__(self, keys: KeyMap, transactions: Transactions, now: Millis, delete_retention_ms: int) -> None:
        self._keys = keys
        self._transactions = transactions
        self._now = now
        self._horizon = min(now + delete_retention_ms, NEVER)

    def clean(self, batch: Buffer) -> tuple[Rewrite | None, bool]:
        """The batch's replacement, or None where it stays as it is; and whether it was an abort marker that goes."""
        header = read_header(batch)
        is_void = self._transactions.is_void(batch, header)
        may_delete = header.delete_horizon is not None and header.delete_horizon <= self._now
        if header.is_control:
            return self._clean_marker(batch, header, is_void=is_void, may_delete=may_delete)
        if is_void:
            return self._replaced(header, None), False
        records = list(iterate(batch))
        kept = [r for r in records if self._keys.is_newest(r) and (r.value is not None or not may_delete)]
        has_deletions = header.delete_horizon is None and any(r.value is None for r in kept)
        if len(kept) == len(records) and not has_deletions and records:
            return None, False
        return self._replaced(header, self._rebuilt(batch, kept, has_deletions=has_deletions)), False

    def _clean_marker(
        self, batch: Buffer, header: BatchHeader, *, is_void: bool, may_delete: bool
    ) -> tuple[Rewrite | None, bool]:
        if header.record_count == 0:  # left empty by an earlier round
            return self._replaced(header, None), False
        if not is_void:
            return None, False
        if may_delete:
            return self._replaced(header, None), control_type(batch) is ControlType.ABORT
        if header.delete_horizon is not None:
            return None, False
        return self._replaced(header, keep_records(batch, lambda _: True, delete_horizon=self._horizon)), False

    def _rebuilt(self, batch: Buffer, kept: list[Record], *, has_deletions: bool) -> bytearray | None:
        offsets = {r.offset for r in kept}
        horizon = self._horizon if has_deletions else None
        return keep_records(batch, lambda r: r.offset in offsets, delete_horizon=horizon)

    def _replaced(self, header: BatchHeader, batch: bytearray | None) -> Rewrite:
        if batch is None and header.last_offset + 1 == self._keys.end:
            # The last batch of the round stays, if only as an empty batch: a reader must be able to get past the removed records.
            batch = empty_batch(header)
        timestamp = read_header(batch).max_timestamp if batch is not None else header.max_timestamp
        return Rewrite(Offset(header.base_offset), Offset(header.last_offset), Millis(timestamp), batch)
