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
from typing import TYPE_CHECKING, Any

from kompat.archive import joining, reader
from kompat.archive.manifest import Archive, ArchiveError, Span
from kompat.cli.arguments import moment, setting
from kompat.cli.formats import FORMATS, Shown

if TYPE_CHECKING:
    from kafka import KafkaConsumer

FAILED = 1
POLL_MS = 500
FOREVER = 1 << 62
MISSING_TOLD = 5  # stretches, one by one


class ConsumeError(Exception):
    """Told to the user as it is."""


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
def add(commands: Any, summary: str) -> None:
    command: argparse.ArgumentParser = commands.add_parser(
        "consume",
        help=summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Read a topic's records, from any broker that speaks Kafka's protocol.",
        epilog=(
            "examples:\n"
            "  kompat consume orders --from-beginning --format json\n"
            "  kompat consume orders --group billing --follow\n"
            "  kompat consume orders --from-time 2026-01-31T00:00:00Z --to-time 2026-02-01T00:00:00Z\n"
            "  kompat consume orders --from-snapshot /archive --include-deleted"
        ),
    )
    command.add_argument("topic")
    command.add_argument("--bootstrap-server", metavar="HOST:PORT,…", default="127.0.0.1:9092")
    command.add_argument("--group", metavar="ID", help="share the work with others, and go on where it was left")
    command.add_argument("--partition", type=int, action="append", metavar="N", help="only this one; may be repeated")
    command.add_argument("--from-beginning", action="store_true", help="also what is there already")
    command.add_argument("--from-time", type=moment, metavar="TIME", help="2026-01-31T12:00:00Z, or ms since 1970")
    command.add_argument("--to-time", type=moment, metavar="TIME", help="not included")
    command.add_argument("--follow", action="store_true", help="wait for more at the end")
    command.add_argument("--max", type=int, metavar="N", default=FOREVER, help="stop after so many records")
    command.add_argument("--format", choices=sorted(FORMATS), default="line")
    command.add_argument("--from-snapshot", metavar="DIR", help="an archive that `spark.archive` keeps")
    command.add_argument("--include-deleted", action="store_true", help="also what the log does not have any more")
    command.add_argument(
        "--property", metavar="NAME=VALUE", action="append", default=[], type=setting, help="of the Kafka client"
    )
    command.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    show = FORMATS[given.format]
    try:
        _check(given)
        for count, record in enumerate(_records(given), 1):
            print(show(record), flush=given.follow)  # noqa: T201 - that is what it is for
            if count >= given.max:
                break
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # whoever read it has had enough
        sys.stderr.close()
        return 0
    except (ConsumeError, ArchiveError) as error:
        print(f"kompat: {error}", file=sys.stderr)  # noqa: T201
        return FAILED
    return 0


def _check(given: argparse.Namespace) -> None:
    if given.group and (given.from_time or given.to_time or given.from_snapshot or given.partition):
        raise ConsumeError("a group reads on from where it was left: it goes with none of the other ways to say where")
    if given.include_deleted and not given.from_snapshot:
        raise ConsumeError("--include-deleted needs --from-snapshot: what the log has lost is only in an archive")


def _records(given: argparse.Namespace) -> Iterator[Shown]:
    from kafka.errors import KafkaError

    try:
        consumer = _consumer(given)
    except KafkaError as error:
        raise ConsumeError(f"{given.bootstrap_server}: {error}") from error
    try:
        if given.group:
            yield from _with_group(consumer, given)
        else:
            yield from _by_partition(consumer, given)
    except KafkaError as error:
        raise ConsumeError(str(error)) from error
    finally:
        consumer.close()


def _consumer(given: argparse.Namespace) -> KafkaConsumer:
    from kafka import KafkaConsumer

    properties: Mapping[str, Any] = {name.replace(".", "_").replace("-", "_"): value for name, value in given.property}
    return KafkaConsumer(
        bootstrap_servers=given.bootstrap_server.split(","),
        group_id=given.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest" if given.from_beginning else "latest",
        **properties,
    )


# -- with a group ------------------------------------------------------------------------------------------------------
def _with_group(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    """What has been printed is committed; without `follow` it ends when nothing comes for a while."""
    consumer.subscribe([given.topic])
    quiet_since = time.monotonic()
    while given.follow or not consumer.assignment() or time.monotonic() - quiet_since < 2 * POLL_MS / 1000:
        for record in _polled(consumer):
            yield record
            quiet_since = time.monotonic()
        if consumer.assignment():
            consumer.commit()
        else:
            quiet_since = time.monotonic()


def _polled(consumer: KafkaConsumer) -> Iterator[Shown]:
    for records in consumer.poll(timeout_ms=POLL_MS).values():
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
        raise ConsumeError(f"there is no {given.topic}" + (" with such partitions" if logs else ""))
    return chosen


def _history(
    consumer: KafkaConsumer, given: argparse.Namespace, archive: Archive | None, partition: int, log: Span
) -> Iterator[Shown]:
    """What there is of a partition up to now."""
    covered = archive.covered.get((given.topic, partition), []) if archive is not None else []
    first = log.start
    if given.include_deleted:
        first = min([log.start, *(span.start for span in covered)])
    if archive is None and given.from_time is not None:
        first = max(first, _offset_at(consumer, given.topic, partition, given.from_time, log))
    elif archive is None and not given.from_beginning:
        first = log.end
    joined = joining.join(covered, log, Span(first, max([log.end, *(span.end for span in covered)])))
    _tell_missing(given.topic, partition, joined.missing)
    parts: list[tuple[int, Callable[[], Iterator[Shown]]]] = []
    if archive is not None:
        parts += [(s.start, lambda s=s: _archived(given, archive, partition, s)) for s in joined.archived]  # type: ignore[misc]
    parts += [(s.start, lambda s=s: _live(consumer, given.topic, partition, s)) for s in joined.live]  # type: ignore[misc]
    for _, read in sorted(parts, key=lambda part: part[0]):
        yield from read()


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
