"""`kompat consume`: read a topic, or an archive of it and then the topic, without a gap and without a double.

Without a group every partition is read by itself, from where the options say to where the log ends now; `--follow` goes on from
there. With a group the broker says where it left off, and it is committed how far it has come.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kompat.archive import joining, reader
from kompat.archive.manifest import Archive, ArchiveError, Span
from kompat.cli.arguments import count, moment
from kompat.cli.command import CommandError, Parsers, UsageError, add_http, add_kafka, declare, runs
from kompat.cli.formats import FORMATS, Shown, format_named
from kompat.cli.kafka_client import opened

if TYPE_CHECKING:
    from kafka import KafkaConsumer

POLL_MS = 500
POLLED = 500
QUIET_SECONDS = 1.0
JOIN_SECONDS = 30.0
FOREVER = sys.maxsize
MISSING_TOLD = 5  # stretches, one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which records, by their times: ms since 1970."""

    start: int | None = None
    end: int | None = None  # not included

    def holds(self, record: Shown) -> bool:
        return (self.start is None or record.timestamp >= self.start) and (
            self.end is None or record.timestamp < self.end
        )


# -- the command -------------------------------------------------------------------------------------------------------
def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "consume",
        summary,
        description="Read a topic's records, from any broker that speaks Kafka's protocol.",
        examples=[
            "kompat consume orders --from-beginning --format json",
            "kompat consume orders --group billing --follow",
            "kompat consume orders --from-time 2026-01-31T00:00:00Z --to-time 2026-02-01T00:00:00Z",
            "kompat consume orders --from-beginning --format '{partition} {offset} {key} {value}'",
            "kompat consume jobs --share --group workers --max 10",
            "kompat consume orders --from-snapshot /archive --include-deleted",
        ],
    )
    parser.add_argument("topic")
    parser.add_argument("--group", metavar="ID", help="share the work with others, and go on where it was left")
    parser.add_argument("--share", action="store_true", help="by --group as a share group: each record to one of all")
    parser.add_argument("--partition", type=int, action="append", metavar="N", help="only this one; may be repeated")
    parser.add_argument("--from-beginning", action="store_true", help="also what is there already")
    parser.add_argument("--from-time", type=moment, metavar="TIME", help="2026-01-31T12:00:00Z, or ms since 1970")
    parser.add_argument("--to-time", type=moment, metavar="TIME", help="not included")
    parser.add_argument("--offset", type=int, metavar="N", help="from this offset on; below 0: so many from the end")
    parser.add_argument("--follow", action="store_true", help="wait for more at the end")
    parser.add_argument("--max", type=count, metavar="N", default=FOREVER, help="stop after so many records")
    parser.add_argument(
        "--format",
        type=format_named,
        default="line",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, or a template of {{topic}}, {{partition}}, {{offset}}, {{time}}, {{timestamp}}, "
        "{key}, {value} and {headers} (line)",
    )
    parser.add_argument("--json", action="store_const", dest="format", const=FORMATS["json"], help="as --format json")
    parser.add_argument("--committed", action="store_true", help="nothing of transactions that are open or aborted")
    parser.add_argument("--from-snapshot", metavar="DIR", help="an archive that `spark.archive` keeps")
    parser.add_argument("--include-deleted", action="store_true", help="also what the log does not have any more")
    add_kafka(parser)
    add_http(parser, with_secrets=False)
    runs(parser, _consume)


def _consume(given: argparse.Namespace) -> None:
    _check(given)
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    try:
        for record in _records(given):
            write(given.format(record) + b"\n")
            if given.follow:
                flush()
    except ArchiveError as error:
        raise CommandError(str(error)) from error
    flush()


def _check(given: argparse.Namespace) -> None:
    if given.share and not given.group:
        raise UsageError("--share needs --group: the share group to be a member of")
    where = (given.from_time, given.to_time, given.from_snapshot, given.partition, given.offset)
    if given.group and any(each is not None for each in where):
        raise UsageError("a group reads on from where it was left: it goes with none of the other ways to say where")
    if given.include_deleted and not given.from_snapshot:
        raise UsageError("--include-deleted needs --from-snapshot: what the log has lost is only in an archive")
    said = (given.from_beginning, given.follow, given.group, *(each is not None for each in where))
    if not any(said):
        raise UsageError(
            "from where? --from-beginning, --from-time, --offset or --group; --follow waits for what comes"
        )
    if sum((given.from_beginning, given.from_time is not None, given.offset is not None)) > 1:
        raise UsageError("--from-beginning, --from-time and --offset: which of them?")


def _records(given: argparse.Namespace) -> Iterator[Shown]:
    """At most so many as are wanted. Groups stop by themselves, for they have to be told how far they have come."""
    if given.share:
        from kompat.cli.consume_share import shared

        yield from shared(given)
        return
    consumer = _consumer(given)
    try:
        if given.group:
            yield from _with_group(consumer, given)
        else:
            yield from islice(_by_partition(consumer, given), given.max)
    finally:
        consumer.close()


def _consumer(given: argparse.Namespace) -> KafkaConsumer:
    from kafka import KafkaConsumer

    return opened(
        given,
        KafkaConsumer,
        KafkaConsumer.DEFAULT_CONFIG,
        group_id=given.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest" if given.from_beginning else "latest",
        allow_auto_create_topics=False,
        isolation_level="read_committed" if given.committed else "read_uncommitted",
    )


# -- with a group ------------------------------------------------------------------------------------------------------
def _with_group(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    """What has left for the output is committed; without `follow` it ends when nothing comes for a while."""
    if given.topic not in consumer.topics():
        raise CommandError(f"there is no {given.topic}")
    consumer.subscribe([given.topic])
    began = quiet_since = time.monotonic()
    left = given.max
    while left and (given.follow or not consumer.assignment() or time.monotonic() - quiet_since < QUIET_SECONDS):
        records = list(_polled(consumer, left))
        yield from records
        if records:
            left -= len(records)
            quiet_since = time.monotonic()
            sys.stdout.buffer.flush()  # first, for what nobody has seen must come again
            consumer.commit()
        if not consumer.assignment():
            quiet_since = time.monotonic()
            if not given.follow and quiet_since - began > JOIN_SECONDS:
                raise CommandError(f"group {given.group} has no partition for one more member")


def _polled(consumer: KafkaConsumer, most: int = FOREVER) -> Iterator[Shown]:
    for records in consumer.poll(timeout_ms=POLL_MS, max_records=min(most, POLLED)).values():
        for each in records:
            yield Shown(each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, each.headers)


# -- by partition ------------------------------------------------------------------------------------------------------
def _by_partition(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    archive = reader.load(given.from_snapshot) if given.from_snapshot else None
    logs = _logs(consumer, given, archive)
    window = Window(start=given.from_time, end=given.to_time)
    for partition, log in logs.items():
        yield from filter(window.holds, _history(consumer, given, archive, partition, log))
    if given.follow:
        yield from filter(window.holds, _tail(consumer, given.topic, {p: log.end for p, log in logs.items()}))


def _logs(consumer: KafkaConsumer, given: argparse.Namespace, archive: Archive | None) -> dict[int, Span]:
    """What the log has of each partition; nothing, where only the archive knows of it."""
    from kafka import TopicPartition

    known = consumer.partitions_for_topic(given.topic) if given.topic in consumer.topics() else set()
    places = [TopicPartition(given.topic, index) for index in sorted(known or ())]
    starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    logs = {place.partition: Span(starts[place], ends[place]) for place in places}
    if archive is not None:
        logs = {index: Span(0, 0) for topic, index in sorted(archive.covered) if topic == given.topic} | logs
    chosen = {index: log for index, log in logs.items() if not given.partition or index in given.partition}
    if not chosen:
        raise CommandError(f"there is no {given.topic}" + (" with such partitions" if logs else ""))
    return chosen


def _history(
    consumer: KafkaConsumer, given: argparse.Namespace, archive: Archive | None, partition: int, log: Span
) -> Iterator[Shown]:
    """What there is of a partition up to now."""
    covered = archive.covered.get((given.topic, partition), []) if archive is not None else []
    first = log.start
    if given.include_deleted:
        first = min([log.start, *(span.start for span in covered)])
    if archive is None:
        first = _first(consumer, given, partition, log)
    joined = joining.join(covered, log, Span(first, max([log.end, *(span.end for span in covered)])))
    _tell_missing(given.topic, partition, joined.missing)
    parts: list[tuple[int, Callable[[], Iterator[Shown]]]] = []
    if archive is not None:
        parts += [(s.start, lambda s=s: _archived(given, archive, partition, s)) for s in joined.archived]  # type: ignore[misc]
    parts += [(s.start, lambda s=s: _live(consumer, given.topic, partition, s)) for s in joined.live]  # type: ignore[misc]
    for _, read in sorted(parts, key=lambda part: part[0]):
        yield from read()


def _first(consumer: KafkaConsumer, given: argparse.Namespace, partition: int, log: Span) -> int:
    """The offset to begin with, of those that the log has."""
    if given.from_beginning or (given.to_time is not None and given.from_time is None):
        return log.start
    if given.from_time is not None:
        return max(log.start, _offset_at(consumer, given.topic, partition, given.from_time, log))
    if given.offset is not None:
        wanted: int = given.offset if given.offset >= 0 else log.end + given.offset
        return min(max(log.start, wanted), log.end)
    return log.end


def _tell_missing(topic: str, partition: int, missing: Sequence[Span]) -> None:
    for span in missing[:MISSING_TOLD]:
        place = f"{topic}/{partition}"
        told = f"kompat: {place}: offsets {span.start} to {span.end - 1} are neither archived nor in the log any more"
        print(told, file=sys.stderr)  # noqa: T201


def _archived(given: argparse.Namespace, archive: Archive, partition: int, span: Span) -> Iterator[Shown]:
    for each in reader.read(given.from_snapshot, archive, (given.topic, partition), span):
        yield Shown(each.topic, each.partition, each.offset, each.timestamp, each.key, each.value, each.headers)


def _live(consumer: KafkaConsumer, topic: str, partition: int, span: Span) -> Iterator[Shown]:
    """The log's records of these offsets. Its end may be a place that no record has: positions count, not records."""
    from kafka import TopicPartition

    place = TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek(place, span.start)
    while consumer.position(place) < span.end:
        for record in _polled(consumer):
            if record.offset < span.end:
                yield record


def _offset_at(consumer: KafkaConsumer, topic: str, partition: int, start: int, log: Span) -> int:
    from kafka import TopicPartition

    place = TopicPartition(topic, partition)
    found = consumer.offsets_for_times({place: start})[place]
    return log.end if found is None else int(found.offset)


def _tail(consumer: KafkaConsumer, topic: str, ends: Mapping[int, int]) -> Iterator[Shown]:
    from kafka import TopicPartition

    places = {TopicPartition(topic, partition): end for partition, end in ends.items()}
    consumer.assign(list(places))
    for place, end in places.items():
        consumer.seek(place, end)
    while True:
        yield from _polled(consumer)
