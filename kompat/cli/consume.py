"""`kompat consume`: read a topic, or an archive of it and then the topic, without a gap and without a double.

Without a group every partition is read by itself, from where the options say to where the log ends now; `--follow` goes on from
there. With a group the broker says where it left off, and it is committed how far it has come.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kompat.archive.manifest import ArchiveError
from kompat.cli.arguments import count, moment
from kompat.cli.command import CommandError, Parsers, UsageError, add_http, add_kafka, declare, runs
from kompat.cli.consume_partitions import by_partition, polled
from kompat.cli.formats import FORMATS, Shown, format_named
from kompat.cli.kafka_client import opened

if TYPE_CHECKING:
    from kafka import KafkaConsumer

QUIET_SECONDS = 1.0
JOIN_SECONDS = 30.0
AWAY_SECONDS = 0.1
FOREVER = sys.maxsize


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
            yield from islice(by_partition(consumer, given), given.max)
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
        auto_offset_reset=_where_to_begin(given),
        allow_auto_create_topics=False,
        # What lies in an archive was committed, so what follows it has to be.
        isolation_level="read_committed" if given.committed or given.from_snapshot else "read_uncommitted",
    )


def _where_to_begin(given: argparse.Namespace) -> str:
    """Of a group that has been nowhere. Without a group, offsets that are not there any more are an error, to be dealt with."""
    if not given.group:
        return "none"
    return "earliest" if given.from_beginning else "latest"


# -- with a group ------------------------------------------------------------------------------------------------------
def _with_group(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    """What has left for the output is committed; without `follow` it ends when nothing comes for a while."""
    if given.topic not in consumer.topics():
        raise CommandError(f"there is no {given.topic}")
    consumer.subscribe([given.topic])
    began = quiet_since = time.monotonic()
    left = given.max
    while left and (given.follow or not consumer.assignment() or time.monotonic() - quiet_since < QUIET_SECONDS):
        records = list(_polled_or_away(consumer, left) if given.follow else polled(consumer, left))
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


def _polled_or_away(consumer: KafkaConsumer, most: int) -> Iterator[Shown]:
    """A broker that is away for a while is waited for. kafka-python does so, unless both the coordinator and metadata are missing."""
    from kafka.errors import KafkaConnectionError

    try:
        yield from polled(consumer, most)
    except KafkaConnectionError:
        time.sleep(AWAY_SECONDS)
