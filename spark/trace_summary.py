"""The numbers of a report, out of the tables of traces."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from spark import trace_frames as frames
from spark.running import JobError
from spark.trace_report import COUNTS, Numbers, StuckRecord, Summary, Times
from spark.trace_turns import STEPS, Turns

MOST_STUCK = 100  # records that a report names


def summarize(spark: SparkSession, turns: Turns, start: int | None, end: int | None, window: int) -> Summary:
    """Of the steps from `start` on, up to `end`; the counts of what was put aside are of all time."""
    done_turns = turns.numbers()
    if not done_turns or not turns.files.exists(STEPS):
        raise JobError(f"{turns.files.root} has no table of steps: `run` makes it")
    # One that died may have left a half behind, which counts when it has been done again.
    steps = spark.read.parquet(turns.files.full(STEPS)).where(f.col("turn") <= done_turns[-1])
    steps = steps.withColumn("at", f.unix_millis("at"))
    steps = steps.where(f.col("at") >= start) if start is not None else steps
    steps = steps.where(f.col("at") < end) if end is not None else steps
    steps = frames.with_window(steps, window).persist()
    done, stuck = turns.so_far(), still_stuck(steps).orderBy(f.desc("at")).persist()
    summary = Summary(
        steps=steps.count(),
        bad=done.bad,
        late=done.late,
        newest=done.newest,
        window=window,
        totals=_collect(frames.numbers(steps, "topic", "group")),
        minutes=_collect(frames.numbers(steps, "minute", "topic", "group")),
        stuck=[_stuck(row) for row in stuck.limit(MOST_STUCK).collect()],
        stuck_count=stuck.count(),
    )
    steps.unpersist()
    stuck.unpersist()
    return summary


def still_stuck(steps: DataFrame) -> DataFrame:
    """Steps that tell of a stuck record, where nothing has happened to it since, in its group."""
    of_record = Window.partitionBy(*frames.STORY, "topic", "group")
    last = steps.withColumn("_last", f.max("at").over(of_record))
    return last.where((f.col("event") == frames.STUCK) & (f.col("at") == f.col("_last"))).drop("_last")


def _collect(numbers: DataFrame) -> list[Numbers]:
    found = [_numbers(row.asDict(recursive=True)) for row in numbers.collect()]
    return sorted(found, key=lambda each: (each.topic, each.group or "", each.minute or 0))


def _numbers(row: dict[str, Any]) -> Numbers:
    minute = row.get("minute")
    return Numbers(
        topic=row["topic"],
        group=row["group"],
        minute=None if minute is None else round(minute.timestamp() * 1000),
        counts={name: row[name] for name in COUNTS},
        unmatched=row["unmatched"],
        dead_letter_rate=row["dead_letter_rate"],
        stages={stage: Times(**times) for stage, times in row["stages"].items()},
    )


def _stuck(row: Any) -> StuckRecord:
    return StuckRecord(row["topic"], row["group"], row["reason"], row["record"], row["trace_id"], row["at"])
