"""Dead letters as frames: what their headers tell, and how many there are of what. Pure.

The headers are those that the broker writes (kompat/extensions/dead_letters/share_groups.py): Kafka's, as text, or Spring's, with numbers in binary.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kompat.extensions.dead_letters.redrive import REDRIVE_COUNT
from kompat.extensions.dead_letters.share_groups import KAFKA, SPRING

SAMPLE = 200  # characters of a value that are shown
_KAFKA_NAMES = ("topic", "partition", "offset", "group", "delivery.count", "message")
_KAFKA_NUMBERS = {"partition": "int", "offset": "long", "delivery.count": "int"}
_SPRING_NAMES = ("original-topic", "original-partition", "original-offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which letters: those to which all of this applies."""

    cause: str | None = None  # a part of it
    origin: str | None = None  # the topic that they come from
    group: str | None = None
    start: int | None = None  # when they were written, ms since 1970
    end: int | None = None  # before this


def letters(records: DataFrame) -> DataFrame:
    """Rows of dead-letter topics with where they come from and why; `origin_topic` is null in what is no letter."""
    kafka = {name: _text(KAFKA + name) for name in _KAFKA_NAMES}
    numbers = {name: kafka[name].try_cast(kind) for name, kind in _KAFKA_NUMBERS.items()}
    is_kafka = _all_there(*kafka.values(), *numbers.values())
    spring = {name: _header(SPRING + name) for name in _SPRING_NAMES}
    partition, offset = _number(spring["original-partition"], 4), _number(spring["original-offset"], 8)
    is_spring = kafka["topic"].isNull() & _all_there(spring["original-topic"], partition, offset)

    def either(of_kafka: Column, of_spring: Column) -> Column:
        return f.when(is_kafka, of_kafka).when(is_spring, of_spring)

    empty = f.lit("")
    return records.withColumns(
        {
            "origin_topic": either(kafka["topic"], spring["original-topic"].cast("string")),
            "origin_partition": either(numbers["partition"], partition.cast("int")),
            "origin_offset": either(numbers["offset"], offset),
            "group": either(kafka["group"], f.coalesce(_text(SPRING + "original-consumer-group"), empty)),
            "deliveries": either(numbers["delivery.count"], f.lit(None).cast("int")),
            "cause": either(kafka["message"], f.coalesce(_text(SPRING + "exception-message"), empty)),
            "redrives": f.coalesce(_text(REDRIVE_COUNT).try_cast("int"), f.lit(0)),
        }
    )


def good(found: DataFrame) -> DataFrame:
    return found.where(f.col("origin_topic").isNotNull())


def bad(found: DataFrame) -> DataFrame:
    """What somebody put there that is no dead letter, as it is."""
    strange = found.where(f.col("origin_topic").isNull())
    return strange.select("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def select(found: DataFrame, wanted: Wanted) -> DataFrame:
    if wanted.cause is not None:
        found = found.where(f.lower("cause").contains(wanted.cause.lower()))
    if wanted.origin is not None:
        found = found.where(f.col("origin_topic") == wanted.origin)
    if wanted.group is not None:
        found = found.where(f.col("group") == wanted.group)
    if wanted.start is not None:
        found = found.where(f.unix_millis("timestamp") >= wanted.start)
    if wanted.end is not None:
        found = found.where(f.unix_millis("timestamp") < wanted.end)
    return found


def grouped(found: DataFrame) -> DataFrame:
    """How many letters there are of each cause and topic, when they came, and the newest of them."""
    sample = f.struct(
        f.col("partition"),
        f.col("offset"),
        f.substring(f.col("key").cast("string"), 1, SAMPLE).alias("key"),
        f.substring(f.col("value").cast("string"), 1, SAMPLE).alias("value"),
    )
    order = f.struct("timestamp", "partition", "offset")
    counted = found.groupBy("cause", f.col("origin_topic").alias("topic"), f.col("topic").alias("letters")).agg(
        f.count("*").alias("count"),
        f.sort_array(f.collect_set("group")).alias("groups"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
        f.max("deliveries").alias("most_deliveries"),
        f.count(f.when(f.col("redrives") > 0, 1)).alias("redriven_before"),
        f.max_by(sample, order).alias("sample"),
    )
    return counted.orderBy(f.desc("count"), "cause", "topic", "letters")


def redrive_list(found: DataFrame) -> DataFrame:
    """A line of JSON for each letter, in the order in which they lie. `topic`, `partition` and `offset` say which letter it is."""
    origin = f.struct(
        f.col("origin_topic").alias("topic"),
        f.col("origin_partition").alias("partition"),
        f.col("origin_offset").alias("offset"),
        f.col("group"),
    )
    told = f.struct(
        "topic", "partition", "offset", f.unix_millis("timestamp").alias("timestamp"), "cause", origin.alias("origin")
    )
    return found.orderBy("topic", "partition", "offset").select(f.to_json(told).alias("line"))


# -- headers -----------------------------------------------------------------------------------------------------------
def _header(name: str) -> Column:
    """The last one of this name, as the broker reads them."""
    named = f.filter(f.col("headers"), lambda each: each["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"]


def _text(name: str) -> Column:
    return _header(name).cast("string")


def _number(value: Column, size: int) -> Column:
    """Big-endian, of so many bytes; null where it has not as many."""
    unsigned = f.conv(f.hex(value), 16, 10).cast("decimal(20, 0)")
    return f.when(f.octet_length(value) == size, unsigned.cast("long"))


def _all_there(*found: Column) -> Column:
    condition = f.lit(True)
    for each in found:
        condition = condition & each.isNotNull()
    return condition
