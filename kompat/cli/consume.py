"""`kompat consume`: read a topic, or an archive of it and then the topic, without gaps and duplicates.

Without a group, partitions are read one after the other, from the position of the options to the present end of the log; `--follow`
continues from there. With a group, reading starts at its committed offsets, and commits the new ones.
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
        description="Consume the records of a topic, from any Kafka broker.",
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
    parser.add_argument("--group", metavar="ID", help="consumer group: start at its committed offsets and commit")
    parser.add_argument("--share", action="store_true", help="use --group as a share group")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="consume only this partition; may be repeated"
    )
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help="start at the earliest offset (with --group: if it has no committed offset)",
    )
    parser.add_argument(
        "--from-time", type=moment, metavar="TIME", help="start at this time: 2026-01-31T12:00:00Z, or ms since 1970"
    )
    parser.add_argument("--to-time", type=moment, metavar="TIME", help="stop before this time")
    parser.add_argument(
        "--offset", type=int, metavar="N", help="start at this offset; a negative number counts from the end"
    )
    parser.add_argument("--follow", action="store_true", help="keep waiting for new records")
    parser.add_argument("--max", type=count, metavar="N", default=FOREVER, help="stop after N records")
    parser.add_argument(
        "--format",
        type=format_named,
        default="line",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, or a template of {{topic}}, {{partition}}, {{offset}}, {{time}}, {{timestamp}}, "
        "{key}, {value} and {headers} (line)",
    )
    parser.add_argument("--json", action="store_const", dest="format", const=FORMATS["json"], help="as --format json")
    parser.add_argument(
        "--committed", action="store_true", help="read only committed records (isolation.level=read_committed)"
    )
    parser.add_argument(
        "--from-snapshot", metavar="DIR", help="read this archive, written by `spark.archive`, before the log"
    )
    parser.add_argument(
        "--include-deleted", action="store_true", help="also read archived records that the log has deleted"
    )
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
        raise UsageError("--share needs --group, the id of the share group")
    where = (given.from_time, given.to_time, given.from_snapshot, given.partition, given.offset)
    if given.group and any(each is not None for each in where):
        raise UsageError("a group starts at its committed offsets: --group does not go with other start positions")
    if given.include_deleted and not given.from_snapshot:
        raise UsageError("--include-deleted needs --from-snapshot: only an archive has deleted records")
    chosen = (given.from_beginning, given.follow, given.group, *(each is not None for each in where))
    if not any(chosen):
        raise UsageError(
            "give a start position: --from-beginning, --from-time, --offset or --group; --follow waits for new records"
        )
    if sum((given.from_beginning, given.from_time is not None, given.offset is not None)) > 1:
        raise UsageError("give only one of --from-beginning, --from-time and --offset")


def _records(given: argparse.Namespace) -> Iterator[Shown]:
    """At most `--max` records. With a group, the loop itself stops there, because it has to commit the offsets."""
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
        # An archive has only committed records, so the log is read with read_committed, too.
        isolation_level="read_committed" if given.committed or given.from_snapshot else "read_uncommitted",
    )


def _where_to_begin(given: argparse.Namespace) -> str:
    """auto.offset.reset of a group. Without a group, an offset out of range is an error, which the caller handles."""
    if not given.group:
        return "none"
    return "earliest" if given.from_beginning else "latest"


# -- with a group ------------------------------------------------------------------------------------------------------
def _with_group(consumer: KafkaConsumer, given: argparse.Namespace) -> Iterator[Shown]:
    """Read with a group, and commit the offsets of printed records. Without `follow` it ends when no records come for a while."""
    if given.topic not in consumer.topics():
        raise CommandError(f"topic {given.topic} does not exist")
    consumer.subscribe([given.topic])
    began = quiet_since = time.monotonic()
    left = given.max
    while left and (given.follow or not consumer.assignment() or time.monotonic() - quiet_since < QUIET_SECONDS):
        records = list(_poll(consumer, left) if given.follow else polled(consumer, left))
        yield from records
        if records:
            left -= len(records)
            quiet_since = time.monotonic()
            sys.stdout.buffer.flush()  # before the commit: what was not printed must be delivered again
            consumer.commit()
        if not consumer.assignment():
            quiet_since = time.monotonic()
            if not given.follow and quiet_since - began > JOIN_SECONDS:
                raise CommandError(f"group {given.group} has more members than partitions: this member got none")


def _poll(consumer: KafkaConsumer, most: int) -> Iterator[Shown]:
    """Poll, and wait for a broker that is down. kafka-python waits itself, unless it has neither the coordinator nor metadata."""
    from kafka.errors import KafkaConnectionError

    try:
        yield from polled(consumer, most)
    except KafkaConnectionError:
        time.sleep(AWAY_SECONDS)
