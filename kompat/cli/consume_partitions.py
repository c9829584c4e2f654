"""Reads partitions one after the other, from an archive and from the log.

Both may change during the read: retention deletes records, and an archive's files are replaced by larger ones. Then both are
opened again, and reading continues at the same offset: deleted records may have been archived meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kompat.archive import joining, reader
from kompat.archive.manifest import Archive, Span
from kompat.cli.command import CommandError
from kompat.cli.formats import Shown

if TYPE_CHECKING:
    from kafka import KafkaConsumer

POLL_MS = 500
POLLED = 500
MISSING_REPORTED = 5  # ranges of a partition that are named one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A range of timestamps, in ms since 1970."""

    start: int | None = None
    end: int | None = None  # not included

    def holds(self, record: Shown) -> bool:
        return (self.start is None or record.timestamp >= self.start) and (
            self.end is None or record.timestamp < self.end
        )


class GoneError(Exception):
    """The next offset is not in the log any more."""


def by_partition(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    archive = _archive(given)
    logs = _logs(consumer, given, archive)
    window = Window(start=given.from_time, end=given.to_time)
    for partition, log in logs.items():
        yield from filter(window.holds, _History(consumer, given, archive, partition, log).records())
    if given.follow:
        yield from filter(window.holds, _tail(consumer, given.topic, {p: log.end for p, log in logs.items()}))


def _archive(given: argparse.Namespace) -> Archive | None:
    if not given.from_snapshot:
        return None
    reader.require_pyarrow()
    return reader.load(given.from_snapshot)


def polled(consumer: KafkaConsumer, most: int = POLLED) -> Iterator[Shown]:
    for records in consumer.poll(timeout_ms=POLL_MS, max_records=min(most, POLLED)).values():
        for each in records:
            yield Shown(each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, each.headers)


def _logs(consumer: KafkaConsumer, given: argparse.Namespace, archive: Archive | None) -> dict[int, Span]:
    """The offsets in the log of each partition; an empty span if only the archive has the partition."""
    known = consumer.partitions_for_topic(given.topic) if given.topic in consumer.topics() else set()
    logs = _bounds(consumer, given.topic, sorted(known or ()))
    if archive is not None and given.include_deleted:
        logs = {index: Span(0, 0) for topic, index in sorted(archive.covered) if topic == given.topic} | logs
    chosen = {index: log for index, log in logs.items() if not given.partition or index in given.partition}
    if not chosen:
        raise CommandError(
            f"topic {given.topic} does not exist" + (" or does not have these partitions" if logs else "")
        )
    return chosen


def _bounds(consumer: KafkaConsumer, topic: str, partitions: Iterable[int]) -> dict[int, Span]:
    from kafka import TopicPartition

    places = [TopicPartition(topic, index) for index in partitions]
    starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    return {place.partition: Span(starts[place], ends[place]) for place in places}


# -- up to now ---------------------------------------------------------------------------------------------------------
class _History:
    """The records of a partition up to the present end of its log."""

    def __init__(
        self, consumer: KafkaConsumer, given: argparse.Namespace, archive: Archive | None, partition: int, log: Span
    ) -> None:
        self._consumer = consumer
        self._given = given
        self._archive = archive
        self._place = given.topic, partition
        self._log = log
        self._reported = 0
        covered = self._covered()
        if log.end and covered and covered[-1].end > log.end:
            warning = f"the archive ends at {covered[-1].end}, but the log ends at {log.end}: was the topic deleted and created again?"
            _warn(f"{self._name}: {warning}")
        self._at = self._first()  # the next offset
        self._end = max([log.end, *(span.end for span in covered)])

    @property
    def _name(self) -> str:
        return f"{self._place[0]}/{self._place[1]}"

    def _covered(self) -> list[Span]:
        return [] if self._archive is None else self._archive.covered.get(self._place, [])

    def records(self) -> Iterator[Shown]:
        while self._at < self._end:
            joined = joining.join(self._covered(), self._log, Span(self._at, self._end))
            parts = sorted((*joined.archived, *joined.live), key=lambda span: span.start)
            part = parts[0] if parts else Span(self._end, self._end)
            self._report(span for span in joined.missing if span.start < part.start)
            self._at = part.start
            try:
                for record in self._archived(part) if part in joined.archived else self._live(part):
                    yield record
                    self._at = record.offset + 1
                self._at = part.end
            except GoneError:
                self._look_again()
                if self._log.start <= self._at < self._log.end:
                    raise CommandError(
                        f"{self._name} no longer has offset {self._at}: was the topic deleted and created again?"
                    ) from None
            except reader.MissingFileError as error:
                self._look_again()
                if self._archive is None or error.path in self._archive.files:
                    raise

    def _archived(self, span: Span) -> Iterator[Shown]:
        archive = self._archive
        assert archive is not None  # noqa: S101 - whose part this is
        for each in reader.read(self._given.from_snapshot, archive, self._place, span):
            yield Shown(each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, each.headers)

    def _live(self, span: Span) -> Iterator[Shown]:
        """The log's records with these offsets. The last offset may have no record, so the consumer's position decides when to stop."""
        from kafka import TopicPartition
        from kafka.errors import OffsetOutOfRangeError

        place = TopicPartition(*self._place)
        self._consumer.assign([place])
        self._consumer.seek(place, span.start)
        while self._consumer.position(place) < span.end:
            is_quiet = True
            try:
                for record in polled(self._consumer):
                    is_quiet = False
                    if record.offset < span.end:
                        yield record
            except OffsetOutOfRangeError as error:
                raise GoneError from error
            if is_quiet and self._place[0] not in self._consumer.topics():
                raise GoneError

    def _look_again(self) -> None:
        """Open both again: the archive may have more by now, and the log less."""
        topic, partition = self._place
        if self._given.from_snapshot:
            self._archive = reader.load(self._given.from_snapshot)
        if topic not in self._consumer.topics():
            self._log = Span(self._end, self._end)
            return
        now = _bounds(self._consumer, topic, [partition])[partition]
        self._log = Span(now.start, max(now.start, self._log.end))

    def _report(self, missing: Iterable[Span]) -> None:
        for span in missing:
            self._reported += 1
            if self._reported <= MISSING_REPORTED:
                _report_missing(self._name, span, "neither archived nor" if self._given.from_snapshot else "not")

    def _first(self) -> int:
        """The offset to begin with."""
        given, log, partition = self._given, self._log, self._place[1]
        known = [*self._covered(), log] if given.include_deleted else [log]
        start = min((span.start for span in known if span.end), default=0)
        end = max(span.end for span in known)
        if given.offset is not None:
            wanted: int = given.offset if given.offset >= 0 else end + given.offset
            return min(max(start, wanted), end)
        if given.from_beginning or given.from_snapshot or (given.to_time is not None and given.from_time is None):
            return start
        if given.from_time is not None:
            return max(start, _offset_at(self._consumer, given.topic, partition, given.from_time, log))
        return end


def _report_missing(name: str, span: Span, where: str) -> None:
    _warn(f"{name}: offsets {span.start} to {span.end - 1} are {where} in the log any more")


def _warn(text: str) -> None:
    print(f"kompat: {text}", file=sys.stderr)  # noqa: T201


def _offset_at(consumer: KafkaConsumer, topic: str, partition: int, start: int, log: Span) -> int:
    from kafka import TopicPartition

    place = TopicPartition(topic, partition)
    found = consumer.offsets_for_times({place: start})[place]
    return log.end if found is None else int(found.offset)


# -- from now on -------------------------------------------------------------------------------------------------------
def _tail(consumer: KafkaConsumer, topic: str, ends: Mapping[int, int]) -> Iterator[Shown]:
    from kafka import TopicPartition
    from kafka.errors import OffsetOutOfRangeError

    places = {TopicPartition(topic, partition): end for partition, end in ends.items()}
    consumer.assign(list(places))
    for place, end in places.items():
        consumer.seek(place, end)
    while True:
        try:
            yield from polled(consumer)
        except OffsetOutOfRangeError:
            _skip_deleted(consumer)


def _skip_deleted(consumer: KafkaConsumer) -> None:
    """Continue at the start of the log after retention has deleted the next offset."""
    for place, start in consumer.beginning_offsets(list(consumer.assignment())).items():
        at = consumer.position(place)
        if at < start:
            _report_missing(f"{place.topic}/{place.partition}", Span(at, start), "not")
            consumer.seek(place, start)
