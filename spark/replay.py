"""Put archived records back into a topic: keys, values, headers, timestamps and the order within each partition as they were.

    python -m spark.replay --archive DIR --topic orders --to orders-again
    python -m spark.replay --archive DIR --topic orders --to orders-again --from-time 2026-01-31T00:00:00Z --to-time 2026-02-01T00:00:00Z
    python -m spark.replay --archive DIR --topic orders --to orders-again --offsets 0:1000-2000 --key alice --header kind=refund

Each partition is put back by one task, in the order of its offsets, into the partition of the same number. A topic that does not
exist is created, without extensions: else a record that was once delayed would wait again. Executors need confluent-kafka: Spark's
own sink cannot set timestamps, and kafka-python sends no header without a value.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kompat.archive.manifest import Archive, ArchiveError, DataFile, Span
from spark import options, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLUSH_SECONDS = 60
RATE_SLICE = 0.05  # seconds: a limited task sends in bursts of this length
ALL = Span(0, 2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records."""

    topic: str
    offsets: Mapping[int, Span]  # by partition; none: all
    start: int | None = None  # ms since 1970
    end: int | None = None  # not included
    key: bytes | None = None
    header: tuple[str, bytes] | None = None


def files_for(archive: Archive, wanted: Wanted) -> list[DataFile]:
    """Those of the archive's files that may have wanted records. Pure."""
    partitions = wanted.offsets or {index: ALL for topic, index in archive.covered if topic == wanted.topic}
    found: dict[str, DataFile] = {}
    for partition, span in partitions.items():
        for each in archive.holding((wanted.topic, partition), span):
            if _may_be_of(each.date, wanted):
                found[each.path] = each
    return [found[path] for path in sorted(found)]


def _may_be_of(date: str, wanted: Wanted) -> bool:
    day = datetime.fromisoformat(f"{date}T00:00:00+00:00").timestamp() * 1000
    return (wanted.end is None or day < wanted.end) and (wanted.start is None or day + 86_400_000 > wanted.start)


def select(records: DataFrame, wanted: Wanted) -> DataFrame:
    """The wanted ones among the archive's records."""
    from pyspark.sql import functions as f

    if wanted.offsets:
        here = f.lit(False)
        for partition, span in wanted.offsets.items():
            within = (f.col("offset") >= span.start) & (f.col("offset") < span.end)
            here = here | ((f.col("partition") == partition) & within)
        records = records.where(here)
    millis = f.unix_millis("timestamp")
    if wanted.start is not None:
        records = records.where(millis >= wanted.start)
    if wanted.end is not None:
        records = records.where(millis < wanted.end)
    if wanted.key is not None:
        records = records.where(f.col("key") == f.lit(wanted.key))
    if wanted.header is not None:
        name, value = wanted.header
        records = records.where(
            f.exists("headers", lambda each: (each["key"] == name) & (each["value"] == f.lit(value)))
        )
    return records


# -- sending -----------------------------------------------------------------------------------------------------------
def sender(to: str, settings: Mapping[str, Any], rate: float | None) -> Callable[[Iterable[Any]], Iterator[int]]:
    """A task: sends its records in their order, waits until all are acknowledged, and tells how many there were."""

    def send(rows: Iterable[Any]) -> Iterator[int]:
        from confluent_kafka import Producer

        producer = Producer(dict(settings))
        refused: list[str] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                refused.append(str(error))

        count = 0
        for row in _paced(rows, rate):
            _produce(producer, to, row, delivered)
            count += 1
            if refused:
                break
        if producer.flush(FLUSH_SECONDS) or refused:
            raise RuntimeError(f"records were not taken: {refused[0] if refused else 'no answer from the broker'}")
        yield count

    return send


def _produce(producer: Any, to: str, row: Any, delivered: Callable[[object, object], None]) -> None:
    headers = [(each["key"], _bytes(each["value"])) for each in row["headers"] or ()]
    while True:
        try:
            producer.produce(
                to,
                _bytes(row["value"]),
                _bytes(row["key"]),
                row["partition"],
                on_delivery=delivered,
                timestamp=row["millis"],
                headers=headers,
            )
        except BufferError:  # more than the broker has taken yet
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _paced(rows: Iterable[Any], rate: float | None) -> Iterator[Any]:
    if rate is None:
        yield from rows
        return
    began = time.monotonic()
    for sent, row in enumerate(rows):
        ahead = sent / rate - (time.monotonic() - began)
        if ahead > RATE_SLICE:
            time.sleep(ahead)
        yield row


def replay(spark: SparkSession, given: argparse.Namespace) -> int:
    from pyspark.sql import functions as f

    from spark.tables import Table

    table, wanted = Table(spark, given.archive), _wanted(given)
    archive = table.load_existing()
    if wanted.topic not in archive.topics():
        raise ArchiveError(f"{given.archive} has nothing of {wanted.topic}")
    partitions = sorted(index for topic, index in archive.covered if topic == wanted.topic)
    settings = {"bootstrap.servers": given.bootstrap_servers, **dict(given.kafka)}
    _ensure_topic(given.to, partitions[-1] + 1, settings)
    records = select(table.read(files_for(archive, wanted)), wanted).withColumn("millis", f.unix_millis("timestamp"))
    # As many tasks as partitions, and each partition whole in one of them.
    ordered = records.repartition(len(partitions), "partition").sortWithinPartitions("partition", "offset")
    rate = given.rate / len(partitions) if given.rate else None
    counts = ordered.rdd.mapPartitions(sender(given.to, {**settings, "enable.idempotence": True}, rate)).collect()
    print(f"replay: {sum(counts)} records of {wanted.topic} put into {given.to}", file=sys.stderr)
    return 0


def _ensure_topic(name: str, partitions: int, settings: Mapping[str, Any]) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(dict(settings))
    if name in admin.list_topics(timeout=FLUSH_SECONDS).topics:
        return
    for configs in ({"kompat.extensions.enable": "false"}, {}):  # a broker that is not kompat does not know it
        try:
            admin.create_topics([NewTopic(name, partitions, config=configs)])[name].result(FLUSH_SECONDS)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if code != KafkaError.INVALID_CONFIG or not configs:
                raise
        else:
            return


# -- the command -------------------------------------------------------------------------------------------------------
def _wanted(given: argparse.Namespace) -> Wanted:
    return Wanted(
        topic=given.topic,
        offsets=dict(given.offsets),
        start=given.from_time,
        end=given.to_time,
        key=given.key.encode() if given.key is not None else None,
        header=(given.header[0], given.header[1].encode()) if given.header else None,
    )


def offset_range(text: str) -> tuple[int, Span]:
    """PARTITION:FIRST-END, the end not included; either may be left out."""
    partition, colon, span = text.partition(":")
    first, dash, end = span.partition("-")
    numbers = (partition, first or "0", end or str(ALL.end))
    if not colon or not dash or not all(each.isdecimal() for each in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not PARTITION:FIRST-END")
    found = Span(int(numbers[1]), int(numbers[2]))
    if found.start >= found.end:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins: the end is not included")
    return int(partition), found


def main(arguments: Sequence[str] | None = None) -> int:
    made = options.parser("spark.replay", __doc__ or "")
    options.add_kafka(made)
    made.add_argument("--archive", required=True, metavar="DIR")
    made.add_argument("--topic", required=True, help="whose records")
    made.add_argument("--to", required=True, metavar="TOPIC", help="where they go")
    made.add_argument("--from-time", type=options.moment, metavar="TIME")
    made.add_argument("--to-time", type=options.moment, metavar="TIME", help="not included")
    made.add_argument("--offsets", type=offset_range, action="append", default=[], metavar="P:FIRST-END")
    made.add_argument("--key", help="only records with this key")
    made.add_argument("--header", type=options.setting, metavar="NAME=VALUE", help="only records with this header")
    made.add_argument(
        "--rate", type=options.count, metavar="N", help="records a second, in all; default: as fast as it goes"
    )
    made.set_defaults(work=replay)
    return running.run("replay", made, arguments)


if __name__ == "__main__":
    sys.exit(main())
