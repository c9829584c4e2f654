"""Writes the rejected records of a share group to its dead-letter topic, with their origin and the reason (KIP-1191).

The dead-letter records are appended first, then the records are archived in the group's state. If the broker ends in between,
the records are still ARCHIVING, and writing is resumed; the leader of the dead-letter topic recognises repeated records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from struct import Struct
from typing import NamedTuple

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.extensions.dead_letters.appender import DlqAppender
from kompat.log.packing import BATCH_BYTES, most_used, packed, size_of
from kompat.log.partition import Isolation, Partition
from kompat.protocol.records import Record, iterate, read_header, split_batches
from kompat.share.events import SILENT, ShareEvents
from kompat.share.machine.messages import Dead, Reason
from kompat.share.partition import SharePartition
from kompat.types import Offset

logger = logging.getLogger(__name__)

AT_ONCE = 256 << 10  # bytes of records that are read for a batch of dead-letter records
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds, after dead-letter records could not be written

KAFKA, SPRING = "__dlq.errors.", "kafka_dlt-"  # the prefixes of the headers about the origin
_INT, _LONG = Struct(">i"), Struct(">q")


class Profile(Enum):
    """The format of the headers."""

    KAFKA = "kafka"  # KIP-1191: text
    SPRING = "spring"  # Spring Kafka: numbers in binary, big-endian
    BOTH = "both"


WHY = {
    Reason.REJECTED: "The record was rejected by a consumer.",
    Reason.DELIVERY_LIMIT: "The record was delivered as often as the group's limit allows.",
}

# Spring has the class of an exception: there is none, so the name comes closest.
CAUSES = {
    Reason.REJECTED: "kompat.RecordRejected",
    Reason.DELIVERY_LIMIT: "kompat.DeliveryLimitReached",
}


class Doomed(NamedTuple):
    """A record whose dead-letter record is to be written."""

    record: Record
    timestamp_type: int
    codec: int  # of the batch that it is in


class DeadLetterWriter:
    def __init__(
        self,
        appender: DlqAppender,
        clock: Clock,
        events: ShareEvents = SILENT,
        profile: Callable[[str], Profile] = lambda _: Profile.KAFKA,
    ) -> None:
        """`profile`: that of a group."""
        self._appender = appender
        self._profile = profile
        self._clock = clock
        self._events = events
        self.written = 0  # dead-letter records, since the start

    async def write_dead_letters(self, live: SharePartition, dead: Sequence[Dead]) -> None:
        """Write the dead-letter records, however long it takes: until then the records are neither delivered nor archived."""
        for each in dead:
            await self._write_dead_letters(live, each)

    async def _write_dead_letters(self, live: SharePartition, dead: Dead) -> None:
        pause = FIRST_PAUSE
        while dead.first <= dead.last and not live.is_fenced:
            try:
                async for reached in self._write_some(live, dead):
                    dead = replace(dead, first=reached)
                    pause = FIRST_PAUSE
            except KafkaError as error:
                logger.warning("dead letters of %s could not be written: %s", live.log, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _write_some(self, live: SharePartition, dead: Dead) -> AsyncIterator[int]:
        """Batch by batch, yields the offset after the last record whose dead-letter record is written."""
        log = live.log
        first = max(dead.first, log.log_start_offset)
        if first > dead.last:
            yield first  # they are before the log start, and so the share partition has dropped them
            return
        records, end = await _read(log, first, dead.last)
        dead_letters = self._dead_letter_records(live, dead, records)
        for part, reached in _parts(dead_letters, end):
            these = replace(dead, first=first, last=reached - 1)
            if not await self._write_part(live, these, part, _codec(records[offset] for offset in part)):
                return  # the next user of the share partition continues there
            yield reached
            first = reached

    async def _write_part(
        self, live: SharePartition, dead: Dead, dead_letters: Mapping[int, Record], codec: int
    ) -> bool:
        """Write dead-letter records and archive their originals; False if another broker has to do it."""
        await live.all_written()  # that they are ARCHIVING: else they may be delivered again
        if live.is_fenced:
            return False
        places = await self._appender.append(live, dead_letters, codec)
        self.written += len(places)
        if places and self._events.watches(live.log):
            self._events.dead_lettered(live.log, live.key.group_id, dead.reason.value, places)
        await live.finish(dead)
        await self._appender.finished(live, list(dead_letters))
        _forget_why(live, dead_letters)
        return True

    def _dead_letter_records(
        self, live: SharePartition, dead: Dead, records: Mapping[int, Doomed]
    ) -> dict[int, Record]:
        """By the offsets of the original records."""
        now, profile = self._clock.now(), self._profile(live.key.group_id)
        dead_letters = {}
        for offset, doomed in records.items():
            headers = list(doomed.record.headers)
            if profile is not Profile.SPRING:
                headers += _kafka_headers(live, dead, offset)
            if profile is not Profile.KAFKA:
                headers += _spring_headers(live, dead, offset, doomed)
            dead_letters[offset] = Record(0, now, doomed.record.key, doomed.record.value, headers)
        return dead_letters


def _parts(dead_letters: Mapping[int, Record], end: int) -> Iterator[tuple[dict[int, Record], int]]:
    """Parts that fit into a batch, each with the offset up to which it is complete."""
    parts = list(packed(dead_letters.items(), lambda each: each[1], BATCH_BYTES)) or [[]]
    ends = [*(part[0][0] for part in parts[1:]), end]
    return ((dict(part), reached) for part, reached in zip(parts, ends, strict=True))


def _codec(records: Iterable[Doomed]) -> int:
    """The compression of most bytes."""
    return most_used((each.codec, size_of(each.record)) for each in records)


def _kafka_headers(live: SharePartition, dead: Dead, offset: int) -> list[tuple[str, bytes]]:
    fields = (
        ("topic", live.log.topic),
        ("partition", str(live.log.index)),
        ("group", live.key.group_id),
        ("delivery.count", str(dead.deliveries)),
        ("message", _why(live, dead, offset)),
        ("offset", str(offset)),
    )
    return [(KAFKA + name, value.encode()) for name, value in fields]


def _spring_headers(live: SharePartition, dead: Dead, offset: int, doomed: Doomed) -> list[tuple[str, bytes]]:
    fields = (
        ("original-topic", live.log.topic.encode()),
        ("original-partition", _INT.pack(live.log.index)),
        ("original-offset", _LONG.pack(offset)),
        ("original-timestamp", _LONG.pack(doomed.record.timestamp)),
        ("original-timestamp-type", b"LogAppendTime" if doomed.timestamp_type else b"CreateTime"),
        ("original-consumer-group", live.key.group_id.encode()),
        ("exception-fqcn", CAUSES[dead.reason].encode()),
        ("exception-message", _why(live, dead, offset).encode()),
    )
    return [(SPRING + name, value) for name, value in fields]


def _forget_why(live: SharePartition, records: Iterable[int]) -> None:
    for offset in records:
        live.reasons.pop(offset, None)


def _why(live: SharePartition, dead: Dead, offset: int) -> str:
    reason = live.reasons.get(offset) if dead.reason is Reason.REJECTED else None
    return f"{WHY[dead.reason].removesuffix('.')}: {reason}" if reason else WHY[dead.reason]


async def _read(log: Partition, first: int, last: int) -> tuple[dict[int, Doomed], int]:
    """Records from `first` up to `last`, and the offset up to which they are complete."""
    isolation = Isolation.READ_UNCOMMITTED
    read = log.read(Offset(first), AT_ONCE, isolation)
    if read is None:
        read = await log.read_around(Offset(first), AT_ONCE, isolation)
    found: dict[int, Doomed] = {}
    for batch in (batch for buffer in read.buffers for batch in split_batches(memoryview(buffer))):
        header = read_header(batch)
        found |= {
            each.offset: Doomed(each, header.timestamp_type, header.compression)
            for each in iterate(batch)
            if first <= each.offset <= last
        }
    return found, min(last + 1, max(first + 1, read.next_offset))
