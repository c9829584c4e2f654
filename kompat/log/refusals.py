"""Batches of numbering producers that were turned away for a moment: because this broker did not lead yet, had too few replicas, or no room. Pure.

A producer has several batches under way. If the first is turned away and the next comes a moment later, when the partition is led
again, that one is out of order; but it is not for the producer to wonder about. librdkafka takes OUT_OF_ORDER_SEQUENCE_NUMBER for a
reason to number all its batches anew, in every partition, and what had been written without an answer is written twice then. So those behind
a batch that was turned away are turned away likewise, until it has come again.
"""

from __future__ import annotations

from collections import deque

from kompat.log.producers import BATCHES_REMEMBERED
from kompat.types import Millis

PRODUCERS_AT_MOST = 1000
COUNTS_FOR_MS = 30_000  # a producer that has not come back by then will not


class Refusals:
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
        """Whether this batch of the producer was turned away, a moment ago."""
        refused = self._refused.get((producer_id, epoch), ())
        return any(known == sequence and now - at < COUNTS_FOR_MS for known, at in refused)
