"""Events of traces as frames: what they tell of stages, what is unfinished, and the numbers of each minute. Pure.

A frame of events has the fields of docs/traces.md as columns; `at` is the event's time in milliseconds, `seq` its offset in the
topic of traces, and `told` says that its step has been written already. A step is an event with the stage that it ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.window import WindowSpec

from kompat.extensions.tracing.events import RANKS, Kind

_TEXT, _LONG, _INT = t.StringType(), t.LongType(), t.IntegerType()
_REQUIRED = {
    "event": _TEXT,
    "timestamp": _LONG,
    "trace_id": _TEXT,
    "record": _TEXT,
    "topic": _TEXT,
    "partition": _INT,
    "offset": _LONG,
}
_OPTIONAL = {
    "message_id": _TEXT,
    "client_id": _TEXT,
    "group": _TEXT,
    "member_id": _TEXT,
    "delivery_count": _INT,
    "due": _LONG,
    "reason": _TEXT,
    "to_topic": _TEXT,
    "to_partition": _INT,
    "to_offset": _LONG,
}
_FIELDS = {name: kind for name, kind in {**_REQUIRED, **_OPTIONAL}.items() if name not in ("event", "timestamp")}


def _schema(columns: Mapping[str, t.DataType]) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


_JSON = _schema({**_REQUIRED, **_OPTIONAL})
EVENTS = _schema({"at": _LONG, "event": _TEXT, **_FIELDS, "seq": _LONG, "told": t.BooleanType()})
STEPS = _schema({"at": _LONG, "event": _TEXT, "stage": _TEXT, "millis": _LONG, **_FIELDS})
STUCK = "STUCK"  # an event of ours: too long nothing has happened to a record that is not finished
STORY = ("trace_id", "record")
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000  # of a percentile: its rank is off by one in this many, at most
_FUTURE_MS = 3_600_000  # a clock may be wrong by this


# -- reading -----------------------------------------------------------------------------------------------------------
def parse(records: DataFrame, now: int) -> DataFrame:
    """Rows of the topic of traces, with `found`, what they say, and `problem`, why they are no events; null where they are."""
    text = f.col("value").cast("string")
    parsed = records.withColumn("found", f.from_json(text, _JSON))
    missing = f.concat_ws(", ", *(f.when(f.col(f"found.{name}").isNull(), f.lit(name)) for name in _REQUIRED))
    # One event from far ahead would make all others late.
    is_ahead = f.col("found.timestamp") > now + _FUTURE_MS
    problem = (
        f.when(f.col("value").isNull(), "there is no value")
        .when(f.get_json_object(text, "$").isNull(), "it is not JSON")
        .when(missing != "", f.concat(f.lit("it does not tell, or not as it should: "), missing))
        .when(is_ahead, "its time is in the future")
    )
    return parsed.withColumn("problem", problem)


def good(parsed: DataFrame) -> DataFrame:
    """The events among them."""
    rows = parsed.where(f.col("problem").isNull()).select("found.*", f.col("offset").alias("seq"))
    return rows.withColumn("at", f.col("timestamp")).withColumn("told", f.lit(False)).select(*EVENTS.fieldNames())


def bad(parsed: DataFrame) -> DataFrame:
    """The others, as they are."""
    return parsed.where(f.col("problem").isNotNull()).select(
        "partition", "offset", "timestamp", "key", "value", "problem"
    )


def seen(parsed: DataFrame, watermark: int) -> DataFrame:
    """One row: how many are no events, how many are late, and the time of the newest."""
    at = f.when(f.col("problem").isNull(), f.col("found.timestamp"))
    return parsed.agg(f.count("problem"), f.count(f.when(at < watermark, 1)), f.max(at))


# -- stages ------------------------------------------------------------------------------------------------------------
_BEGINNINGS = (Kind.PRODUCED, Kind.REPLICATED, Kind.PARKED, Kind.FIRED)
_IN_LOG = (Kind.REPLICATED, Kind.FIRED)
_HANDED_OUT = (Kind.DELIVERED, Kind.REDELIVERED)
_GIVEN_BACK = (Kind.RELEASED, Kind.LOCK_EXPIRED)
_ARRIVED = "ARRIVED"  # a row of ours: a record was moved to this topic

# Which events end a stage, what it is called, and which column below tells when it began.
_STAGES: tuple[tuple[tuple[Kind, ...], str, str], ...] = (
    ((Kind.REPLICATED,), "publish", "_produced"),
    ((Kind.FIRED, Kind.CANCELLED), "park", "_parked"),
    ((Kind.DELIVERED,), "wait", "_arrived"),
    ((Kind.REDELIVERED,), "wait", "_returned"),
    ((Kind.ACKNOWLEDGED, Kind.RELEASED, Kind.REJECTED, Kind.LOCK_EXPIRED), "process", "_held"),
    ((Kind.DEAD_LETTERED,), "dead letter", "_failed"),
    ((Kind.COMMITTED_PAST,), "commit", "_fetched"),
    ((Kind.EXPIRED,), "expire", "_arrived"),
)


def with_stages(events: DataFrame) -> DataFrame:
    """Each event with the `stage` that it ends and how many `millis` that took; null where its begin is not known."""
    # A row more for the topic that a record was moved to; not by a union, so that what lies together stays together.
    copies = f.when(f.col("to_topic").isNotNull(), f.array(f.lit(False), f.lit(True))).otherwise(f.array(f.lit(False)))
    rows = events.withColumn("_copy", f.explode(copies))
    rows = rows.withColumns(
        {
            "topic": f.when(f.col("_copy"), f.col("to_topic")).otherwise(f.col("topic")),
            "group": f.when(~f.col("_copy"), f.col("group")),
            "event": f.when(f.col("_copy"), _ARRIVED).otherwise(f.col("event")),
        }
    ).withColumn("_order", _order())
    of_topic = _until_now("topic")
    of_group = _until_now("topic", "group")
    begins = {
        "_produced": (_is(Kind.PRODUCED), of_topic),
        "_parked": (_is(Kind.PARKED), of_topic),
        "_arrived": (_is(*_IN_LOG, _ARRIVED), of_topic),
        "_fetched": (_is(Kind.DELIVERED) & f.col("group").isNull(), of_topic),
        "_held": (_is(*_HANDED_OUT), of_group),
        "_returned": (_is(*_GIVEN_BACK), of_group),
        "_failed": (_is(Kind.REJECTED, *_GIVEN_BACK), of_group),
    }
    rows = rows.withColumns(
        {
            name: f.last(f.when(condition, f.col("at")), ignorenulls=True).over(window)
            for name, (condition, window) in begins.items()
        }
    )
    stage, began = f.lit(None).cast("string"), f.lit(None).cast("long")
    for kinds, name, since in _STAGES:
        stage = f.when(_is(*kinds), name).otherwise(stage)
        began = f.when(_is(*kinds), f.col(since)).otherwise(began)
    rows = rows.where(f.col("event") != _ARRIVED).withColumn("stage", stage).withColumn("millis", f.col("at") - began)
    return rows.select(*EVENTS.fieldNames(), "stage", "millis")


def _order() -> Column:
    """By time. In one millisecond, what a record begins with comes first, and the rest as it was written."""
    place = f.concat_ws("/", "topic", "partition", "offset")
    rank = f.lit(len(RANKS))
    for kind in _BEGINNINGS:
        rank = f.when(_is(kind) & (f.col("record") == place), RANKS[kind]).otherwise(rank)
    return f.struct("at", rank.alias("rank"), "seq")


def _until_now(*more: str) -> WindowSpec:
    window = Window.partitionBy(*STORY, *more).orderBy("_order")
    return window.rowsBetween(Window.unboundedPreceding, -1)


def _is(*events: str) -> Column:
    return f.col("event").isin(*(str(each) for each in events))


# -- what is unfinished ------------------------------------------------------------------------------------------------
def unfinished(events: DataFrame) -> DataFrame:
    """Records that wait for something to happen to them: parked, with a member of a group, or given back by one.

    `since` is from when on they wait: a parked record does so from when it is due. One that was told to be stuck is left out.
    """
    state = (
        f.when(_is(Kind.PARKED), "parked")
        .when(_is(*_HANDED_OUT), "delivered")
        .when(_is(*_GIVEN_BACK), "released")
        .otherwise(f.lit(None).cast("string"))
    )
    is_parked = _is(Kind.PARKED, Kind.FIRED, Kind.CANCELLED) | (_is(STUCK) & (f.col("reason") == "parked"))
    # Plain consumers do not say when they are done.
    rows = events.withColumn("_parked", is_parked).where(f.col("_parked") | f.col("group").isNotNull())
    last = f.max_by(f.struct(*EVENTS.fieldNames()), _order())
    latest = rows.groupBy(*STORY, "topic", "group", "_parked").agg(last.alias("last")).select("last.*")
    waiting = latest.withColumn("state", state).where(f.col("state").isNotNull())
    return waiting.withColumn("since", f.greatest("at", f.coalesce("due", "at")))


def stuck(events: DataFrame, watermark: int, limit: int) -> DataFrame:
    """Events that tell of records for which nothing has happened for `limit` milliseconds, though they are not finished."""
    late = unfinished(events).where(f.col("since") + limit < watermark)
    rows = late.withColumn("at", f.col("since") + limit).withColumn("event", f.lit(STUCK))
    return rows.withColumn("reason", f.col("state")).withColumn("told", f.lit(True)).select(*EVENTS.fieldNames())


def still_open(events: DataFrame, watermark: int, keep: int) -> DataFrame:
    """Events of the records of which more is to be told: the young ones, and those that are not finished."""
    waiting = unfinished(events).select(*STORY)
    young = events.where(f.col("at") >= watermark - keep).select(*STORY)
    return events.join(waiting.union(young), list(STORY), "left_semi").select(*EVENTS.fieldNames())


# -- numbers -----------------------------------------------------------------------------------------------------------
def with_window(steps: DataFrame, seconds: int) -> DataFrame:
    """With the begin of the minute, or other time, that they happened in."""
    length = seconds * 1000
    return steps.withColumn("minute", f.timestamp_millis(f.floor(f.col("at") / length) * length))


def numbers(steps: DataFrame, *keys: str) -> DataFrame:
    """What happened how often, and how long stages took, by some columns."""
    counted = {name.lower(): name for name in (*(kind.value for kind in Kind), STUCK)}
    of_stage = steps.groupBy(*keys, "stage").agg(
        *(f.count(f.when(f.col("event") == event, 1)).alias(name) for name, event in counted.items()),
        f.count("millis").alias("count"),
        f.count(f.when(f.col("stage").isNotNull() & f.col("millis").isNull(), 1)).alias("unmatched"),
        f.percentile_approx("millis", list(_PERCENTILES.values()), _ACCURACY).alias("_percentiles"),
        f.max("millis").alias("max"),
    )
    percentiles = (f.col("_percentiles")[index].alias(name) for index, name in enumerate(_PERCENTILES))
    times = f.struct("count", *percentiles, "max")
    entry = f.when(f.col("count") > 0, f.struct("stage", times.alias("times")))
    made = of_stage.withColumn("_entry", entry).groupBy(*keys)
    found = made.agg(
        *(f.sum(name).alias(name) for name in (*counted, "unmatched")),
        f.map_from_entries(f.collect_list("_entry")).alias("stages"),
    )
    finished = f.col("acknowledged") + f.col("committed_past") + f.col("dead_lettered") + f.col("expired")
    rate = f.when(finished > 0, f.col("dead_lettered") / finished)
    return found.withColumn("dead_letter_rate", rate)
