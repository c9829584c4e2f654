"""Rows of Spark's Kafka source, and what was produced, in one shape that can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import Message, Producer
from pyspark.sql import DataFrame, SparkSession

from interop_tests.support.clients.confluent import producer

Headers = tuple[tuple[str, bytes | None], ...]
FLUSH_SECONDS = 30.0


# Compiling a plan costs more than it saves.
FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def for_few_rows(spark: SparkSession) -> Iterator[None]:
    """Spark with settings for frames of a few rows."""
    before = {name: spark.conf.get(name) for name in FOR_FEW_ROWS}
    for name, value in FOR_FEW_ROWS.items():
        spark.conf.set(name, value)
    yield
    for name, found in before.items():
        spark.conf.set(name, found or "")


class Produced(NamedTuple):
    """A record, and where it came to lie."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int  # ms


class Sent(NamedTuple):
    """What to produce."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Headers = ()
    timestamp: int = 0  # 0: now


class Sender:
    """Produces with librdkafka and remembers what the broker said."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self._producer: Producer = producer(bootstrap, **settings)

    def send(self, topic: str, records: Iterable[Sent]) -> list[Produced]:
        """In the order of their offsets, partition by partition."""
        told: list[Produced] = []

        def delivered(record: Sent, error: object, message: Message) -> None:
            assert error is None, error
            told.append(_produced(record, message))

        for record in records:
            self._producer.poll(0)
            self._producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=partial(delivered, record),
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        assert self._producer.flush(FLUSH_SECONDS) == 0
        return sorted(told, key=place)


def _produced(record: Sent, message: Message) -> Produced:
    where = (message.topic() or "", message.partition() or 0, message.offset() or 0)
    return Produced(*where, record.key, record.value, record.headers, message.timestamp()[1])


def place(record: Produced) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def source(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    """A batch read; headers and strictness about lost data are on."""
    return _with_options(spark.read.format("kafka"), bootstrap, options).load()  # type: ignore[no-any-return]


def stream(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    return _with_options(spark.readStream.format("kafka"), bootstrap, options).load()  # type: ignore[no-any-return]


def _with_options(reader: Any, bootstrap: str, options: Mapping[str, object]) -> Any:
    wanted: dict[str, object] = {"includeHeaders": "true", "failOnDataLoss": "true"}
    reader = reader.option("kafka.bootstrap.servers", bootstrap)
    for name, value in (wanted | dict(options)).items():
        reader = reader.option(name, json.dumps(value) if isinstance(value, dict | list) else str(value))
    return reader


def rows(frame: DataFrame) -> list[Produced]:
    """All rows, in the order of their offsets, partition by partition."""
    return sorted((_row(row) for row in frame.collect()), key=place)


def _row(row: Any) -> Produced:
    headers: Sequence[Any] = row["headers"] or ()
    return Produced(
        row["topic"],
        row["partition"],
        row["offset"],
        _bytes(row["key"]),
        _bytes(row["value"]),
        tuple((header["key"], _bytes(header["value"])) for header in headers),
        int(row["timestamp"].timestamp() * 1000 + 0.5),
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def figures(ordered: Sequence[int]) -> dict[str, int]:
    """By hand, what the numbers of a stage are: percentiles are values that occurred."""
    ranks = {"p50": 50, "p95": 95, "p99": 99}
    found = {name: ordered[-(-len(ordered) * rank // 100) - 1] for name, rank in ranks.items()}
    return {"count": len(ordered), **found, "max": ordered[-1]}
