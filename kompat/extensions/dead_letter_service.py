"""Looking at dead letters, putting their records back where they come from, and throwing them away.

A letter's record is appended to its topic, and the letter marked as redriven, in one turn of the event loop: both are
there, or neither is. So each letter is redriven once, whatever becomes of the broker meanwhile.

In a cluster the broker that leads a partition of letters redrives those, and other brokers ask it to. The records are sent
first, wherever they go, and the letters marked then; whoever takes the records knows those that come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import letter_pages, redrive
from kompat.extensions.courier import Courier, ranks_of, sender_of
from kompat.extensions.letter_pages import MOST_LOOKED_AT, PartPage, marks_of, read
from kompat.extensions.redrive import Letter, Marks, Selection
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.commit import Pending
from kompat.log.manager import Logs
from kompat.log.packing import BATCH_BYTES, batch_limit, packed
from kompat.log.partition import Origin, Partition
from kompat.log.validation import codec_of
from kompat.protocol.records import Compression, Record, build_batch
from kompat.types import LogId, Millis, Offset

PREFIX = "dlq."  # of the topics that are made for dead letters, unless a group says otherwise
NAME_SETTING = "errors.deadletterqueue.topic.name"  # by which it does
REMEMBERED = 10_000  # records of one redrive: letters of the same one lie close together
EVERYTHING = Selection(with_redriven=True)
NOT_REDRIVEN = Selection()


@dataclass(frozen=True, slots=True)
class LetterPage:
    items: Sequence[Letter]
    cursor: str | None  # where to go on; None: there are no more


@dataclass(slots=True, kw_only=True)
class Redriven:
    """What became of a redrive."""

    count: int = 0
    repeated: int = 0  # letters of records that had another one: the record went back once
    failed: dict[tuple[int, int], str] = field(default_factory=dict)  # by partition and offset, and why

    def add(self, told: Sequence[Any]) -> None:
        """What became of it at another broker."""
        count, repeated, failed = told
        self.count += count
        self.repeated += repeated
        self.failed |= {(partition, offset): reason for partition, offset, reason in failed}


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterStatistics:
    letters: int
    redriven: int  # of those


class DeadLetterService:
    def __init__(
        self,
        cluster: ClusterService,
        logs: Logs,
        clock: Clock,
        tracer: Tracer | None = None,
        courier: Courier | None = None,
    ) -> None:
        """`courier`: where there are several brokers."""
        self._courier = courier
        if cluster.member is not None:
            cluster.member.asking.serve("browse-letters", self._on_browse)
            cluster.member.asking.serve("count-letters", self._on_count)
            cluster.member.asking.serve("redrive", self._on_redrive)
            cluster.member.asking.serve("purge-letters", self._on_purge)
        self._cluster = cluster
        self._logs = logs
        self._clock = clock
        self._tracer = tracer
        self._turns: dict[Partition, asyncio.Lock] = {}

    # -- looking ---------------------------------------------------------------------------------------------------
    def topics(self) -> list[str]:
        """The topics that are there for dead letters, by their names or because a group has its letters there."""
        names = {topic.name for topic in self._cluster.topics()}
        said = {str(self._cluster.group_setting(group, NAME_SETTING)) for group in self._cluster.groups_with_settings()}
        found = {name for name in names if name.startswith(PREFIX)} | (said & names)
        for pattern in (each for each in said if "<topic>" in each):
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
    ) -> LetterPage:
        """Letters in the order of partitions and offsets. A page may have fewer than asked for, and others follow."""
        places = self._places(topic, partition)
        index, offset = _decode_cursor(cursor, places) if cursor is not None else (0, 0)
        found: list[Letter] = []
        looked_at, limit = 0, max(1, limit)
        while index < len(places):
            left = MOST_LOOKED_AT - looked_at
            page = await self._page(places[index], offset, selection, limit - len(found), left)
            found += page.letters
            looked_at += page.looked_at
            if page.next_offset is not None:
                return LetterPage(found, f"{places[index].partition}:{page.next_offset}")
            index, offset = index + 1, 0
            if len(found) >= limit or looked_at >= MOST_LOOKED_AT:
                cursor = f"{places[index].partition}:0" if index < len(places) else None
                return LetterPage(found, cursor)
        return LetterPage(found, None)

    async def _page(self, place: LogId, offset: int, selection: Selection, limit: int, most: int) -> PartPage:
        log = self._led(place)
        if log is not None:
            return await letter_pages.page_of(log, offset, selection, limit, most)
        told = [place.topic_id.hex, place.partition, offset, redrive.told(selection), limit, most]
        return letter_pages.read_told(await self._ask(place, "browse-letters", told))

    async def _on_browse(self, told: Sequence[Any]) -> list[Any]:
        topic_id, partition, offset, selection, limit, most = told
        log = self._required(LogId(UUID(topic_id), partition))
        page = await letter_pages.page_of(log, offset, redrive.read_selection(selection), limit, most)
        return letter_pages.told(page)

    async def statistics(self, topic: str) -> LetterStatistics:
        counts = [await self._counts(place) for place in self._places(topic, None)]
        return LetterStatistics(letters=sum(each[0] for each in counts), redriven=sum(each[1] for each in counts))

    async def _counts(self, place: LogId) -> Sequence[int]:
        """Letters, and those of them that were redriven."""
        log = self._led(place)
        if log is None:
            counts: Sequence[int] = await self._ask(place, "count-letters", [place.topic_id.hex, place.partition])
            return counts
        return log.high_watermark - log.log_start_offset, marks_of(log).count(log.log_start_offset)

    async def _on_count(self, told: Sequence[Any]) -> Sequence[int]:
        topic_id, partition = told
        place = LogId(UUID(topic_id), partition)
        self._required(place)
        return await self._counts(place)

    # -- redriving -------------------------------------------------------------------------------------------------
    async def redrive(self, topic: str, selection: Selection = NOT_REDRIVEN) -> Redriven:
        """Put records back into the topics that they come from: those of all letters, or of a selection.

        They are new records there, so that every group gets them, and with no deliveries behind them. Raises KafkaError
        where the disk refuses; what was redriven until then is marked, and so the call can be repeated.
        """
        outcome = Redriven()
        seen = _Seen()
        for place in self._places(topic, None):
            log = self._led(place)
            if log is None:
                told = [place.topic_id.hex, place.partition, redrive.told(selection)]
                outcome.add(await self._ask(place, "redrive", told))
            else:
                await self._redrive_all(log, selection, outcome, seen)
        return outcome

    async def _on_redrive(self, told: Sequence[Any]) -> list[Any]:
        topic_id, partition, selection = told
        outcome = Redriven()
        log = self._required(LogId(UUID(topic_id), partition))
        await self._redrive_all(log, redrive.read_selection(selection), outcome, _Seen())
        failed = [[*place, reason] for place, reason in outcome.failed.items()]
        return [outcome.count, outcome.repeated, failed]

    async def _redrive_all(self, log: Partition, selection: Selection, outcome: Redriven, seen: _Seen) -> None:
        async with self._turns.setdefault(log, asyncio.Lock()):
            await self._redrive(log, selection, outcome, seen)

    async def _redrive(self, log: Partition, selection: Selection, outcome: Redriven, seen: _Seen) -> None:
        marks, offset, end = marks_of(log), log.log_start_offset, log.last_stable_offset
        while offset < end:
            records, after = await read(log, offset)
            letters = [redrive.read_letter(log.topic, log.index, each, marks) for each in records if each.offset < end]
            chosen = [letter for letter in letters if selection.takes(letter)]
            for part in packed(chosen, _put_back_record, self._batch_limit(chosen)):  # one turn each
                await self._put_back(log, part, marks, outcome, seen)
            offset = after

    async def _put_back(
        self, log: Partition, letters: Sequence[Letter], marks: Marks, outcome: Redriven, seen: _Seen
    ) -> None:
        """Append the records and mark their letters: in one turn, where this broker is alone."""
        done: list[int] = []
        written: list[Pending] = []
        sent: dict[LogId, list[int]] = {}
        repeated = 0
        for target, these in self._by_target(letters, outcome).items():
            fresh = [letter for letter in these if not seen.has(letter)]
            try:
                if fresh and self._courier is not None:
                    await self._send(self._courier, log, target, fresh)
                    sent[target] = [letter.offset for letter in fresh]
                elif fresh:
                    written.append(self._append(log, self._required(target), fresh))
            except KafkaError as error:
                _refuse(outcome, these, error.message or error.code.name)
                continue
            repeated += len(these) - len(fresh)
            done += [letter.offset for letter in these]
        if done:
            written.append(log.write_states(marks.add(sorted(done), log.log_start_offset)))
        for pending in written:
            await pending.wait()
        for target, offsets in sent.items():
            if self._courier is not None:
                await self._courier.finished(target, _sender(log), offsets)
        outcome.count += len(done) - repeated
        outcome.repeated += repeated

    async def _send(self, courier: Courier, log: Partition, target: LogId, letters: Sequence[Letter]) -> None:
        now = self._clock.now()
        records: dict[int, Record] = {letter.offset: redrive.redriven(letter, 0, now) for letter in letters}
        await courier.send(target, _sender(log), records, ranked=True)

    def _append(self, log: Partition, target: Partition, letters: Sequence[Letter]) -> Pending:
        """As the broker's own records: delays and message ids acted when they came the first time, and do not again."""
        now = self._clock.now()
        records = [redrive.redriven(letter, place, now) for place, letter in enumerate(letters)]
        batch = build_batch(records, compression=codec_of(target.config, producers=Compression.NONE))
        writes = ranks_of(target, records, now)
        appended = target.append(memoryview(batch), origin=Origin.INTERNAL, writes=writes)
        if self._tracer is not None:
            self._tracer.redriven(log, [letter.offset for letter in letters], target, appended)
        return appended.pending

    def _batch_limit(self, letters: Sequence[Letter]) -> int:
        """Of what goes back at once: in each of the topics it is one batch."""
        targets = {target for letter in letters if isinstance(target := self._target(letter), LogId)}
        logs = [self._logs.find_by_id(target.topic_id, target.partition) for target in targets]
        return min([BATCH_BYTES, *(batch_limit(log.config) for log in logs if log is not None)])

    def _by_target(self, letters: Sequence[Letter], outcome: Redriven) -> dict[LogId, list[Letter]]:
        found: dict[LogId, list[Letter]] = {}
        for letter in letters:
            target = self._target(letter)
            if isinstance(target, str):
                _refuse(outcome, [letter], target)
            else:
                found.setdefault(target, []).append(letter)
        return found

    def _target(self, letter: Letter) -> LogId | str:
        """Where the record goes, or why it cannot."""
        if letter.origin is None:
            return "it is no dead letter: its headers do not tell where it comes from"
        topic = self._cluster.topic(letter.origin.topic)
        if topic is None:
            return f"there is no topic {letter.origin.topic} any more"
        if topic.internal:
            return f"{topic.name} is the broker's own"
        return LogId(topic.id, letter.origin.partition % len(topic.partitions))

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
        count = 0
        for place in self._places(topic, partition):
            log = self._led(place)
            if log is None:
                told = [place.topic_id.hex, place.partition, before, until, only_redriven]
                count += await self._ask(place, "purge-letters", told)
            else:
                count += await self._purge(log, before, until, only_redriven=only_redriven)
        return count

    async def _on_purge(self, told: Sequence[Any]) -> int:
        topic_id, partition, before, until, only_redriven = told
        log = self._required(LogId(UUID(topic_id), partition))
        return await self._purge(log, before, until, only_redriven=only_redriven)

    async def _purge(self, log: Partition, before: Offset | None, until: Millis | None, *, only_redriven: bool) -> int:
        async with self._turns.setdefault(log, asyncio.Lock()):
            start, end = log.log_start_offset, log.high_watermark
            if before is not None:
                end = min(end, before)
            if until is not None:
                found = await log.offset_for_time(until)
                end = min(end, found.offset) if found is not None else end
            if only_redriven:
                end = min(end, Offset(marks_of(log).end_of_run(start)))
            if end <= start:
                return 0
            await log.delete_records(end)
            await log.write_states(marks_of(log).add([], end)).wait()
            return end - start

    # -- finding ---------------------------------------------------------------------------------------------------
    def _places(self, name: str, partition: int | None) -> list[LogId]:
        topic = self._topic(name)
        found = [LogId(topic.id, each.index) for each in topic.partitions if partition in (None, each.index)]
        if not found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {name}")
        return found

    def _led(self, place: LogId) -> Partition | None:
        """A partition to change; None: another broker leads it."""
        log = self._logs.find_by_id(place.topic_id, place.partition)
        return log if log is not None and log.is_led else None

    def _required(self, place: LogId) -> Partition:
        log = self._led(place)
        if log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition")
        return log

    async def _ask(self, place: LogId, command: str, arguments: Sequence[Any]) -> Any:
        if self._cluster.member is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return await self._cluster.member.asking.ask(place, command, arguments)

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

    def has(self, letter: Letter) -> bool:
        """Remembers it from here on."""
        origin = letter.origin
        key = hash((origin and origin.identity, letter.record.key, letter.record.value))
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return False


def _put_back_record(letter: Letter) -> Record:
    return redrive.redriven(letter, 0, letter.timestamp)


def _sender(log: Partition) -> bytes:
    return sender_of(f"redrive:{log.log_id.topic_id}:{log.index}")


def _refuse(outcome: Redriven, letters: Sequence[Letter], reason: str) -> None:
    outcome.failed |= {(letter.partition, letter.offset): reason for letter in letters}


def _decode_cursor(cursor: str, places: Sequence[LogId]) -> tuple[int, int]:
    partition, colon, offset = cursor.partition(":")
    known = {str(place.partition): number for number, place in enumerate(places)}
    if not colon or partition not in known or not (offset.isascii() and offset.isdecimal() and len(offset) < 19):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{cursor!r} is not a cursor of this list")
    return known[partition], int(offset)
