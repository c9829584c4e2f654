"""Looking at dead-letter records, putting their records back where they come from, and throwing them away.

The broker that leads a partition of dead-letter records redrives those. The records are sent first, wherever they go, and the
dead-letter records marked then; whoever takes the records knows those that come again. So each is redriven once, whatever becomes
of the brokers meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kompat.clock import Clock
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.common.slices import Slice, sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.dead_letters import redrive
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder, sender_of
from kompat.extensions.dead_letters.pages import MOST_LOOKED_AT, PartPage, marks_of, page_of, read
from kompat.extensions.dead_letters.redrive import DeadLetterRecord, Marks, Selection
from kompat.extensions.dead_letters.requests import (
    BrowseDeadLetters,
    CountDeadLetters,
    Counts,
    PurgeDeadLetters,
    RedriveDeadLetters,
    Redriven,
)
from kompat.extensions.tracing.events import Place
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.packing import BATCH_BYTES, batch_limit, packed
from kompat.log.partition import Partition
from kompat.protocol.records import Record
from kompat.types import LogId, Millis, Offset

PREFIX = "dlq."  # of the topics that are made for dead letters, unless a group says otherwise
NAME_SETTING = "errors.deadletterqueue.topic.name"  # by which it does
REMEMBERED = 10_000  # records of one redrive: letters of the same one lie close together
EVERYTHING = Selection(with_redriven=True)
NOT_REDRIVEN = Selection()


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    items: Sequence[DeadLetterRecord]
    cursor: str | None  # where to go on; None: there are no more


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStatistics:
    dead_letters: int
    redriven: int  # of those


class DeadLetterService:
    def __init__(
        self, cluster: ClusterService, logs: Logs, clock: Clock, tracer: Tracer, forwarder: ExactlyOnceForwarder
    ) -> None:
        self._cluster = cluster
        self._rpc = cluster.rpc
        self._logs = logs
        self._clock = clock
        self._tracer = tracer
        self._forwarder = forwarder
        self._turns: dict[Partition, asyncio.Lock] = {}
        self._rpc.serve(BrowseDeadLetters, self._browse)
        self._rpc.serve(CountDeadLetters, self._count)
        self._rpc.serve(RedriveDeadLetters, self._redrive)
        self._rpc.serve(PurgeDeadLetters, self._purge)

    # -- looking ---------------------------------------------------------------------------------------------------
    def topics(self) -> list[str]:
        """The topics that are there for dead letters, by their names or because a group has its letters there."""
        names = {topic.name for topic in self._cluster.topics() if not topic.internal}
        configured = {
            str(self._cluster.group_setting(group, NAME_SETTING)) for group in self._cluster.groups_with_settings()
        }
        found = {name for name in names if name.startswith(PREFIX)} | (configured & names)
        for pattern in (each for each in configured if "<topic>" in each):
            found |= {pattern.replace("<topic>", name) for name in names} & names
        return sorted(found)

    async def browse(
        self,
        topic: str,
        *,
        partition: int | None = None,
        selection: Selection = EVERYTHING,
        cursor: str | None = None,
        limit: int = 100,
    ) -> DeadLetterPage:
        """Letters in the order of partitions and offsets. A page may have fewer than asked for, and others follow."""
        places = self._places(topic, partition)
        index, offset = _decode_cursor(cursor, places) if cursor is not None else (0, 0)
        found: list[DeadLetterRecord] = []
        looked_at, limit = 0, max(1, limit)
        turn = Slice()
        while index < len(places):
            if turn.is_over:
                await turn.pause()
            left = MOST_LOOKED_AT - looked_at
            request = BrowseDeadLetters(offset, selection, limit - len(found), left)
            page = await self._rpc.call(places[index], request)
            found += page.dead_letters
            looked_at += page.looked_at
            if page.next_offset is not None:
                return DeadLetterPage(found, f"{places[index].partition}:{page.next_offset}")
            index, offset = index + 1, 0
            if len(found) >= limit or looked_at >= MOST_LOOKED_AT:
                cursor = f"{places[index].partition}:0" if index < len(places) else None
                return DeadLetterPage(found, cursor)
        return DeadLetterPage(found, None)

    async def _browse(self, log: Partition, request: BrowseDeadLetters) -> PartPage:
        return await page_of(log, request.offset, request.selection, request.limit, request.most_looked_at)

    async def statistics(self, topic: str) -> DeadLetterStatistics:
        counts = [await self._rpc.call(each, CountDeadLetters()) async for each in sliced(self._places(topic, None))]
        return DeadLetterStatistics(
            dead_letters=sum(each.dead_letters for each in counts), redriven=sum(each.redriven for each in counts)
        )

    async def _count(self, log: Partition, _: CountDeadLetters) -> Counts:
        return Counts(log.high_watermark - log.log_start_offset, marks_of(log).count(log.log_start_offset))

    # -- redriving -------------------------------------------------------------------------------------------------
    async def redrive(self, topic: str, selection: Selection = NOT_REDRIVEN) -> Redriven:
        """Put records back into the topics that they come from: those of all letters, or of a selection.

        They are new records there, so that every group gets them, and with no deliveries behind them. Raises KafkaError
        where the disk refuses; what was redriven until then is marked, and so the call can be repeated.
        """
        outcome = Redriven()
        async for place in sliced(self._places(topic, None)):
            outcome.add(await self._rpc.call(place, RedriveDeadLetters(selection)))
        return outcome

    async def _redrive(self, log: Partition, request: RedriveDeadLetters) -> Redriven:
        outcome, seen = Redriven(), _Seen()
        async with self._turns.setdefault(log, asyncio.Lock()):
            marks, offset, end = marks_of(log), log.log_start_offset, log.last_stable_offset
            while offset < end:
                records, after = await read(log, offset)
                dead_letters = [
                    redrive.read_dead_letter(log.topic, log.index, r, marks) for r in records if r.offset < end
                ]
                chosen = [dead_letter for dead_letter in dead_letters if request.selection.takes(dead_letter)]
                for part in packed(chosen, _put_back_record, self._batch_limit(chosen)):
                    await self._put_back(log, part, marks, outcome, seen)
                offset = after
        return outcome

    async def _put_back(
        self, log: Partition, dead_letters: Sequence[DeadLetterRecord], marks: Marks, outcome: Redriven, seen: _Seen
    ) -> None:
        """Append the records, and mark their dead-letter records then: where that fails, the targets know what was sent."""
        done: list[int] = []
        sent: dict[LogId, list[int]] = {}
        repeated = 0
        for target, these in self._by_target(dead_letters, outcome).items():
            fresh = [dead_letter for dead_letter in these if not seen.has(dead_letter)]
            try:
                if fresh:
                    await self._send(log, target, fresh)
                    sent[target] = [dead_letter.offset for dead_letter in fresh]
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                _refuse(outcome, these, error.message or error.code.name)
                continue
            repeated += len(these) - len(fresh)
            done += [dead_letter.offset for dead_letter in these]
        if done:
            await log.write_states(marks.add(sorted(done), log.log_start_offset))
        for target, offsets in sent.items():
            await self._forwarder.finished(target, _sender(log), offsets)
        outcome.count += len(done) - repeated
        outcome.repeated += repeated

    async def _send(self, log: Partition, target: LogId, dead_letters: Sequence[DeadLetterRecord]) -> None:
        """As the broker's own records: delays and message ids acted when they came the first time, and do not again."""
        now = self._clock.now()
        records = {int(dead_letter.offset): redrive.redriven(dead_letter, 0, now) for dead_letter in dead_letters}
        written = await self._forwarder.send(log, target, _sender(log), records, is_ranked=True)
        topic = self._cluster.topic_by_id(target.topic_id)
        if topic is not None:
            places = {offset: Place(topic.name, target.partition, place) for offset, place in written.items()}
            self._tracer.redriven(log, places)

    def _batch_limit(self, dead_letters: Sequence[DeadLetterRecord]) -> int:
        """Of what goes back at once: in each of the topics it is one batch."""
        targets = {target for dead_letter in dead_letters if isinstance(target := self._target(dead_letter), LogId)}
        logs = [self._logs.find_by_id(target.topic_id, target.partition) for target in targets]
        return min([BATCH_BYTES, *(batch_limit(log.config) for log in logs if log is not None)])

    def _by_target(
        self, dead_letters: Sequence[DeadLetterRecord], outcome: Redriven
    ) -> dict[LogId, list[DeadLetterRecord]]:
        found: dict[LogId, list[DeadLetterRecord]] = {}
        for dead_letter in dead_letters:
            target = self._target(dead_letter)
            if isinstance(target, str):
                _refuse(outcome, [dead_letter], target)
            else:
                found.setdefault(target, []).append(dead_letter)
        return found

    def _target(self, dead_letter: DeadLetterRecord) -> LogId | str:
        """Where the record goes, or why it cannot."""
        if dead_letter.origin is None:
            return "it is no dead letter: its headers do not tell where it comes from"
        topic = self._cluster.topic(dead_letter.origin.topic)
        if topic is None:
            return f"there is no topic {dead_letter.origin.topic} any more"
        if topic.internal:
            return f"{topic.name} is the broker's own"
        return LogId(topic.id, dead_letter.origin.partition % len(topic.partitions))

    # -- throwing away ---------------------------------------------------------------------------------------------
    async def purge(
        self,
        topic: str,
        *,
        partition: int | None = None,
        before: Offset | None = None,
        until: Millis | None = None,
        only_redriven: bool = False,
    ) -> int:
        """Delete letters for good: all, those before an offset or a time, or those redriven that no other lies before.

        A log can only forget its oldest records. How many offsets it forgot.
        """
        request = PurgeDeadLetters(before, until, only_redriven)
        return sum([await self._rpc.call(each, request) async for each in sliced(self._places(topic, partition))])

    async def _purge(self, log: Partition, request: PurgeDeadLetters) -> int:
        async with self._turns.setdefault(log, asyncio.Lock()):
            start, end = log.log_start_offset, log.high_watermark
            if request.before is not None:
                end = min(end, request.before)
            if request.until is not None:
                found = await log.offset_for_time(request.until)
                end = min(end, found.offset) if found is not None else end
            if request.only_redriven:
                end = min(end, Offset(marks_of(log).end_of_run(start)))
            if end <= start:
                return 0
            await log.delete_records(end)
            await log.write_states(marks_of(log).add([], end))
            return end - start

    # -- finding ---------------------------------------------------------------------------------------------------
    def _places(self, name: str, partition: int | None) -> list[LogId]:
        topic = self._topic(name)
        found = [LogId(topic.id, each.index) for each in topic.partitions if partition in (None, each.index)]
        if not found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {name}")
        return found

    def _topic(self, name: str) -> Topic:
        topic = self._cluster.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        if topic.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} is the broker's own")
        return topic


class _Seen:
    """Records that went back lately: of two letters of the same one, only the first counts."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}

    def has(self, dead_letter: DeadLetterRecord) -> bool:
        """Remembers it from here on."""
        origin = dead_letter.origin
        key = hash((origin and origin.identity, dead_letter.record.key, dead_letter.record.value))
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return False


def _put_back_record(dead_letter: DeadLetterRecord) -> Record:
    return redrive.redriven(dead_letter, 0, dead_letter.timestamp)


def _sender(log: Partition) -> bytes:
    return sender_of(f"redrive:{log.log_id.topic_id}:{log.index}")


def _refuse(outcome: Redriven, dead_letters: Sequence[DeadLetterRecord], reason: str) -> None:
    outcome.failed |= {(dead_letter.partition, dead_letter.offset): reason for dead_letter in dead_letters}


def _decode_cursor(cursor: str, places: Sequence[LogId]) -> tuple[int, int]:
    partition, colon, offset = cursor.partition(":")
    known = {str(place.partition): number for number, place in enumerate(places)}
    if not colon or partition not in known or not (offset.isascii() and offset.isdecimal() and len(offset) < 19):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{cursor!r} is not a cursor of this list")
    return known[partition], int(offset)
