"""What traces tell of all records together: how long each stage takes, redeliveries, dead letters, stuck records.

    python -m spark.traces run --out DIR                     until stopped
    python -m spark.traces run --out DIR --once              what is there now
    python -m spark.traces run --out DIR --to trace-minutes  the numbers of each minute also into a topic, as JSON
    python -m spark.traces report --out DIR                  a page with tables and plots: DIR/report.html

Reads `__kompat_trace` (docs/traces.md) and writes Parquet tables: spark/trace_turns.py says which, and how late an event may come.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark import options, progress, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark.trace_turns import Limits

TOPIC = "__kompat_trace"
OFFSETS_BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


# -- taking in ---------------------------------------------------------------------------------------------------------
def run(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark import trace_frames as frames
    from spark.trace_turns import CHECKPOINT, Taking, Turns

    turns = Turns(spark, given.out)
    taking = Taking(turns, _limits(given), _publisher(given))
    reader = spark.readStream.format("kafka").options(**options.kafka_options(given)).option("subscribe", given.topic)
    reader = reader.option("startingOffsets", "earliest").option("failOnDataLoss", str(not given.allow_gaps).lower())
    if given.max_records:
        reader = reader.option("maxOffsetsPerTrigger", given.max_records)

    def take(records: DataFrame, number: int) -> None:
        taking.take(frames.parse(records, int(time.time() * 1000)), number)

    batches = running.Batches(take)
    writer = reader.load().writeStream.queryName("traces").foreachBatch(batches)
    writer = writer.option("checkpointLocation", turns.files.full(CHECKPOINT))
    writer = writer.trigger(availableNow=True) if given.once else writer.trigger(processingTime=given.interval)
    with _reading_internal_topics(spark):
        query = writer.start()
    progress.run(query, "traces", batches)
    if given.once:
        taking.close()
    done = turns.so_far()
    counts = f"{done.steps} steps, {done.bad} records that are no events, {done.late} late events"
    print(f"traces: {counts}" if done.newest else f"traces: {given.topic} has no events", file=sys.stderr)
    return 0


@contextmanager
def _reading_internal_topics(spark: SparkSession) -> Iterator[None]:
    """Else Spark asks the admin client for partitions, and passes over those of the broker's own topics without a word.

    A stream has the settings of the moment when it starts.
    """
    before = spark.conf.get(OFFSETS_BY_CONSUMER, "false")
    spark.conf.set(OFFSETS_BY_CONSUMER, "true")
    try:
        yield
    finally:
        spark.conf.set(OFFSETS_BY_CONSUMER, before or "false")


def _limits(given: argparse.Namespace) -> Limits:
    from spark.trace_turns import Limits

    return Limits(delay=given.delay, stuck=given.stuck, keep=given.keep, window=given.window)


def _publisher(given: argparse.Namespace) -> Callable[[DataFrame], None]:
    """Puts the numbers of minutes into a topic. Their key says what they are about: one that comes twice is the same."""
    if given.to is None:
        return lambda _: None
    settings = options.kafka_options(given)

    def publish(minutes: DataFrame) -> None:
        from pyspark.sql import functions as f

        key = f.to_json(f.struct("minute", "topic", "group"))
        rows = minutes.select(key.alias("key"), f.to_json(f.struct(*minutes.columns)).alias("value"))
        rows.write.format("kafka").options(**settings).option("topic", given.to).save()

    return publish


# -- telling -----------------------------------------------------------------------------------------------------------
def report(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark.trace_report import page, table
    from spark.trace_summary import summarize
    from spark.trace_turns import Turns

    turns = Turns(spark, given.out)
    summary = summarize(spark, turns, given.from_time, given.to_time, given.window)
    turns.files.replace("report.html", page(summary).encode())
    print(table(summary))
    print(f"report: {turns.files.full('report.html')}", file=sys.stderr)
    return 0


# -- the command -------------------------------------------------------------------------------------------------------
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(text: str) -> int:
    """Milliseconds: `500ms`, `30s`, `5m`, `2h` or `1d`."""
    number = text.rstrip("mshd")
    unit = _UNITS.get(text[len(number) :])
    if not number.isdecimal() or unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time such as 30s, 5m or 2h")
    return int(number) * unit


def main(arguments: Sequence[str] | None = None) -> int:
    made = options.parser("spark.traces", __doc__ or "")
    commands = made.add_subparsers(required=True, metavar="run | report")
    _add_run(commands.add_parser("run", help="take events into tables"))
    _add_report(commands.add_parser("report", help="make a page of the tables"))
    for command in commands.choices.values():
        command.add_argument("--out", required=True, metavar="DIR", help="a directory, or a URL that Hadoop knows")
        command.add_argument(
            "--window", type=options.count, default=60, metavar="SECONDS", help="what counts as a minute (60)"
        )
    return running.run("traces", made, arguments)


def _add_run(command: argparse.ArgumentParser) -> None:
    options.add_kafka(command)
    command.add_argument("--topic", default=TOPIC, help=f"where events are ({TOPIC})")
    command.add_argument("--to", metavar="TOPIC", help="where the numbers of each minute go")
    command.add_argument("--once", action="store_true", help="take what is there now, and end")
    command.add_argument("--interval", default="1 minute", help="between batches (1 minute)")
    command.add_argument("--max-records", type=options.count, metavar="N", help="in one batch, at most")
    command.add_argument("--allow-gaps", action="store_true", help="go on where retention was faster")
    command.add_argument("--delay", type=duration, default="30s", help="how late an event may come (30s)")
    command.add_argument("--stuck", type=duration, default="10m", help="unfinished for so long is stuck (10m)")
    command.add_argument("--keep", type=duration, default="1h", help="how long a finished record is remembered (1h)")
    command.set_defaults(work=run)


def _add_report(command: argparse.ArgumentParser) -> None:
    command.add_argument("--from-time", type=options.moment, metavar="TIME")
    command.add_argument("--to-time", type=options.moment, metavar="TIME", help="not included")
    command.set_defaults(work=report)


if __name__ == "__main__":
    sys.exit(main())
