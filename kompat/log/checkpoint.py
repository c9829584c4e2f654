"""The state of a partition's log besides its batches, and the checkpoint that stores it.

The checkpoint is written with the first append, whenever a segment is sealed or the log's start moves, every few
thousand entries, and at the end. After a restart, later entries are replayed. An entry has all that is needed
without opening its batch; only the end markers of transactions are read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class

from kompat.errors import DamagedData
from kompat.log.aborted import Aborted, AbortedIndex
from kompat.log.epochs import Epochs
from kompat.log.producers import BATCHES_REMEMBERED, PastBatch, Producer, Producers
from kompat.log.segments import SEGMENT_SIZE, Segment, Segments
from kompat.log.storage.store import PartitionStore
from kompat.types import Millis, Offset, ProducerId, RaftIndex

CHECKPOINT = b"checkpoint"
SEGMENT = b"segment/"
ABORTED = b"aborted/"
AFTER_ABORTED = b"aborted0"  # the first name after all that begin with it

_VERSION = 1
_HEAD = Struct(">BqqqqqIIII")  # version, start/next index, log start/end, cleaned offset, then counts
_PAIR = Struct(">qq")
_PRODUCER = Struct(">qhiqqB")
_BATCH = Struct(">iiqqq")


@dataclass(slots=True)
class LogState:
    segments: Segments
    epochs: Epochs
    producers: Producers
    aborted: AbortedIndex
    start_index: RaftIndex  # of the first entry that is kept
    next_index: RaftIndex
    log_start_offset: Offset
    log_end_offset: Offset
    cleaned_offset: Offset  # everything before it has been through the cleaner
    is_rebuilt: bool = False  # the state that is stored beside the entries is outdated, and has to be written again

    @classmethod
    def fresh(cls, now: Millis) -> LogState:
        first = RaftIndex(1)
        segments = Segments(Segment(Offset(0), first, now))
        return cls(segments, Epochs(), Producers(), AbortedIndex(), first, first, Offset(0), Offset(0), Offset(0))


def segment_name(base_offset: Offset) -> bytes:
    return SEGMENT + base_offset.to_bytes(8, "big")


def aborted_name(last_offset: Offset) -> bytes:
    return ABORTED + last_offset.to_bytes(8, "big")


def encode(state: LogState) -> bytes:
    epochs = state.epochs.entries()
    parts = [
        _HEAD.pack(
            _VERSION,
            state.start_index,
            state.next_index,
            state.log_start_offset,
            state.log_end_offset,
            state.cleaned_offset,
            len(epochs),
            len(state.segments.sealed),
            len(state.aborted),
            len(state.producers),
        ),
        state.segments.active.encode(),
        *(_PAIR.pack(*pair) for pair in epochs),
    ]
    for p in state.producers:
        parts.append(
            _PRODUCER.pack(
                p.producer_id, p.epoch, p.coordinator_epoch, p.last_timestamp, p.transaction_start, len(p.batches)
            )
        )
        parts.extend(
            _BATCH.pack(b.first_sequence, b.last_sequence, b.base_offset, b.last_offset, b.timestamp) for b in p.batches
        )
    return b"".join(parts)


def stale(store: PartitionStore, state: LogState) -> list[bytes]:
    """Names of what is stored of a part of the log that was lost."""
    sealed = {segment_name(s.base_offset) for s in state.segments.sealed}
    names = [name for name, _ in store.states(SEGMENT) if name not in sealed]
    end = aborted_name(state.log_end_offset)
    return names + [name for name, _ in store.states(ABORTED) if name >= end]


def load(store: PartitionStore) -> LogState | None:
    """The state as of the last checkpoint; None: the log has never been written to."""
    data = store.state(CHECKPOINT)
    if data is None:
        return None
    try:
        return decode(data, store)
    except (StructError, IndexError, ValueError) as error:
        raise DamagedData(
            f"the checkpoint of a partition cannot be read ({error}); restore the data directory from a copy, "
            "or delete the topic's data"
        ) from error


def decode(data: bytes, store: PartitionStore) -> LogState:
    """With the sealed segments and aborted transactions that the store has."""
    version, start_index, next_index, log_start, log_end, cleaned, epochs, sealed, aborted, producers = (
        _HEAD.unpack_from(data)
    )
    if version != _VERSION:
        raise DamagedData(f"the checkpoint of a partition has version {version}, written by another version of kompat")
    at = _HEAD.size
    active = Segment.decode(data[at : at + SEGMENT_SIZE])
    at += SEGMENT_SIZE
    pairs = [_PAIR.unpack_from(data, at + i * _PAIR.size) for i in range(epochs)]
    at += len(pairs) * _PAIR.size
    return LogState(
        Segments(active, _sealed(store, active) if sealed else []),
        Epochs(pairs),
        Producers(_producers(data, at, producers)),
        _aborted(store, Offset(log_end)) if aborted else AbortedIndex(),
        RaftIndex(start_index),
        RaftIndex(next_index),
        Offset(log_start),
        Offset(log_end),
        Offset(cleaned),
    )


def _sealed(store: PartitionStore, active: Segment) -> list[Segment]:
    return [s for s in (Segment.decode(v) for _, v in store.states(SEGMENT)) if s.base_offset < active.base_offset]


def _aborted(store: PartitionStore, end: Offset) -> AbortedIndex:
    """Those up to the checkpoint; the replay finds the others again."""
    index = AbortedIndex()
    for _, value in store.states(ABORTED):
        aborted = Aborted.decode(value)
        if aborted.last_offset < end:
            index.add(aborted)
    return index


def _producers(data: bytes, at: int, count: int) -> list[Producer]:
    found = []
    for _ in range(count):
        producer_id, epoch, coordinator_epoch, timestamp, transaction_start, batches = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        past: deque[PastBatch] = deque(maxlen=BATCHES_REMEMBERED)
        for _ in range(batches):
            past.append(PastBatch(*_BATCH.unpack_from(data, at)))
            at += _BATCH.size
        found.append(
            Producer(
                ProducerId(producer_id), epoch, coordinator_epoch, Millis(timestamp), Offset(transaction_start), past
            )
        )
    return found
