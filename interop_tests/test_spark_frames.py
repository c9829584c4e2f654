"""What jobs on Spark do to frames, on small ones, with numbers that were computed by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from interop_tests.support.sparks import for_few_rows
from kompat.extensions.dead_letters.redrive import Marks, read_dead_letter
from kompat.protocol.records import Record
from spark import letter_frames as letters
from spark import trace_frames as frames
from spark.trace_summary import still_stuck, summarize
from spark.trace_turns import BAD, LATE, MINUTES, STEPS, Limits, Taking, Turns

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("small"),
]
NOW = 1_800_000_000_000  # the begin of a minute
START = NOW - 600_000

Event = dict[str, Any]


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[None]:
    with for_few_rows(spark):
        yield


def event(kind: str, at: int, number: int = 0, topic: str = "orders", **more: object) -> Event:
    """`at`: milliseconds after the start. `number`: which record."""
    place = {"topic": topic, "partition": 0, "offset": number}
    return (
        {"event": kind, "timestamp": START + at, "trace_id": f"{number:032x}", "record": f"orders/0/{number}"}
        | place
        | more
    )


def source(
    spark: SparkSession, values: Sequence[Event | bytes | None] | Sequence[Event] | Sequence[Event | bytes]
) -> DataFrame:
    """As the topic of traces has them."""
    rows = [
        (0, offset, None, json.dumps(value).encode() if isinstance(value, dict) else value)
        for offset, value in enumerate(values)
    ]
    frame = spark.createDataFrame(rows, "partition int, offset long, key binary, value binary")
    return frame.withColumn("timestamp", f.timestamp_millis(f.lit(NOW)))


def events(spark: SparkSession, *given: Event) -> DataFrame:
    return frames.good(frames.parse(source(spark, given), NOW))


DELAYED = [
    event("PRODUCED", 0, client_id="shop"),
    event("REPLICATED", 2),
    event("PARKED", 2, due=START + 1000),
    event("FIRED", 1005, due=START + 1000, to_topic="orders", to_partition=0, to_offset=7),
    event("DELIVERED", 1015, group="workers", member_id="m", delivery_count=1),
    event("RELEASED", 1065, group="workers", member_id="m"),
    event("REDELIVERED", 1165, group="workers", member_id="n", delivery_count=2),
    event("REJECTED", 1195, group="workers", member_id="n"),
    event(
        "DEAD_LETTERED", 1200, group="workers", reason="rejected", to_topic="dlq.orders", to_partition=0, to_offset=3
    ),
    event("DELIVERED", 1500, topic="dlq.orders", client_id="kcat"),
    event("COMMITTED_PAST", 1600, topic="dlq.orders", group="morgue"),
    event("PRODUCED", 3000, topic="dlq.orders", reason="redriven", to_topic="orders", to_partition=0, to_offset=9),
    event("DELIVERED", 3040, group="workers", member_id="n", delivery_count=1),
    event("ACKNOWLEDGED", 3100, group="workers", member_id="n"),
]
# By hand: which stage each of these events ends, and how long that took.
DELAYED_STAGES = [
    ("PRODUCED", None, None),
    ("REPLICATED", "publish", 2),
    ("PARKED", None, None),
    ("FIRED", "park", 1003),
    ("DELIVERED", "wait", 10),
    ("RELEASED", "process", 50),
    ("REDELIVERED", "wait", 100),
    ("REJECTED", "process", 30),
    ("DEAD_LETTERED", "dead letter", 5),
    ("DELIVERED", "wait", 300),
    ("COMMITTED_PAST", "commit", 100),
    ("PRODUCED", None, None),
    ("DELIVERED", "wait", 40),
    ("ACKNOWLEDGED", "process", 60),
]


def test_each_event_ends_the_stage_that_began_with_the_right_one_before_it(spark: SparkSession) -> None:
    told = frames.with_stages(events(spark, *reversed(DELAYED))).orderBy("at", f.desc("seq")).collect()

    assert [(row["event"], row["stage"], row["millis"]) for row in told] == DELAYED_STAGES


def test_groups_do_not_end_each_others_stages(spark: SparkSession) -> None:
    frame = events(
        spark,
        event("REPLICATED", 0),
        event("DELIVERED", 10, group="a"),
        event("DELIVERED", 30, group="b"),
        event("ACKNOWLEDGED", 50, group="a"),
        event("ACKNOWLEDGED", 90, group="b"),
        event("ACKNOWLEDGED", 95, group="c"),  # its delivery was not told
    )

    told = frames.with_stages(frame).where("group is not null").orderBy("at").collect()

    assert [(row["group"], row["stage"], row["millis"]) for row in told] == [
        ("a", "wait", 10),
        ("b", "wait", 30),
        ("a", "process", 40),
        ("b", "process", 60),
        ("c", "process", None),
    ]


def test_what_is_no_event_is_told_with_the_reason(spark: SparkSession) -> None:
    lacking = event("PRODUCED", 0)
    del lacking["trace_id"], lacking["offset"]
    ahead = event("PRODUCED", 0) | {"timestamp": NOW + 7_200_000}
    wrong = event("PRODUCED", 0) | {"timestamp": "yesterday"}
    parsed = frames.parse(source(spark, [event("PRODUCED", 0), b"\xff{", None, lacking, ahead, wrong]), NOW)

    problems = {row["offset"]: row["problem"] for row in frames.bad(parsed).collect()}

    assert problems == {
        1: "it is not JSON",
        2: "there is no value",
        3: "it does not tell, or not as it should: trace_id, offset",
        4: "its time is in the future",
        5: "it does not tell, or not as it should: timestamp",
    }
    assert frames.good(parsed).count() == 1


def test_unfinished_records_are_stuck_after_a_while_and_told_once(spark: SparkSession) -> None:
    frame = events(
        spark,
        event("DELIVERED", 0, number=1, group="g"),  # held too long
        event("PARKED", 0, number=2, due=START + 5000),  # due, and not delivered
        event("PARKED", 0, number=3, due=START + 500_000),  # has time
        event("DELIVERED", 0, number=4, group="g"),
        event("ACKNOWLEDGED", 10, number=4, group="g"),  # done
        event("DELIVERED", 0, number=5),  # by a plain consumer, who does not say when it is done
        event("LOCK_EXPIRED", 100, number=6, group="g"),
    )
    watermark = START + 7000

    found = frames.stuck(frame, watermark, 1000)

    told = sorted((row["record"], row["reason"], row["at"] - START) for row in found.collect())
    assert told == [("orders/0/1", "delivered", 1000), ("orders/0/2", "parked", 6000), ("orders/0/6", "released", 1100)]
    everything = frame.unionByName(found)
    assert frames.stuck(everything, watermark + 60_000, 1000).isEmpty()
    assert still_stuck(everything).count() == 3
    freed = everything.unionByName(events(spark, event("ACKNOWLEDGED", 9000, number=1, group="g")))
    assert still_stuck(freed).count() == 2


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that so many of all are not above."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def test_the_numbers_of_a_minute(spark: SparkSession) -> None:
    waits = [(number * 37) % 101 for number in range(200)]
    given: list[Event] = []
    for number, wait in enumerate(waits):
        given += [event("REPLICATED", 100, number), event("DELIVERED", 100 + wait, number, group="g")]
        ends = "DEAD_LETTERED" if number % 10 == 0 else "ACKNOWLEDGED"
        given.append(event(ends, 300, number, group="g"))
    given.append(event("REDELIVERED", 61_000, number=999, group="g"))

    steps = frames.with_window(frames.with_stages(events(spark, *given)), 60)
    found = frames.numbers(steps, "minute", "topic", "group").orderBy("minute", "group").collect()

    assert [(row["minute"].timestamp() * 1000 - START, row["group"]) for row in found] == [
        (0, None),
        (0, "g"),
        (60_000, "g"),
    ]
    row = found[1].asDict(recursive=True)
    assert (row["delivered"], row["acknowledged"], row["dead_lettered"], row["redelivered"]) == (200, 180, 20, 0)
    assert row["dead_letter_rate"] == 0.1
    assert row["stages"]["wait"] == {
        "count": 200,
        **{name: percentile(waits, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        "max": max(waits),
    }
    assert (found[2]["redelivered"], found[2]["unmatched"], found[2]["stages"]) == (1, 1, {})


# -- turns -------------------------------------------------------------------------------------------------------------
LIMITS = Limits(delay=1000, stuck=60_000, keep=10_000, window=60)


@pytest.fixture
def turns(spark: SparkSession, tmp_path: Path) -> Turns:
    (tmp_path / "_checkpoint").mkdir()
    return Turns(spark, str(tmp_path))


def table(turns: Turns, name: str) -> DataFrame:
    return turns.spark.read.parquet(turns.files.full(name))


def test_events_in_any_order_within_the_delay_are_told_as_if_in_order_and_each_once(turns: Turns) -> None:
    published: list[tuple[object, ...]] = []
    taking = Taking(
        turns,
        LIMITS,
        lambda minutes: published.extend(map(tuple, minutes.select("minute", "topic", "group").collect())),
    )
    spark = turns.spark
    # Less than the delay apart, they come in the wrong order, and in different batches.
    late = event("DELIVERED", 3, group="late")
    orders = [(1, 2), (0, 4, 3, 6), (5, 8, 7, 9, 11, 10, 13, 12)]
    batches: list[list[Event | bytes]] = [[DELAYED[index] for index in order] for order in orders]
    batches[2] += [late, b"nothing"]
    for number, batch in enumerate(batches):
        done = taking.take(frames.parse(source(spark, batch), NOW), number)
    assert taking.take(frames.parse(source(spark, []), NOW), 2) == done  # a batch that was done is not done again

    last = taking.close()

    assert last is not None
    assert (last.steps, last.bad, last.late) == (len(DELAYED), 1, 1)
    told = table(turns, STEPS).orderBy("at", "turn").collect()
    found = sorted((row["at"].timestamp(), row["event"], row["stage"], row["millis"]) for row in told)
    assert [each[1:] for each in found] == [
        each[1:]
        for each in sorted(
            ((raw["timestamp"] / 1000, *stage) for raw, stage in zip(DELAYED, DELAYED_STAGES, strict=True))
        )
    ]
    assert table(turns, LATE).collect()[0]["group"] == "late"
    assert table(turns, BAD).collect()[0]["problem"] == "it is not JSON"
    assert published == []
    # The minute is over when the watermark says so, and then told once.
    taking.take(frames.parse(source(spark, [event("PRODUCED", 61_000, 50), event("PRODUCED", 200_000, 51)]), NOW), 9)
    minutes = table(turns, MINUTES).collect()
    assert sorted(
        (row["topic"], row["group"] or "") for row in minutes if row["minute"].timestamp() * 1000 == START
    ) == [
        ("dlq.orders", ""),
        ("dlq.orders", "morgue"),
        ("orders", ""),
        ("orders", "workers"),
    ]
    assert sorted(map(str, published)) == sorted(str((row["minute"], row["topic"], row["group"])) for row in minutes)


def test_state_is_kept_of_what_is_unfinished_and_of_nothing_else(turns: Turns) -> None:
    taking, spark = Taking(turns, LIMITS, lambda _: None), turns.spark
    first = [
        *(event(kind, at, 1, group="g") for kind, at in (("DELIVERED", 0), ("ACKNOWLEDGED", 5))),
        event("PARKED", 0, 2, due=START + 300_000),
        event("DELIVERED", 0, 3, group="g"),
    ]
    for number, batch in enumerate([first, [event("PRODUCED", 50_000, 4)], [event("PRODUCED", 90_000, 5)]]):
        taking.take(frames.parse(source(spark, batch), NOW), number)
        if number == 1:
            assert kept(turns) == {"orders/0/2", "orders/0/3", "orders/0/4"}  # the first is done
    assert kept(turns) == {"orders/0/2", "orders/0/5"}  # the third is stuck, has been told, and is forgotten
    taking.take(frames.parse(source(spark, [event("FIRED", 300_010, 2, due=START + 300_000)]), NOW), 3)
    taking.close()

    turns.write(STEPS, 98, table(turns, STEPS).drop("turn"))  # of a turn that died

    summary = summarize(spark, turns, None, None, 60)

    [parked] = [each for each in summary.totals if each.group is None]
    assert (parked.stages["park"].count, parked.stages["park"].max) == (1, 300_010)
    assert [(each.record, each.state) for each in summary.stuck] == [("orders/0/3", "delivered")]


def kept(turns: Turns) -> set[str]:
    open_events = turns.read("_open/events", turns.numbers()[-1], frames.EVENTS)
    return {row["record"] for row in open_events.select("record").distinct().collect()}


# -- dead letters ------------------------------------------------------------------------------------------------------
def kafka_headers(offset: str, cause: str, group: str = "g", partition: str = "3") -> list[tuple[str, bytes]]:
    told = {"topic": "orders", "partition": partition, "offset": offset, "group": group, "delivery.count": "5"}
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in {**told, "message": cause}.items()]


def letter_rows(spark: SparkSession, *headers: Sequence[tuple[str, bytes | None]]) -> DataFrame:
    rows = [("dlq.orders", 0, offset, b"key", b"value %d" % offset, list(each)) for offset, each in enumerate(headers)]
    schema = "topic string, partition int, offset long, key binary, value binary, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, schema)
    return frame.withColumn("timestamp", f.timestamp_millis(f.lit(START) + f.col("offset") * 1000))


def test_letters_of_both_kinds_are_read_as_the_broker_reads_them(spark: SparkSession) -> None:
    both = [
        [*kafka_headers("1042", "rejected"), ("kompat-redrive-count", b"2")],
        [
            ("kafka_dlt-original-topic", b"orders"),
            ("kafka_dlt-original-partition", (7).to_bytes(4, "big")),
            ("kafka_dlt-original-offset", (2**40 + 5).to_bytes(8, "big")),
            ("kafka_dlt-original-consumer-group", b"spring"),
            ("kafka_dlt-exception-message", b"boom"),
        ],
        [],
        kafka_headers("not a number", "rejected"),
        kafka_headers("1", "rejected")[:-1],
        [("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-partition", b"7")],
        [("__dlq.errors.offset", b"0"), *kafka_headers("9", "later ones win")],
    ]
    found = letters.letters(letter_rows(spark, *both))

    origin = ("offset", "origin_topic", "origin_partition", "origin_offset", "group", "deliveries", "cause", "redrives")
    assert [tuple(row) for row in letters.good(found).select(*origin).orderBy("offset").collect()] == [
        (0, "orders", 3, 1042, "g", 5, "rejected", 2),
        (1, "orders", 7, 2**40 + 5, "spring", None, "boom", 0),
        (6, "orders", 3, 9, "g", 5, "later ones win", 0),
    ]
    assert [row["offset"] for row in letters.bad(found).orderBy("offset").collect()] == [2, 3, 4, 5]
    for row, record in zip(found.orderBy("offset").collect(), both, strict=True):
        broker_reads = read_dead_letter("dlq.orders", 0, Record(0, START, None, None, list(record)), Marks())
        assert (row["origin_topic"] is None) == (broker_reads.origin is None)


def test_letters_are_grouped_chosen_and_listed(spark: SparkSession) -> None:
    given = [kafka_headers(str(n), "too often" if n % 3 == 0 else "rejected", f"g{n % 2}") for n in range(8)]
    found = letters.good(letters.letters(letter_rows(spark, *given)))

    rejected, too_often = letters.grouped(found).collect()
    assert [(row["cause"], row["count"], row["groups"]) for row in (rejected, too_often)] == [
        ("rejected", 5, ["g0", "g1"]),
        ("too often", 3, ["g0", "g1"]),
    ]
    assert [each.timestamp() * 1000 - START for each in (too_often["first"], too_often["last"])] == [0, 6000]
    assert too_often["sample"].asDict() == {"partition": 0, "offset": 6, "key": "key", "value": "value 6"}
    wanted = letters.Wanted(cause="REJ", group="g1", start=START + 2000, end=START + 7000)
    listed = [json.loads(row["line"]) for row in letters.redrive_list(letters.select(found, wanted)).collect()]
    assert [(each["topic"], each["partition"], each["offset"]) for each in listed] == [("dlq.orders", 0, 5)]
    assert listed[0]["origin"] == {"topic": "orders", "partition": 3, "offset": 5, "group": "g1"}
