"""Producers that number their batches: duplicates, gaps, fencing, and their transactions. Pure.

A producer's last five batches are remembered, since a client may have that many under way. What this module refuses
and how follows Kafka 4.3: a batch that repeats one of the five is a duplicate; any other that does not follow the last
is out of order, also where it is older than five. A producer that is not known may begin with any number, since its
past may have been deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.log.aborted import Aborted
from kompat.types import Millis, Offset, ProducerId

BATCHES_REMEMBERED = 5
LAST_SEQUENCE = 2**31 - 1  # after it they go on at 0; as a mask it does just that
NO_SEQUENCE = -1
NO_EPOCH = -1
NO_OFFSET = Offset(-1)


@dataclass(slots=True)
class PastBatch:
    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: Millis


@dataclass(slots=True)
class Producer:
    """What is known of one producer in one partition."""

    producer_id: ProducerId
    epoch: int
    coordinator_epoch: int
    last_timestamp: Millis
    transaction_start: Offset  # NO_OFFSET: no transaction is open
    batches: deque[PastBatch]
    ends: int = 0  # markers seen since the log was opened: a batch admitted before one is no longer in its transaction

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    __slots__ = ("_ended", "_known", "_open")

    def __init__(self, known: Iterable[Producer] = ()) -> None:
        self._known: dict[int, Producer] = {p.producer_id: p for p in known}
        opened = sorted((p.transaction_start, p.producer_id) for p in self._known.values() if p.transaction_start >= 0)
        # Open transactions by producer, oldest first: offsets only grow.
        self._open: dict[int, Offset] = {producer_id: start for start, producer_id in opened}
        # First to last offset of those whose marker is written but not yet below the high watermark.
        self._ended: dict[Offset, Offset] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._known.values())

    def active(self) -> list[Producer]:
        return list(self._known.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._known.get(producer_id)

    def ends(self, producer_id: int) -> int:
        """How many transactions of the producer have ended here."""
        producer = self._known.get(producer_id)
        return producer.ends if producer is not None else 0

    def expected(self, producer_id: int, epoch: int) -> int:
        """The sequence number that the producer's next batch has to have."""
        producer = self._known.get(producer_id)
        return (producer.last_sequence + 1) & LAST_SEQUENCE if producer is not None and producer.epoch == epoch else 0

    # -- before an append ------------------------------------------------------------------------------------------
    def admit(
        self, producer_id: int, epoch: int, first_sequence: int, count: int, *, transactional: bool
    ) -> PastBatch | None:
        """Check a client's batch: None admits it; a past batch is the one that it repeats. Raises KafkaError."""
        producer = self._known.get(producer_id)
        if producer is None:
            return None
        if epoch == producer.epoch:
            last_sequence = (first_sequence + count - 1) & LAST_SEQUENCE
            for past in producer.batches:
                if past.first_sequence == first_sequence and past.last_sequence == last_sequence:
                    return past
            expected = (producer.last_sequence + 1) & LAST_SEQUENCE
            if first_sequence != expected:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {first_sequence}, {expected} was expected",
                )
        else:
            self._check_epoch(producer, epoch)
            if first_sequence != 0 and producer.epoch != NO_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} began epoch {epoch} with sequence {first_sequence}",
                )
        self._check_transaction(producer, transactional)
        return None

    def admit_unnumbered(self, producer_id: int, epoch: int, *, transactional: bool) -> None:
        """Check a batch that the broker writes in a producer's name (offset commits): it has no sequence numbers."""
        producer = self._known.get(producer_id)
        if producer is not None:
            self._check_epoch(producer, epoch)
            self._check_transaction(producer, transactional)

    def admit_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Check a transaction's end marker."""
        producer = self._known.get(producer_id)
        if producer is None:
            return
        self._check_epoch(producer, epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {producer.coordinator_epoch}",
            )

    @staticmethod
    def _check_epoch(producer: Producer, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.producer_id} has epoch {producer.epoch}, {epoch} is fenced",
            )

    @staticmethod
    def _check_transaction(producer: Producer, transactional: bool) -> None:
        if producer.transaction_start >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer.producer_id} wrote outside of its open transaction",
            )

    # -- after an append, and on replay ----------------------------------------------------------------------------
    def add(self, producer_id: int, epoch: int, past: PastBatch, *, transactional: bool) -> None:
        producer = self._known.get(producer_id)
        if producer is None:
            producer = Producer(
                ProducerId(producer_id), epoch, NO_EPOCH, past.timestamp, NO_OFFSET, deque(maxlen=BATCHES_REMEMBERED)
            )
            self._known[producer_id] = producer
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        elif 0 <= past.first_sequence <= producer.last_sequence:
            _forget_from(producer.batches, past.first_sequence)
        producer.batches.append(past)
        producer.last_timestamp = past.timestamp
        if transactional and producer.transaction_start < 0:
            producer.transaction_start = self._open[producer_id] = past.base_offset

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: Offset, timestamp: Millis, *, aborts: bool
    ) -> Aborted | None:
        """Take in an end marker at `offset`: the aborted transaction, where there was one with records."""
        producer = self._known.get(producer_id)
        if producer is None:
            producer = Producer(
                ProducerId(producer_id),
                epoch,
                coordinator_epoch,
                timestamp,
                NO_OFFSET,
                deque(maxlen=BATCHES_REMEMBERED),
            )
            self._known[producer_id] = producer
        if epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.ends += 1
        first = producer.transaction_start
        if first < 0:
            return None
        producer.transaction_start = NO_OFFSET
        del self._open[producer_id]
        self._ended[first] = offset
        if not aborts:
            return None
        stable = next(iter(self._open.values()), Offset(offset + 1))
        return Aborted(ProducerId(producer_id), first, offset, stable)

    # -- stable offset, expiry -------------------------------------------------------------------------------------
    @property
    def has_transactions(self) -> bool:
        return bool(self._open or self._ended)

    def first_unstable(self) -> Offset | None:
        """The first offset of a transaction that is open, or whose end is not committed."""
        oldest = next(iter(self._open.values()), None)
        if self._ended:
            ended = min(self._ended)
            oldest = ended if oldest is None else min(oldest, ended)
        return oldest

    def advance(self, high_watermark: Offset) -> None:
        """Markers below the high watermark are final."""
        if self._ended:
            self._ended = {first: last for first, last in self._ended.items() if last >= high_watermark}

    def expire(self, now: Millis, after_ms: int) -> int:
        """Forget producers that were silent for long and have no open transaction: how many."""
        late = [
            p.producer_id
            for p in self._known.values()
            if p.transaction_start < 0 and now - p.last_timestamp >= after_ms
        ]
        for producer_id in late:
            del self._known[producer_id]
        return len(late)


def _forget_from(batches: deque[PastBatch], sequence: int) -> None:
    """A number is used a second time: what had it before, and what came after that, is not what the producer counts from."""
    at = next((place for place, known in enumerate(batches) if known.first_sequence == sequence), len(batches))
    while len(batches) > at:
        batches.pop()
