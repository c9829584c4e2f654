"""Spark's own Kafka connector, unmodified: batch and streaming reads and writes. Rows are compared with what was produced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from interop_tests.support.broker import AnyBroker
from interop_tests.support.sparks import Produced, Sender, Sent, place, rows, source, stream
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.transactions import transactional
from interop_tests.support.wait import until

# Spark's own: it leaves its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

PARTITIONS = 3
QUERY_SECONDS = 60
HOUR = 3_600_000


@pytest.fixture(scope="module")
def sender(bootstrap: str) -> Sender:
    return Sender(bootstrap)


class Known:
    """A topic, and what is in it."""

    def __init__(self, topics: Topics, sender: Sender, hint: str = "spark") -> None:
        self.topic = topics.create(hint, partitions=PARTITIONS)
        now = int(time.time() * 1000)
        self.records = sender.send(
            self.topic,
            (
                Sent(
                    None if number % 50 == 7 else b"value %d" % number,
                    None if number % 10 == 3 else b"key %d" % (number % 20),
                    number % PARTITIONS,
                    (("number", str(number).encode()), ("none", None)) if number % 4 == 0 else (),
                    now - HOUR + number * 1000,
                )
                for number in range(600)
            ),
        )

    def of(self, partition: int) -> list[Produced]:
        return [record for record in self.records if record.partition == partition]


@pytest.fixture(scope="module")
def known(topics: Topics, sender: Sender) -> Known:
    return Known(topics, sender)


# -- batch reads -------------------------------------------------------------------------------------------------------
def test_a_batch_read_gives_every_record_with_all_of_it(spark: SparkSession, bootstrap: str, known: Known) -> None:
    assert rows(source(spark, bootstrap, subscribe=known.topic)) == known.records


def test_a_pattern_finds_its_topics(spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender) -> None:
    hint = fresh_name("pattern")
    first, second = Known(topics, sender, f"{hint}-a"), Known(topics, sender, f"{hint}-b")

    found = rows(source(spark, bootstrap, subscribePattern=f"{hint}-.*"))

    assert found == sorted(first.records + second.records, key=place)


def test_assigned_partitions_are_read_and_no_others(spark: SparkSession, bootstrap: str, known: Known) -> None:
    found = rows(source(spark, bootstrap, assign={known.topic: [0, 2]}))

    assert found == known.of(0) + known.of(2)


def test_offsets_bound_a_read(spark: SparkSession, bootstrap: str, known: Known) -> None:
    found = rows(
        source(
            spark,
            bootstrap,
            subscribe=known.topic,
            startingOffsets={known.topic: {"0": 10, "1": -2, "2": 50}},
            endingOffsets={known.topic: {"0": 20, "1": 5, "2": -1}},
        )
    )

    assert found == known.of(0)[10:20] + known.of(1)[:5] + known.of(2)[50:]


def test_a_time_bounds_a_read(spark: SparkSession, bootstrap: str, known: Known) -> None:
    start, end = known.records[100].timestamp, known.records[150].timestamp

    found = rows(source(spark, bootstrap, subscribe=known.topic, startingTimestamp=start, endingTimestamp=end))

    assert found == [record for record in known.records if start <= record.timestamp < end]


def test_each_partition_may_have_its_own_time(spark: SparkSession, bootstrap: str, known: Known) -> None:
    starts = {str(index): known.of(index)[30 + index].timestamp for index in range(PARTITIONS)}

    found = rows(source(spark, bootstrap, subscribe=known.topic, startingOffsetsByTimestamp={known.topic: starts}))

    assert found == [record for index in range(PARTITIONS) for record in known.of(index)[30 + index :]]


def test_a_read_may_be_split_finer_than_the_topic(spark: SparkSession, bootstrap: str, known: Known) -> None:
    frame = source(spark, bootstrap, subscribe=known.topic, minPartitions=10)

    assert frame.rdd.getNumPartitions() > PARTITIONS  # about as many as asked for
    assert rows(frame) == known.records


def test_an_empty_topic_gives_no_rows(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    assert rows(source(spark, bootstrap, subscribe=topics.create("empty", partitions=2))) == []


def test_only_committed_records_are_read_where_that_is_wanted(
    spark: SparkSession, bootstrap: str, topics: Topics, streams: Streams
) -> None:
    topic = topics.create("transactions")
    writer = transactional(bootstrap, fresh_name("id"))
    for number, commits in enumerate((True, False, True, False)):
        writer.begin_transaction()
        writer.produce(topic, f"value {number}".encode(), partition=0)
        writer.flush()
        writer.commit_transaction() if commits else writer.abort_transaction()

    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}

    assert [record.value for record in rows(source(spark, bootstrap, **options))] == [b"value 0", b"value 2"]
    query = streams.collect(stream(spark, bootstrap, **options), "committed", availableNow=True)
    assert query.awaitTermination(QUERY_SECONDS)
    assert [record.value for record in streams.rows("committed")] == [b"value 0", b"value 2"]
    everything = source(spark, bootstrap, subscribe=topic)
    assert [record.value for record in rows(everything)] == [b"value 0", b"value 1", b"value 2", b"value 3"]


def test_deleted_records_are_no_loss_to_who_begins_after_them(
    spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender
) -> None:
    topic = topics.create("deleted")
    records = sender.send(topic, [Sent(b"%d" % number) for number in range(100)])
    topics.delete_records(topic, 0, before=40)

    assert rows(source(spark, bootstrap, subscribe=topic)) == records[40:]


def test_lost_records_fail_a_read_that_must_not_lose_any(
    spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender
) -> None:
    topic = topics.create("lost")
    records = sender.send(topic, [Sent(b"%d" % number) for number in range(100)])
    topics.delete_records(topic, 0, before=40)
    wanted = {"subscribe": topic, "startingOffsets": {topic: {"0": 10}}, "endingOffsets": {topic: {"0": 100}}}

    with pytest.raises(Exception, match=r"(?i)offset|data loss"):
        rows(source(spark, bootstrap, **wanted))
    assert rows(source(spark, bootstrap, failOnDataLoss="false", **wanted)) == records[40:]


def test_a_compacted_topic_gives_what_is_left(
    spark: SparkSession, bootstrap: str, broker: AnyBroker, topics: Topics, sender: Sender
) -> None:
    topic = topics.create(
        "compacted",
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
        max_compaction_lag_ms=100,
        delete_retention_ms=0,
    )
    produced = sender.send(topic, [Sent(b"old %d" % number, b"key %d" % (number % 5)) for number in range(50)])
    produced += sender.send(topic, [Sent(b"new %d" % number, b"key %d" % number) for number in range(5)])

    def is_compacted() -> bool:
        produced.extend(sender.send(topic, [Sent(b"rolls the segment", b"other")]))
        return len(rows(source(spark, bootstrap, subscribe=topic))) < 50

    until(is_compacted, "the topic is compacted", seconds=60)
    found = rows(source(spark, bootstrap, subscribe=topic))

    newest = {record.key: record for record in produced}
    assert set(newest.values()) <= set(found)
    assert found == [record for record in produced if record in set(found)]  # as they were, in their order, none twice


def test_batches_without_records_are_passed_over(
    spark: SparkSession, bootstrap: str, broker: AnyBroker, topics: Topics, sender: Sender, streams: Streams
) -> None:
    """Their records are delayed; the log ends with such a batch, and with another one from one read to the next."""
    if not broker.is_ours:
        pytest.skip("Apache Kafka does not delay")
    topic = topics.create("empty")
    records: list[Produced] = []
    for turn in range(2):
        records += sender.send(topic, [Sent(b"%d" % turn)])
        sender.send(topic, [Sent(b"much later", headers=(("kompat-delay-ms", b"3600000"),)) for _ in range(5)])

        assert rows(source(spark, bootstrap, subscribe=topic)) == records
        frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
        assert streams.collect(frame, "empty", availableNow=True).awaitTermination(QUERY_SECONDS)
        assert streams.rows("empty") == records
    assert [record.offset for record in records] == [0, 6]


# -- streams -----------------------------------------------------------------------------------------------------------
class Streams:
    """Runs queries that write what they read into files."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place

    def collect(self, frame: DataFrame, name: str, **trigger: object) -> StreamingQuery:
        """To Parquet, with a checkpoint that a later query of the same name goes on from."""
        self.schema = frame.schema
        (self.place / name).mkdir(exist_ok=True)
        writer = frame.writeStream.format("parquet").option("path", str(self.place / name))
        writer = writer.option("checkpointLocation", str(self.place / f"{name}-checkpoint"))
        return writer.trigger(**trigger).start()

    def rows(self, name: str) -> list[Produced]:
        return rows(self._read(name))

    def count(self, name: str) -> int:
        return self._read(name).count()

    def _read(self, name: str) -> DataFrame:
        return self.spark.read.schema(self.schema).parquet(str(self.place / name))


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    yield Streams(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_a_stream_takes_what_is_there_in_bounded_batches_and_ends(
    spark: SparkSession, bootstrap: str, known: Known, streams: Streams
) -> None:
    frame = stream(spark, bootstrap, subscribe=known.topic, startingOffsets="earliest", maxOffsetsPerTrigger=200)

    query = streams.collect(frame, "all", availableNow=True)

    assert query.awaitTermination(QUERY_SECONDS)
    assert streams.rows("all") == known.records
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert max(sizes) <= 200
    assert sum(sizes) == len(known.records)


def _places(known: Known) -> dict[str, tuple[dict[str, object], list[Produced]]]:
    """Ways to say what a stream reads, and what that is. Rows of a partition are in the order of their times."""
    topic, end = known.topic, len(known.records)
    starts = {str(index): known.of(index)[30 + index].timestamp for index in range(PARTITIONS)}
    offsets = {topic: {"0": 10, "1": -2, "2": -1}}
    since = known.records[end // 2].timestamp
    everything = {"startingOffsets": "earliest"}
    return {
        "pattern": ({"subscribePattern": f"{topic}.*", **everything}, known.records),
        "assigned": ({"assign": {topic: [0, 2]}, **everything}, known.of(0) + known.of(2)),
        "offsets": ({"subscribe": topic, "startingOffsets": offsets}, known.of(0)[10:] + known.of(1)),
        "time": (
            {"subscribe": topic, "startingTimestamp": since},
            [record for record in known.records if record.timestamp >= since],
        ),
        "times": (
            {"subscribe": topic, "startingOffsetsByTimestamp": {topic: starts}},
            [record for index in range(PARTITIONS) for record in known.of(index)[30 + index :]],
        ),
        "split": ({"subscribe": topic, "minPartitions": 7, **everything}, known.records),
    }


@pytest.mark.parametrize("way", ["pattern", "assigned", "offsets", "time", "times", "split"])
def test_a_stream_reads_what_it_is_told_to(
    spark: SparkSession, bootstrap: str, known: Known, streams: Streams, way: str
) -> None:
    options, expected = _places(known)[way]

    assert streams.collect(stream(spark, bootstrap, **options), way, availableNow=True).awaitTermination(QUERY_SECONDS)

    assert streams.rows(way) == expected


def test_a_stream_that_must_not_lose_records_fails_where_they_were_deleted(
    spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender, streams: Streams
) -> None:
    topic = topics.create("lossy")
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    records = sender.send(topic, [Sent(b"%d" % number) for number in range(20)])
    frame = stream(spark, bootstrap, **options)
    assert streams.collect(frame, "lossy", availableNow=True).awaitTermination(QUERY_SECONDS)
    records += sender.send(topic, [Sent(b"more %d" % number) for number in range(20)])
    topics.delete_records(topic, 0, before=30)

    with pytest.raises(StreamingQueryException, match=r"(?i)data may have been (lost|missed)|data loss|offset"):
        streams.collect(stream(spark, bootstrap, **options), "lossy", availableNow=True).awaitTermination(QUERY_SECONDS)
    assert streams.rows("lossy") == records[:20]  # nothing of what it could not read whole
    frame = stream(spark, bootstrap, failOnDataLoss="false", **options)
    assert streams.collect(frame, "lossy", availableNow=True).awaitTermination(QUERY_SECONDS)
    assert streams.rows("lossy") == records[:20] + records[30:]


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender, streams: Streams
) -> None:
    topic = topics.create("checkpoint", partitions=2)
    records = sender.send(topic, [Sent(b"%d" % number, partition=number % 2) for number in range(100)])
    for part in (100, 50, 1):
        frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
        assert streams.collect(frame, "parts", availableNow=True).awaitTermination(QUERY_SECONDS)
        assert streams.rows("parts") == sorted(records, key=place)
        records += sender.send(topic, [Sent(b"more %d" % number, partition=number % 2) for number in range(part)])


def test_a_running_stream_sees_records_as_they_come(
    spark: SparkSession, bootstrap: str, topics: Topics, sender: Sender, streams: Streams
) -> None:
    topic = topics.create("running", partitions=2)
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    query = streams.collect(frame, "running", processingTime="200 milliseconds")
    records: list[Produced] = []
    for turn in range(3):
        records += sender.send(topic, [Sent(b"%d/%d" % (turn, number), partition=number % 2) for number in range(20)])
        wanted = len(records)
        until(lambda n=wanted: streams.count("running") == n, "the stream has caught up", seconds=QUERY_SECONDS)
    query.stop()

    assert streams.rows("running") == sorted(records, key=place)


def test_delayed_records_come_to_a_stream_when_their_time_has_come(
    spark: SparkSession, bootstrap: str, broker: AnyBroker, topics: Topics, sender: Sender, streams: Streams
) -> None:
    if not broker.is_ours:
        pytest.skip("Apache Kafka does not delay")
    topic = topics.create("delayed")
    sender.send(
        topic, [Sent(b"at once"), Sent(b"later", headers=(("kompat-delay-ms", b"3000"),)), Sent(b"also at once")]
    )
    sender.send(topic, [Sent(b"all of this batch later", headers=(("kompat-delay-ms", b"2000"),))])
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    query = streams.collect(frame, "delayed", processingTime="100 milliseconds")
    until(lambda: streams.count("delayed") == 4, "all records have come", seconds=QUERY_SECONDS)
    query.stop()

    found = [(record.offset, record.value) for record in streams.rows("delayed")]
    assert found == [(0, b"at once"), (2, b"also at once"), (4, b"all of this batch later"), (5, b"later")]
    assert rows(source(spark, bootstrap, subscribe=topic)) == streams.rows("delayed")


def test_a_topic_that_is_delivered_by_priority_is_read_to_its_end(
    spark: SparkSession, bootstrap: str, broker: AnyBroker, topics: Topics, sender: Sender, streams: Streams
) -> None:
    """Spark asks where the log ends, and never reads past that."""
    if not broker.is_ours:
        pytest.skip("Apache Kafka knows no priorities")
    topic = topics.create("lanes", kompat_delivery_order="priority")
    classes = [(number * 7) % 10 for number in range(1000)]
    sender.send(topic, [Sent(b"%d" % c, headers=(("kompat-priority", b"%d" % c),)) for c in classes])

    backlog = [record.value for record in rows(source(spark, bootstrap, subscribe=topic))]
    assert backlog == [b"%d" % c for c in sorted(classes, reverse=True)]

    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    query = streams.collect(frame, "lanes", processingTime="100 milliseconds")
    until(lambda: streams.count("lanes") == 1000, "the backlog has come", seconds=QUERY_SECONDS)
    sender.send(topic, [Sent(b"late", headers=(("kompat-priority", b"9"),))])
    until(lambda: streams.count("lanes") == 1001, "what came later has come", seconds=QUERY_SECONDS)
    query.stop()

    assert [record.value for record in streams.rows("lanes")] == [*backlog, b"late"]


# -- writes ------------------------------------------------------------------------------------------------------------
def _frame(spark: SparkSession, topics: list[str], partitions: int) -> DataFrame:
    numbers = spark.range(0, 200, 1, 4)
    return numbers.select(
        f.concat(f.lit("key "), (f.col("id") % 7).cast("string")).cast("binary").alias("key"),
        f.concat(f.lit("value "), f.col("id").cast("string")).cast("binary").alias("value"),
        f.array(f.struct(f.lit("id").alias("key"), f.col("id").cast("string").cast("binary").alias("value"))).alias(
            "headers"
        ),
        f.element_at(f.array(*map(f.lit, topics)), (f.col("id") % len(topics) + 1).cast("int")).alias("topic"),
        (f.col("id") % partitions).cast("int").alias("partition"),
    )


def test_a_batch_write_puts_each_row_where_it_asks_to_be(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    names = [topics.create("written", partitions=3) for _ in range(2)]

    writer = _frame(spark, names, 3).write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("includeHeaders", "true").save()

    for turn, name in enumerate(names):
        found = {record.value: record for record in rows(source(spark, bootstrap, subscribe=name))}
        assert set(found) == {b"value %d" % number for number in range(turn, 200, 2)}
        for number in range(turn, 200, 2):
            record = found[b"value %d" % number]
            assert record.partition == number % 3
            assert record.key == b"key %d" % (number % 7)
            assert record.headers == (("id", str(number).encode()),)


def test_a_stream_writes_each_row_where_it_asks_to_be(
    spark: SparkSession, bootstrap: str, topics: Topics, known: Known, tmp_path: Path
) -> None:
    names = [topics.create("copy", partitions=PARTITIONS) for _ in range(2)]
    frame = stream(spark, bootstrap, subscribe=known.topic, startingOffsets="earliest", maxOffsetsPerTrigger=250)
    topic = f.when(f.col("offset") % 2 == 0, names[0]).otherwise(names[1]).alias("topic")
    writer = frame.select("key", "value", "headers", "partition", topic).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()

    assert query.awaitTermination(QUERY_SECONDS)

    def content(records: list[Produced]) -> list[object]:
        return sorted((r.partition, r.key or b"", r.value or b"", r.headers) for r in records)

    for turn, name in enumerate(names):
        copied = rows(source(spark, bootstrap, subscribe=name))
        assert content(copied) == content([record for record in known.records if record.offset % 2 == turn])


def test_offsets_of_a_plan_are_those_of_the_broker(
    spark: SparkSession, bootstrap: str, known: Known, streams: Streams
) -> None:
    """Spark asks for offsets with Kafka's admin client, and plans with the answers."""
    frame = stream(spark, bootstrap, subscribe=known.topic, startingOffsets="earliest")
    query = streams.collect(frame.limit(1), "plan", availableNow=True)
    assert query.awaitTermination(QUERY_SECONDS)

    [planned] = query.recentProgress[-1]["sources"]
    ends = planned["endOffset"] if isinstance(planned["endOffset"], dict) else json.loads(planned["endOffset"])

    assert ends == {known.topic: {str(index): len(known.of(index)) for index in range(PARTITIONS)}}
