"""Dead letters by cause and topic, and lists of those to redrive.

    python -m spark.dlq groups                              what there is, as a table
    python -m spark.dlq groups --json --out DIR             as JSON lines, and as Parquet tables below DIR
    python -m spark.dlq list --cause rejected > letters     a line for each letter, to be redriven

Letters are read from all topics whose names begin with `dlq.`, or from others. Whoever put something there that is no
dead letter is told so: it is counted, and kept below DIR.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark import options, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark.letter_frames import Wanted

PATTERN = r"dlq\..*"
GROUPS, BAD = "groups", "bad"
_COLUMNS = ("count", "topic", "letters", "cause", "groups", "first", "last")


def read(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """All letters that there are now, and what else lies there."""
    from spark import letter_frames as frames

    reader = spark.read.format("kafka").options(**options.kafka_options(given))
    reader = (
        reader.option("subscribe", given.topics) if given.topics else reader.option("subscribePattern", given.pattern)
    )
    reader = reader.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed")
    return frames.letters(reader.load())


def groups(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark import letter_frames as frames

    found = read(spark, given).persist()
    grouped = frames.grouped(frames.select(frames.good(found), _wanted(given))).persist()
    strange = frames.bad(found)
    if given.out:
        grouped.coalesce(1).write.mode("overwrite").parquet(f"{given.out}/{GROUPS}")
        strange.write.mode("overwrite").parquet(f"{given.out}/{BAD}")
    rows = grouped.toJSON().collect() if given.json else [_line(_COLUMNS), *map(_row, grouped.collect())]
    if not grouped.isEmpty():
        print("\n".join(rows))
    print(f"dlq: {len(rows) - (not given.json)} groups", file=sys.stderr)
    _tell_strange(strange)
    return 0


def list_letters(spark: SparkSession, given: argparse.Namespace) -> int:
    """A line at a time: there may be many."""
    from spark import letter_frames as frames

    found = read(spark, given)
    count = 0
    for row in frames.redrive_list(frames.select(frames.good(found), _wanted(given))).toLocalIterator():
        print(row["line"])
        count += 1
    print(f"dlq: {count} letters", file=sys.stderr)
    _tell_strange(frames.bad(found))
    return 0


def _tell_strange(strange: DataFrame) -> None:
    count = strange.count()
    if count:
        print(
            f"dlq: {count} records are no dead letters: their headers do not tell where they come from", file=sys.stderr
        )


def _row(row: Any) -> str:
    times = (f"{row[name]:%Y-%m-%d %H:%M:%S}" for name in ("first", "last"))
    return _line((row["count"], row["topic"], row["letters"], row["cause"], ", ".join(row["groups"]), *times))


def _line(cells: Sequence[object]) -> str:
    return "\t".join(map(str, cells))


# -- the command -------------------------------------------------------------------------------------------------------
def _wanted(given: argparse.Namespace) -> Wanted:
    from spark.letter_frames import Wanted

    return Wanted(cause=given.cause, origin=given.origin, group=given.group, start=given.from_time, end=given.to_time)


def main(arguments: Sequence[str] | None = None) -> int:
    made = options.parser("spark.dlq", __doc__ or "")
    commands = made.add_subparsers(required=True, metavar="groups | list")
    shown = commands.add_parser("groups", help="letters by cause and topic")
    shown.add_argument("--json", action="store_true", help="a line of JSON for each group")
    shown.add_argument("--out", metavar="DIR", help="also as Parquet tables; those that are there are replaced")
    shown.set_defaults(work=groups)
    listed = commands.add_parser("list", help="a line of JSON for each letter")
    listed.set_defaults(work=list_letters)
    for command in commands.choices.values():
        _add_choice(command)
    return running.run("dlq", made, arguments)


def _add_choice(command: argparse.ArgumentParser) -> None:
    options.add_kafka(command)
    where = command.add_mutually_exclusive_group()
    where.add_argument("--topics", metavar="NAME,…", help="dead-letter topics")
    where.add_argument("--pattern", default=PATTERN, metavar="REGEX", help=f"dead-letter topics ({PATTERN})")
    command.add_argument("--cause", metavar="TEXT", help="only letters with this in their cause")
    command.add_argument("--origin", metavar="TOPIC", help="only letters of this topic's records")
    command.add_argument("--group", help="only letters of this group")
    command.add_argument("--from-time", type=options.moment, metavar="TIME", help="when they were written")
    command.add_argument("--to-time", type=options.moment, metavar="TIME", help="not included")


if __name__ == "__main__":
    sys.exit(main())
