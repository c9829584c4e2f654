"""Sequence numbers of batches that were rejected with a retriable error: no leader yet, too few in-sync replicas, no room. Pure.

An idempotent producer has several batches in flight. If the first is rejected and the next arrives a moment later, when the
partition has a leader again, that one is out of order, though the producer did nothing wrong. On OUT_OF_ORDER_SEQUENCE_NUMBER
librdkafka resets the sequence numbers of all its partitions, and a batch that was written without a response is then written
twice. So the batches behind a rejected one are rejected with the same error, until it is sent again.
"""

from __future__ import annotations

from collections import deque

from kompat.log.producers import BATCHES_REMEMBERED
from kompat.types import Millis

PRODUCERS_AT_MOST = 1000
COUNTS_FOR_MS = 30_000  # a producer that has not retried by then will not


class RejectedSequences:
    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[tuple[int, int], deque[tuple[int, Millis]]] = {}  # oldest producer first

    def note(self, producer_id: int, epoch: int, sequence: int, now: Millis) -> None:
        key = producer_id, epoch
        refused = self._refused.pop(key, None) or deque(maxlen=BATCHES_REMEMBERED)
        if all(sequence != known for known, _ in refused):
            refused.append((sequence, now))
        self._refused[key] = refused
        if len(self._refused) > PRODUCERS_AT_MOST:
            del self._refused[next(iter(self._refused))]

    def holds(self, producer_id: int, epoch: int, sequence: int, now: Millis) -> bool:
        """Whether this batch of the producer was rejected a moment ago."""
        refused = self._refused.get((producer_id, epoch), ())
        return any(known == sequence and now - at < COUNTS_FOR_MS for known, at in refused)
