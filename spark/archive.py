"""Keep topics as Parquet files, every record exactly once, whatever dies in between.

    python -m spark.archive run --archive DIR --topics orders,payments          until stopped
    python -m spark.archive run --archive DIR --pattern 'orders-.*' --once      what is there now
    python -m spark.archive compact --archive DIR                               few large files instead of many small ones
    python -m spark.archive show --archive DIR                                  what it holds

What is archived is told by the archive itself: a batch is written to where nobody looks, and becomes part of the archive by one
file that names it (kompat/archive/manifest.py). A batch that is run again writes only what the archive does not have.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from kompat.archive import manifest
from kompat.archive.manifest import Archive, ArchiveError, Commit, DataFile
from spark import options, progress, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark.tables import Table

CHECKPOINT = "_checkpoint"
MEBIBYTE = 1 << 20
HOUR_MS = 3_600_000


# -- archiving ---------------------------------------------------------------------------------------------------------
class Archiving:
    """Takes a stream's batches into an archive."""

    def __init__(self, table: Table, *, may_have_gaps: bool) -> None:
        self._table = table
        self._may_have_gaps = may_have_gaps
        self.archived = 0

    def take(self, records: DataFrame, _batch: int) -> None:
        """Archive what is new in a batch. The stream's own number for it says nothing: its checkpoint may be a new one."""
        from spark.tables import covered_by, new_to, with_date

        archive = self._table.load()
        number = archive.next_number
        files = self._table.stage(new_to(archive, with_date(records)), number)
        if files:
            covered = covered_by(archive, files, may_have_gaps=self._may_have_gaps)
            self._table.commit(number, Commit(added=files, covered=covered))
            self.archived += sum(each.rows for each in files)


def run(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark.tables import Table

    table = Table(spark, given.archive)
    table.load()  # what is wrong with it is told before anything is read
    reader = spark.readStream.format("kafka").options(**options.kafka_options(given))
    reader = (
        reader.option("subscribePattern", given.pattern) if given.pattern else reader.option("subscribe", given.topics)
    )
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
    reader = reader.option("failOnDataLoss", str(not given.allow_gaps).lower())
    reader = reader.option("kafka.isolation.level", given.isolation)
    if given.max_records:
        reader = reader.option("maxOffsetsPerTrigger", given.max_records)
    archiving = Archiving(table, may_have_gaps=given.allow_gaps)
    batches = running.Batches(archiving.take)
    writer = reader.load().writeStream.queryName("archive").foreachBatch(batches)
    writer = writer.option("checkpointLocation", table.files.full(CHECKPOINT))
    writer = writer.trigger(availableNow=True) if given.once else writer.trigger(processingTime=given.interval)
    given.hint = f"if {table.files.full(CHECKPOINT)} is damaged, remove it: nothing is archived twice"
    rows = progress.run(writer.start(), "archive", batches)
    known = rows - archiving.archived
    print(f"archive: {archiving.archived} records" + (f", {known} were there" if known else ""), file=sys.stderr)
    return 0


# -- compaction --------------------------------------------------------------------------------------------------------
def small_files(archive: Archive, *, target: int) -> list[list[DataFile]]:
    """Files of one topic and day that are better one: each is less than half of what a file should be. Pure."""
    days: dict[tuple[str, str], list[DataFile]] = {}
    for each in archive.files.values():
        if each.bytes < target / 2:
            days.setdefault((each.topic, each.date), []).append(each)
    return [sorted(found, key=lambda each: each.path) for _, found in sorted(days.items()) if len(found) > 1]


def compact(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark.tables import Table

    table, target = Table(spark, given.archive), given.target_mib * MEBIBYTE
    for files in small_files(table.load_existing(), target=target):
        number = table.load().next_number
        wanted = max(1, ceil(sum(each.bytes for each in files) / target))
        records = table.read(files).repartitionByRange(wanted, "partition", "offset")
        made = table.stage(records, number)
        before, after = sum(each.rows for each in files), sum(each.rows for each in made)
        if before != after:
            raise ArchiveError(f"{before} records became {after}: nothing was changed")
        table.commit(number, Commit(added=made, removed=[each.path for each in files]))
        print(f"compact: {files[0].topic} {files[0].date}: {len(files)} files became {len(made)}", file=sys.stderr)
    removed = clean(table, older_than=int(time.time() * 1000 - given.keep_hours * HOUR_MS))
    print(f"compact: {removed} files that nobody needs removed", file=sys.stderr)
    return 0


def clean(table: Table, *, older_than: int) -> int:
    """Remove files that no commit names: replaced ones, and those of attempts that died. Readers may still be at young ones."""
    known = table.load().files
    unknown = [each for each in table.files.walk(manifest.RECORDS) if f"{manifest.RECORDS}/{each.path}" not in known]
    old = [each for each in unknown if each.modified < older_than]
    for each in old:
        table.files.delete(f"{manifest.RECORDS}/{each.path}")
    return len(old)


def show(spark: SparkSession, given: argparse.Namespace) -> int:
    from spark.tables import Table

    archive = Table(spark, given.archive).load_existing()
    for (topic, partition), spans in sorted(archive.covered.items()):
        print(f"{topic}/{partition}\t" + ", ".join(f"{span.start}–{span.end}" for span in spans))
    files = archive.files.values()
    print(f"{sum(each.rows for each in files)} records, {len(files)} files, {sum(each.bytes for each in files)} bytes")
    return 0


# -- the command -------------------------------------------------------------------------------------------------------
def main(arguments: Sequence[str] | None = None) -> int:
    made = options.parser("spark.archive", __doc__ or "")
    commands = made.add_subparsers(required=True, metavar="run | compact | show")
    _add_run(commands.add_parser("run", help="archive topics"))
    _add_compact(commands.add_parser("compact", help="few large files instead of many small ones"))
    shown = commands.add_parser("show", help="what the archive holds")
    shown.set_defaults(work=show)
    for command in commands.choices.values():
        command.add_argument("--archive", required=True, metavar="DIR", help="a directory, or a URL that Hadoop knows")
    return running.run("archive", made, arguments)


def _add_run(command: argparse.ArgumentParser) -> None:
    options.add_kafka(command)
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--topics", metavar="NAME,…")
    which.add_argument("--pattern", metavar="REGEX", help="also topics that are created later")
    command.add_argument("--once", action="store_true", help="take what is there now, and end")
    command.add_argument("--interval", default="10 seconds", help="between batches (10 seconds)")
    command.add_argument("--max-records", type=options.count, metavar="N", help="in one batch, at most")
    command.add_argument("--isolation", default="read_committed", choices=["read_committed", "read_uncommitted"])
    command.add_argument("--allow-gaps", action="store_true", help="go on where retention was faster than the archive")
    command.set_defaults(work=run)


def _add_compact(command: argparse.ArgumentParser) -> None:
    command.add_argument("--target-mib", type=options.count, default=128, help="size of a file (128)")
    command.add_argument("--keep-hours", type=float, default=24, help="files that were replaced stay for readers (24)")
    command.set_defaults(work=compact)


if __name__ == "__main__":
    sys.exit(main())
