"""Records that a share group gave up, written to its dead-letter topic with why and whence (KIP-1191).

The letters and the end of the records are written in one turn of the event loop: both are there, or neither is. A broker
that ends before that finds the records still to be archived, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.log.partition import Isolation, Origin, Partition
from kompat.protocol.records import Record, build_batch, iterate, split_batches
from kompat.share.events import SILENT, ShareEvents
from kompat.share.live import LivePartition
from kompat.share.machine.messages import Dead, Reason
from kompat.types import Offset

logger = logging.getLogger(__name__)

AT_ONCE = 256 << 10  # bytes of records that are read for a batch of letters
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds, after letters that could not be written

WHY = {
    Reason.REJECTED: "The record was rejected by a consumer.",
    Reason.DELIVERY_LIMIT: "The record was delivered as often as the group's limit allows.",
}

# From a group and a topic to the partitions of the dead-letter topic, which is made if need be; none: letters are not wanted.
Letterbox = Callable[[str, str], Awaitable[Sequence[Partition]]]


class DeadLetterWriter:
    def __init__(self, letterbox: Letterbox, clock: Clock, events: ShareEvents = SILENT) -> None:
        self._letterbox = letterbox
        self._clock = clock
        self._events = events

    async def bury(self, live: LivePartition, dead: Sequence[Dead]) -> None:
        """Write the letters, however long that takes: until then the records are neither delivered nor forgotten."""
        for each in dead:
            await self._bury(live, each)

    async def _bury(self, live: LivePartition, dead: Dead) -> None:
        pause = FIRST_PAUSE
        while dead.first <= dead.last and not live.is_fenced:
            try:
                dead = replace(dead, first=await self._write_some(live, dead))
                pause = FIRST_PAUSE
            except KafkaError as error:
                logger.warning("dead letters of %s could not be written: %s", live.log, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _write_some(self, live: LivePartition, dead: Dead) -> int:
        """The offset after the last record whose letter is written."""
        log = live.log
        first = max(dead.first, log.log_start_offset)
        if first > dead.last:
            return first  # the log has forgotten them, and so has the share partition
        letterbox = await self._letterbox(live.key.group_id, log.topic)
        records, end = await _read(log, first, dead.last)
        await live.ready()
        if live.is_fenced:
            return dead.first  # whoever takes over begins there
        # In one turn from here on. The letters come first: should the end fail, they are written twice and not never.
        if letterbox and records:
            letters = self._letters(live, dead, records)
            box = letterbox[log.index % len(letterbox)]
            appended = box.append(memoryview(build_batch(letters)), origin=Origin.INTERNAL)
            if self._events.watches(log):
                self._events.buried(log, live.key.group_id, list(records), dead.reason.value, box, appended)
        await live.finish(replace(dead, first=first, last=end - 1)).wait()
        return end

    def _letters(self, live: LivePartition, dead: Dead, records: Mapping[int, Record]) -> list[Record]:
        now = self._clock.now()
        context = (
            ("__dlq.errors.topic", live.log.topic),
            ("__dlq.errors.partition", str(live.log.index)),
            ("__dlq.errors.group", live.key.group_id),
            ("__dlq.errors.delivery.count", str(dead.deliveries)),
            ("__dlq.errors.message", WHY[dead.reason]),
        )
        added = [(name, value.encode()) for name, value in context]
        return [
            Record(
                index,
                now,
                record.key,
                record.value,
                [*record.headers, *added, ("__dlq.errors.offset", b"%d" % offset)],
            )
            for index, (offset, record) in enumerate(records.items())
        ]


async def _read(log: Partition, first: int, last: int) -> tuple[dict[int, Record], int]:
    """Records from `first` on, not past `last`, and the offset up to which that is all of them."""
    isolation = Isolation.READ_UNCOMMITTED
    read = log.read(Offset(first), AT_ONCE, isolation)
    if read is None:
        read = await log.read_stored(Offset(first), AT_ONCE, isolation)
    found = {
        record.offset: record
        for buffer in read.buffers
        for batch in split_batches(memoryview(buffer))
        for record in iterate(batch)
        if first <= record.offset <= last
    }
    return found, min(last + 1, max(first + 1, read.next_offset))
