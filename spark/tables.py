"""The archive's table in Spark: reading it, and adding to it by commits (kompat/archive/manifest.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from kompat.archive import manifest
from kompat.archive.manifest import Archive, ArchiveError, Commit, DataFile, Place, Span
from spark.files import Files

_HEADER = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
SCHEMA = t.StructType(
    [
        t.StructField("partition", t.IntegerType(), nullable=False),
        t.StructField("offset", t.LongType(), nullable=False),
        t.StructField("timestamp", t.TimestampType(), nullable=False),
        t.StructField("timestampType", t.IntegerType(), nullable=False),
        t.StructField("key", t.BinaryType()),
        t.StructField("value", t.BinaryType()),
        t.StructField("headers", t.ArrayType(_HEADER)),
        t.StructField("topic", t.StringType(), nullable=False),
        t.StructField("date", t.StringType(), nullable=False),
    ]
)


class Table:
    """One archive. There is one writer at a time; readers come and go."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.files = Files(spark, root)

    # -- reading ---------------------------------------------------------------------------------------------------
    def load(self) -> Archive:
        """What has been committed."""
        names = self.files.names(manifest.COMMITS)
        numbered = ((manifest.commit_number(name), name) for name in names)
        return Archive.of(
            (number, manifest.decode(name, self.files.read(f"{manifest.COMMITS}/{name}")))
            for number, name in numbered
            if number is not None
        )

    def load_existing(self) -> Archive:
        if not self.files.exists(manifest.COMMITS):
            raise ArchiveError(f"{self.files.root} is not an archive: it has no {manifest.COMMITS}")
        return self.load()

    def read(self, files: Iterable[DataFile]) -> DataFrame:
        """The records of some of its files."""
        paths = [self.files.full(each.path) for each in files]
        if not paths:
            return self._spark.createDataFrame([], SCHEMA)
        base = self.files.full(manifest.RECORDS)
        return self._spark.read.schema(SCHEMA).option("basePath", base).parquet(*paths)

    # -- writing ---------------------------------------------------------------------------------------------------
    def stage(self, records: DataFrame, number: int) -> list[DataFile]:
        """Write records to where nobody looks, and move the files to their places. They count when `commit` names them."""
        staging = f"{manifest.STAGING}/{number}"
        self.files.delete(staging)  # of an attempt that died
        ordered = records.sortWithinPartitions("topic", "date", "partition", "offset")
        ordered.write.partitionBy("topic", "date").parquet(self.files.full(staging))
        found = self._describe(staging)
        for index, (path, each) in enumerate(sorted(found.items())):
            target = f"{manifest.RECORDS}/topic={each.topic}/date={each.date}/{number:020}-{index:05}.parquet"
            self.files.delete(target)
            self.files.move(f"{staging}/{path}", target)
            found[path] = DataFile(
                path=target, topic=each.topic, date=each.date, rows=each.rows, bytes=each.bytes, spans=each.spans
            )
        self.files.delete(staging)
        return list(found.values())

    def commit(self, number: int, commit: Commit) -> None:
        """From here on the archive has it."""
        self.files.create(f"{manifest.COMMITS}/{manifest.commit_name(number)}", commit.encode())

    def _describe(self, directory: str) -> dict[str, DataFile]:
        """What was written below a directory, by the files' paths within it."""
        sizes = {each.path: each.size for each in self.files.walk(directory) if each.path.endswith(".parquet")}
        if not sizes:
            return {}
        at = self.files.full(directory)
        rows = (
            self._spark.read.schema(SCHEMA)
            .parquet(at)
            .groupBy(f.input_file_name().alias("file"), "topic", "date", "partition")
            .agg(f.count("*").alias("rows"), f.min("offset").alias("first"), f.max("offset").alias("last"))
            .collect()
        )
        counted: dict[str, list[t.Row]] = defaultdict(list)
        for row in rows:
            path = _within(row["file"], at)
            counted[path].append(row)
        return {path: _data_file(path, sizes[path], found) for path, found in counted.items()}


def _data_file(path: str, size: int, rows: Sequence[t.Row]) -> DataFile:
    return DataFile(
        path=path,
        topic=rows[0]["topic"],
        date=rows[0]["date"],
        rows=sum(row["rows"] for row in rows),
        bytes=size,
        spans={row["partition"]: Span(row["first"], row["last"] + 1) for row in rows},
    )


def _within(file: str, directory: str) -> str:
    """Spark writes `file:///a` where Hadoop writes `file:/a`."""
    return file.replace(":///", ":/").removeprefix(directory.replace(":///", ":/")).lstrip("/")


def with_date(records: DataFrame) -> DataFrame:
    """Rows of Spark's Kafka source as the archive has them."""
    dated = records.withColumn("date", f.date_format("timestamp", "yyyy-MM-dd"))
    return dated.select(*SCHEMA.fieldNames())


def new_to(archive: Archive, records: DataFrame) -> DataFrame:
    """Those of the records that are not archived yet."""
    ends = [(topic, partition, archive.end_of((topic, partition))) for topic, partition in archive.covered]
    if not ends:
        return records
    conditions = f.lit(False)
    for topic, partition, end in ends:
        here = (f.col("topic") == topic) & (f.col("partition") == partition)
        conditions = conditions | (here & (f.col("offset") < f.lit(end)))
    return records.where(~conditions)


def covered_by(archive: Archive, files: Iterable[DataFile], *, may_have_gaps: bool) -> Mapping[Place, Span]:
    """The offsets that are archived with these files: from where the archive ended, for what lies between has no records.

    Where records may have been lost, only from the first one that is there.
    """
    spans: dict[Place, Span] = {}
    for each in files:
        for partition, span in each.spans.items():
            place = (each.topic, partition)
            known = spans.get(place, span)
            spans[place] = Span(min(known.start, span.start), max(known.end, span.end))
    if may_have_gaps:
        return spans
    return {place: Span(_or(archive.end_of(place), span.start), span.end) for place, span in spans.items()}


def _or(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given
