"""Records of a machine's log that cannot be read: they are skipped, logged once and counted.

Only its owner writes to an internal topic, but older versions let any client do so. A coordinator that stopped because of
one such record would be unavailable for all of its keys, for good.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kompat.coordination.machine import Machine
from kompat.coordination.snapshots import Snapshot
from kompat.log.partition import Partition
from kompat.types import Offset

logger = logging.getLogger(__name__)

MOST_KNOWN: Final = 10_000  # offsets of one partition: beyond them a record may count again


class Skipped:
    """The skipped records of one partition. A log is read several times, but each record is counted once."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._known: set[Offset] = set()
        self.count = 0

    def skip(self, offset: Offset, error: Exception) -> None:
        if offset in self._known:
            return
        if not self.count:  # the metric counts the others
            logger.error(
                "%s: the record at offset %d cannot be read, and is skipped: %r", self._partition, offset, error
            )
        if len(self._known) < MOST_KNOWN:
            self._known.add(offset)
        self.count += 1
        self._partition.meter.records_unreadable += 1

    def apply_snapshot(self, machine: Machine[Any], snapshot: Snapshot[Any]) -> None:
        last = Offset(snapshot.next_offset - 1)
        for error in snapshot.unreadable:
            self.skip(last, error)
        for record in snapshot.records:
            self.apply(machine, record, last)

    def apply(self, machine: Machine[Any], record: object, offset: Offset) -> None:
        """Apply a record, unless it contradicts the machine's state."""
        try:
            machine.apply(record)
        except Exception as error:  # noqa: BLE001 - whatever it contains, the records after it have to be applied
            self.skip(offset, error)
