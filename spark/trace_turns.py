"""Takes batches of events of traces into tables, each of them once.

    OUT/steps/turn=N      every event, with the stage that it ends and how long that took
    OUT/minutes/turn=N    the numbers of each minute, by topic and group, written when the minute is over
    OUT/bad/turn=N        records that are no events, and why
    OUT/late/turn=N       events that came after the watermark
    OUT/_open/…/turn=N    what the next turn needs: events of unfinished records, steps of unfinished minutes
    OUT/_turns/N.json     turn N is done: its watermark, and what it counted

The watermark is the time of the newest event, less the delay that is allowed. Events wait until it has passed them, and then
are told in the order of their times, whatever order they came in. An event that comes when the watermark has passed its time is
late: steps after it may have been told, so it is put aside and counted. A minute is over when the watermark has passed its end.

Spark's own watermarks are not used: they drop what is late without a trace, and two stateful operators, of which one pairs
events, cannot follow each other. A turn is a batch of the stream and has its number, so that one that died is done again over its
own half. The state is as large as what is unfinished, plus what happened lately (`keep`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from spark import trace_frames as frames
from spark.files import Files
from spark.running import JobError

STEPS, MINUTES, BAD, LATE = "steps", "minutes", "bad", "late"
OPEN_EVENTS, OPEN_STEPS, TURNS = "_open/events", "_open/steps", "_turns"
CHECKPOINT = "_checkpoint"
_DIGITS = 20
_KEPT = 2  # the states of so many turns: the last one may have to be done again


Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    delay: int  # ms that an event may come later than a younger one
    stuck: int  # ms without an event after which an unfinished record is stuck
    keep: int  # ms that a finished record is remembered: its next delivery may come
    window: int  # seconds: a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn left behind, and all before it: the counts are of all turns together."""

    newest: int = 0  # time of the newest event so far
    watermark: int = 0
    steps: int = 0
    bad: int = 0
    late: int = 0


class Turns:
    """What is in the directory. There is one writer at a time."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self.spark = spark
        self.files = Files(spark, out)

    def numbers(self) -> list[int]:
        """Of the turns that are known to be done: the last ones."""
        names = self.files.names(TURNS)
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def load(self, number: int) -> Turn:
        return Turn(**json.loads(self.files.read(_name(number))))

    def so_far(self) -> Turn:
        numbers = self.numbers()
        return self.load(numbers[-1]) if numbers else Turn()

    def read(self, table: str, number: int | None, schema: t.StructType) -> DataFrame:
        if number is None:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(self.files.full(_part(table, number)))

    def write(self, table: str, number: int, rows: DataFrame) -> None:
        rows.write.mode("overwrite").parquet(self.files.full(_part(table, number)))

    def write_any(self, table: str, number: int, rows: DataFrame) -> int:
        """How many there are; nothing is written where there are none."""
        count = rows.count()
        if count:
            self.write(table, number, rows)
        return count

    def done(self, number: int, turn: Turn) -> None:
        """From here on it counts, and what is known of turns that will not be done again is forgotten."""
        self.files.create(_name(number), json.dumps(asdict(turn)).encode())
        for old in self.numbers()[:-_KEPT]:
            for path in (_part(OPEN_EVENTS, old), _part(OPEN_STEPS, old), _name(old)):
                self.files.delete(path)


class Taking:
    """Takes the batches of a stream."""

    def __init__(self, turns: Turns, limits: Limits, publish: Callable[[DataFrame], None]) -> None:
        """`publish`: what else is done with the numbers of minutes; more than once where a turn has to be done again."""
        self._turns = turns
        self._limits = limits
        self._publish = publish
        if turns.numbers() and not turns.files.exists(CHECKPOINT):
            raise JobError(f"{turns.files.root} has tables and no {CHECKPOINT}: what is in them cannot be told")

    def take(self, parsed: DataFrame, batch: int) -> Turn:
        """One that was done before is left as it is."""
        return self._turn(2 * batch, parsed, is_last=False)

    def close(self) -> Turn | None:
        """Tell also what is younger than the watermark: nothing more is waited for."""
        numbers = self._turns.numbers()
        if not numbers or numbers[-1] % 2:
            return None
        return self._turn(numbers[-1] + 1, None, is_last=True)

    def _turn(self, number: int, parsed: DataFrame | None, *, is_last: bool) -> Turn:
        done = self._turns.numbers()
        if number in done:
            return self._turns.load(number)
        previous = max((each for each in done if each < number), default=None)
        before = self._turns.load(previous) if previous is not None else Turn()
        with _kept() as keep:
            events, new = self._take_in(number, keep(parsed) if parsed is not None else None, before)
            newest = max(before.newest, new.newest)
            watermark = max(before.watermark, newest + 1 if is_last else newest - self._limits.delay)
            everything = self._turns.read(OPEN_EVENTS, previous, frames.EVENTS).unionByName(events)
            everything = keep(everything.repartition(*frames.STORY))  # what follows is about single records
            steps = self._tell(number, previous, everything, watermark, keep)
        counts = {"steps": before.steps + steps, "bad": before.bad + new.bad, "late": before.late + new.late}
        turn = Turn(newest=newest, watermark=watermark, **counts)
        self._turns.done(number, turn)
        return turn

    def _take_in(self, number: int, parsed: DataFrame | None, before: Turn) -> tuple[DataFrame, Turn]:
        """The new events, and what came with them: records that are no events and events that are late are put aside."""
        if parsed is None:
            return self._turns.read(OPEN_EVENTS, None, frames.EVENTS), Turn()
        events = frames.good(parsed)
        is_late = f.col("at") < before.watermark
        late = events.where(is_late).drop("told")
        [(bad_count, late_count, newest)] = frames.seen(parsed, before.watermark).collect()
        for table, count, rows in ((BAD, bad_count, frames.bad(parsed)), (LATE, late_count, late)):
            if count:
                self._turns.write(table, number, rows)
        return events.where(~is_late), Turn(newest=newest or 0, bad=bad_count, late=late_count)

    def _tell(self, number: int, previous: int | None, events: DataFrame, watermark: int, keep: Keep) -> int:
        """Write the steps that the watermark has passed, the minutes that are over with it, and what stays open."""
        limits, is_passed = self._limits, f.col("at") < watermark
        stuck = keep(frames.stuck(events.where(is_passed), watermark, limits.stuck))
        due = frames.with_stages(events).where(~f.col("told") & is_passed)
        ends_none = {"stage": f.lit(None).cast("string"), "millis": f.lit(None).cast("long")}
        steps = keep(due.unionByName(stuck.withColumns(ends_none)).select(*frames.STEPS.fieldNames()))
        count = self._turns.write_any(STEPS, number, steps.withColumn("at", f.timestamp_millis("at")))
        self._tell_minutes(number, previous, steps, watermark, keep)
        passed = events.withColumn("told", is_passed).unionByName(stuck)
        self._turns.write(OPEN_EVENTS, number, frames.still_open(passed, watermark, limits.keep))
        return count

    def _tell_minutes(self, number: int, previous: int | None, steps: DataFrame, watermark: int, keep: Keep) -> None:
        rows = self._turns.read(OPEN_STEPS, previous, frames.STEPS).unionByName(steps)
        rows = frames.with_window(rows, self._limits.window)
        end = f.unix_millis("minute") + self._limits.window * 1000
        rows = keep(rows.withColumn("_over", end <= watermark))
        if not rows.where("_over").isEmpty():
            minutes = keep(frames.numbers(rows.where("_over"), "minute", "topic", "group").coalesce(1))
            self._turns.write(MINUTES, number, minutes)
            self._publish(minutes)
        self._turns.write(OPEN_STEPS, number, rows.where("not _over").drop("minute", "_over"))


def _part(table: str, number: int) -> str:
    return f"{table}/turn={number}"


def _name(number: int) -> str:
    return f"{TURNS}/{number:0{_DIGITS}}.json"


@contextmanager
def _kept() -> Iterator[Keep]:
    """Frames that are used more than once, until the end of a turn."""
    frames_kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        frames_kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    try:
        yield keep
    finally:
        for frame in frames_kept:
            frame.unpersist()
