"""Batches that differ from what was written. Each is counted once, and logged now and then, not with every read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from kompat.common.repeated import Repeated, times
from kompat.errors import DamagedBatch

logger = logging.getLogger(__name__)

REMEMBERED: Final = 10_000  # damaged batches; those beyond are counted each time they are met


class DamageReport:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.found = 0  # batches, or blocks of the database with many
        self.repaired = 0  # batches that were taken from another replica
        self.refused = 0  # batches that came from another replica and were not as it had written them
        self._known: set[tuple[str, int]] = set()
        self._repeated = Repeated()

    def find(self, partition: str, damage: DamagedBatch) -> None:
        """A read has met a damaged batch."""
        place = (partition, damage.first)
        if place not in self._known:
            self.found += 1
            if len(self._known) < REMEMBERED:
                self._known.add(place)
        self.tell("%s: offsets %d to %d are damaged: %s", partition, damage.first, damage.last, damage)

    def repair(self, partition: str, first: int, last: int, count: int, node: int) -> None:
        self.repaired += count
        self._known = {place for place in self._known if place[0] != partition or not first <= place[1] <= last}
        self.tell(
            "%s: %d batches in offsets %d to %d were repaired from broker %d", partition, count, first, last, node
        )

    def refuse(self, partition: str, offset: int) -> None:
        self.refused += 1
        self.tell(
            "%s: the batch at offset %d did not come as its leader has it; it is asked for again", partition, offset
        )

    def give_up(self, partition: str, damage: DamagedBatch, reason: str) -> None:
        self.tell("%s: offsets %d to %d cannot be repaired: %s", partition, damage.first, damage.last, reason)

    def tell(self, message: str, partition: object, *arguments: object) -> None:
        """Log the message, unless it was logged for the partition a moment ago."""
        count = self._repeated.count((message, str(partition)), self._monotonic())
        if count:
            logger.warning(message + "%s", partition, *arguments, times(count))
