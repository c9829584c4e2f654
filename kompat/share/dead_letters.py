"""Records that a share group gave up, written to its dead-letter topic with why and whence (KIP-1191).

The letters and the end of the records are written in one turn of the event loop: both are there, or neither is. A broker
that ends before that finds the records still to be archived, and goes on. Should only the end be refused, the letters are
remembered by where their records come from, and not written twice.

Of several brokers another one may lead the dead-letter topic. Then the letters are sent first, and whoever writes them knows
those that come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from struct import Struct
from typing import NamedTuple, Protocol

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.log.packing import BATCH_BYTES, batch_limit, codec_for, packed, size_of
from kompat.log.partition import Isolation, Origin, Partition
from kompat.protocol.records import Record, build_batch, iterate, read_header, split_batches
from kompat.share.events import SILENT, Place, ShareEvents
from kompat.share.live import LivePartition
from kompat.share.machine.messages import Dead, Reason
from kompat.share.records import ShareKey
from kompat.types import Offset

logger = logging.getLogger(__name__)

AT_ONCE = 256 << 10  # bytes of records that are read for a batch of letters
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds, after letters that could not be written

KAFKA, SPRING = "__dlq.errors.", "kafka_dlt-"  # how the names of the headers begin that tell of a letter's origin
_INT, _LONG = Struct(">i"), Struct(">q")


class Profile(Enum):
    """Who is to understand a letter's headers."""

    KAFKA = "kafka"  # KIP-1191: text
    SPRING = "spring"  # Spring Kafka: numbers in binary, big-endian
    BOTH = "both"


WHY = {
    Reason.REJECTED: "The record was rejected by a consumer.",
    Reason.DELIVERY_LIMIT: "The record was delivered as often as the group's limit allows.",
}

# What Spring tells as the class of an exception: there is none, so what comes closest to it.
CAUSES = {
    Reason.REJECTED: "kompat.RecordRejected",
    Reason.DELIVERY_LIMIT: "kompat.DeliveryLimitReached",
}


class Doomed(NamedTuple):
    """A record whose letter is to be written."""

    record: Record
    timestamp_type: int
    codec: int  # of the batch that it is in


class Post(Protocol):
    """Takes letters to dead-letter topics that any broker may lead."""

    async def send(self, live: LivePartition, letters: Mapping[int, Record]) -> Mapping[int, Place]:
        """Have the letters of these records written, by their offsets, those that are not there yet: where they are now."""
        ...

    async def finished(self, live: LivePartition, offsets: Sequence[int]) -> None:
        """They will not be sent again."""
        ...


# From a group and a topic to the partitions of the dead-letter topic, which is made if need be; none: letters are not wanted.
Letterbox = Callable[[str, str], Awaitable[Sequence[Partition]]]


class DeadLetterWriter:
    def __init__(
        self,
        letterbox: Letterbox,
        clock: Clock,
        events: ShareEvents = SILENT,
        profile: Callable[[str], Profile] = lambda _: Profile.KAFKA,
        post: Post | None = None,
    ) -> None:
        """`profile`: the group's. `post`: where there are several brokers."""
        self._post = post
        self._letterbox = letterbox
        self._profile = profile
        self._written: set[tuple[ShareKey, int]] = set()  # letters of records that are not archived yet
        self._clock = clock
        self._events = events
        self.written = 0  # letters, since the start

    async def bury(self, live: LivePartition, dead: Sequence[Dead]) -> None:
        """Write the letters, however long that takes: until then the records are neither delivered nor forgotten."""
        for each in dead:
            await self._bury(live, each)

    async def _bury(self, live: LivePartition, dead: Dead) -> None:
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

    async def _write_some(self, live: LivePartition, dead: Dead) -> AsyncIterator[int]:
        """Batch by batch, the offset after the last record whose letter is written."""
        log = live.log
        first = max(dead.first, log.log_start_offset)
        if first > dead.last:
            yield first  # the log has forgotten them, and so has the share partition
            return
        boxes = await self._letterbox(live.key.group_id, log.topic) if self._post is None else ()
        box = boxes[log.index % len(boxes)] if boxes else None
        records, end = await _read(log, first, dead.last)
        letters = self._letters(live, dead, records)
        for part, reached in _parts(letters, end, BATCH_BYTES if box is None else batch_limit(box.config)):
            these = replace(dead, first=first, last=reached - 1)
            if self._post is not None:
                is_written = await self._send_part(self._post, live, these, part)
            else:
                is_written = await self._write_part(live, these, box, part, records)
            if not is_written:
                return  # whoever takes over begins there
            yield reached
            first = reached

    async def _write_part(
        self,
        live: LivePartition,
        dead: Dead,
        box: Partition | None,
        letters: Mapping[int, Record],
        records: Mapping[int, Doomed],
    ) -> bool:
        """Write letters and the end of their records; False where somebody else is to do it."""
        await live.ready()
        if live.is_fenced:
            return False
        # In one turn from here on. The letters come first: should the end fail, they are known to be there.
        appended = None
        due = {offset: each for offset, each in letters.items() if (live.key, offset) not in self._written}
        if box is not None and due:
            codec = codec_for(box.config, ((records[offset].codec, size_of(each)) for offset, each in due.items()))
            appended = box.append(memoryview(build_batch(_numbered(due), compression=codec)), origin=Origin.INTERNAL)
            self.written += len(due)
            if self._events.watches(live.log):
                self._events.buried(live.log, live.key.group_id, list(due), dead.reason.value, box, appended)
        try:
            await live.finish(dead).wait()
        except KafkaError:
            if appended is not None:
                await appended.pending.wait()
                self._written |= {(live.key, offset) for offset in due}
            raise
        self._written -= {(live.key, offset) for offset in letters}
        _forget_why(live, letters)
        return True

    async def _send_part(self, post: Post, live: LivePartition, dead: Dead, letters: Mapping[int, Record]) -> bool:
        """The same, with the letters on their way to any broker."""
        await live.settled().wait()  # that they are given up: else they may be delivered again
        if live.is_fenced:
            return False
        places = await post.send(live, letters)
        self.written += len(places)
        if places and self._events.watches(live.log):
            self._events.posted(live.log, live.key.group_id, dead.reason.value, places)
        await live.finish(dead).wait()
        await post.finished(live, list(letters))
        _forget_why(live, letters)
        return True

    def _letters(self, live: LivePartition, dead: Dead, records: Mapping[int, Doomed]) -> dict[int, Record]:
        """By the offsets of their records."""
        now, profile = self._clock.now(), self._profile(live.key.group_id)
        letters = {}
        for offset, doomed in records.items():
            headers = list(doomed.record.headers)
            if profile is not Profile.SPRING:
                headers += _kafka_headers(live, dead, offset)
            if profile is not Profile.KAFKA:
                headers += _spring_headers(live, dead, offset, doomed)
            letters[offset] = Record(0, now, doomed.record.key, doomed.record.value, headers)
        return letters


def _parts(letters: Mapping[int, Record], end: int, limit: int) -> Iterator[tuple[dict[int, Record], int]]:
    """What fits into a batch each, and the offset up to which that is all."""
    parts = list(packed(letters.items(), lambda each: each[1], limit)) or [[]]
    ends = [*(part[0][0] for part in parts[1:]), end]
    return ((dict(part), reached) for part, reached in zip(parts, ends, strict=True))


def _numbered(letters: Mapping[int, Record]) -> list[Record]:
    for place, letter in enumerate(letters.values()):
        letter.offset = place
    return list(letters.values())


def _kafka_headers(live: LivePartition, dead: Dead, offset: int) -> list[tuple[str, bytes]]:
    told = (
        ("topic", live.log.topic),
        ("partition", str(live.log.index)),
        ("group", live.key.group_id),
        ("delivery.count", str(dead.deliveries)),
        ("message", _why(live, dead, offset)),
        ("offset", str(offset)),
    )
    return [(KAFKA + name, value.encode()) for name, value in told]


def _spring_headers(live: LivePartition, dead: Dead, offset: int, doomed: Doomed) -> list[tuple[str, bytes]]:
    told = (
        ("original-topic", live.log.topic.encode()),
        ("original-partition", _INT.pack(live.log.index)),
        ("original-offset", _LONG.pack(offset)),
        ("original-timestamp", _LONG.pack(doomed.record.timestamp)),
        ("original-timestamp-type", b"LogAppendTime" if doomed.timestamp_type else b"CreateTime"),
        ("original-consumer-group", live.key.group_id.encode()),
        ("exception-fqcn", CAUSES[dead.reason].encode()),
        ("exception-message", _why(live, dead, offset).encode()),
    )
    return [(SPRING + name, value) for name, value in told]


def _forget_why(live: LivePartition, records: Iterable[int]) -> None:
    for offset in records:
        live.reasons.pop(offset, None)


def _why(live: LivePartition, dead: Dead, offset: int) -> str:
    said = live.reasons.get(offset) if dead.reason is Reason.REJECTED else None
    return f"{WHY[dead.reason].removesuffix('.')}: {said}" if said else WHY[dead.reason]


async def _read(log: Partition, first: int, last: int) -> tuple[dict[int, Doomed], int]:
    """Records from `first` on, not past `last`, and the offset up to which that is all of them."""
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
