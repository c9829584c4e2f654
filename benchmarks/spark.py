"""Spark over kompat next to Spark over Apache Kafka: `python -m benchmarks.spark [--records 5000000] [--write]`.

The same records are put into both brokers, and the same Spark reads them in turns, several rounds, the order reversed each time. A
read takes every row of the topic to Spark, with headers, and throws it away there; an archive is what `spark.archive run --once` makes.
Only the ratios of one run count; the figure is the median of each round's own ratio.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import kafka
from benchmarks.compare import write_results
from benchmarks.processes import Process, kompat, usage
from spark import archive
from spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, WARM_TOPIC = "spark-read", "spark-warm"
WARM_RECORDS = 20_000
PARTITIONS = 4
VALUE = b"x" * 100
CORES = 2


def fill(broker: Process, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    settings = {"linger.ms": 20, "batch.num.messages": 10_000, "queue.buffering.max.messages": 200_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for number in range(count):
        producer.produce(topic, VALUE, b"%d" % (number % 1000), partition=number % PARTITIONS)
        if len(producer) > 100_000:
            producer.poll(0.1)
    if producer.flush(300):
        raise RuntimeError("not all records were acknowledged")


def rows_of(spark: SparkSession, broker: Process, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", "true").load()


def read(spark: SparkSession, broker: Process, topic: str) -> None:
    """Every row comes to Spark, and is dropped there."""
    rows_of(spark, broker, topic).write.format("noop").mode("overwrite").save()


def archive_all(_: SparkSession, broker: Process, topic: str) -> None:
    place = Path(tempfile.mkdtemp(prefix="kompat-archive-"))
    try:
        where = ["--archive", str(place), "--bootstrap-servers", broker.bootstrap]
        if archive.main(["run", *where, "--topics", topic, "--once"]):
            raise RuntimeError(f"{broker.name} could not be archived")
    finally:
        shutil.rmtree(place)


Work = Callable[["SparkSession", Process, str], None]
MEASURES: dict[str, Work] = {"batch read": read, "archive": archive_all}


def measure(spark: SparkSession, brokers: list[Process], count: int, rounds: int) -> list[str]:
    lines = []
    for name, work in MEASURES.items():
        times: dict[str, list[float]] = {broker.name: [] for broker in brokers}
        cpu: dict[str, list[float]] = {broker.name: [] for broker in brokers}
        for turn in range(rounds):
            for broker in brokers[::-1] if turn % 2 else brokers:
                before, started = usage(broker.pids).cpu, time.perf_counter()
                work(spark, broker, TOPIC)
                times[broker.name].append(time.perf_counter() - started)
                cpu[broker.name].append(usage(broker.pids).cpu - before)
                print(f"{name}, {broker.name}, round {turn}: {times[broker.name][-1]:.2f} s", flush=True)
        ours, theirs = (broker.name for broker in brokers)
        rates = {who: [count / seconds for seconds in found] for who, found in times.items()}
        lines.append(_row(f"{name}, {count:,} records", "records/s (≥ 1)", rates[ours], rates[theirs]))
        micros = {who: [1e6 * each / count for each in found] for who, found in cpu.items()}
        lines.append(_row(f"{name}, {count:,} records", "broker CPU, µs a record (≤ 1)", micros[ours], micros[theirs]))
    return lines


def _row(name: str, figure: str, ours: list[float], theirs: list[float]) -> str:
    ratios = [mine / kafkas for mine, kafkas in zip(ours, theirs, strict=True) if kafkas]
    middle = f"**{statistics.median(ratios):.2f}** | {min(ratios):.2f}–{max(ratios):.2f}" if ratios else "– | –"
    return f"| {name} | {figure} | {statistics.median(ours):,.4g} | {statistics.median(theirs):,.4g} | {middle} |"


def report(lines: list[str], rounds: int) -> str:
    import pyspark

    head = (
        f"Measured {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}, "
        f"Spark {pyspark.__version__} on {CORES} threads, Apache Kafka {kafka.VERSION}; {rounds} rounds, values of "
        f"{len(VALUE)} bytes, {PARTITIONS} partitions. Repeat with `python -m benchmarks.spark --write`."
    )
    columns = "| measure | figure (wanted ratio) | kompat | Apache Kafka | ratio | rounds |"
    return "\n".join([head, "", columns, "| --- | --- | ---: | ---: | ---: | --- |", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=29292, help="kompat's; Kafka has the one fifty above")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    brokers: list[Process] = []
    try:
        brokers.append(kompat(args.port, directory / "kompat"))
        brokers.append(kafka.start(args.port + 50, directory / "kafka"))
        spark = open_session("kompat benchmark", master=f"local[{CORES}]")
        spark.sparkContext.setLogLevel("ERROR")
        for broker in brokers:
            fill(broker, WARM_TOPIC, WARM_RECORDS)
            fill(broker, TOPIC, args.records)
            if (found := rows_of(spark, broker, TOPIC).count()) != args.records:
                raise RuntimeError(f"Spark finds {found} records in {broker.name}")
        for work in MEASURES.values():  # Spark compiles as it goes
            for broker in brokers * 2:
                work(spark, broker, WARM_TOPIC)
        text = report(measure(spark, brokers, args.records, args.rounds), args.rounds)
        spark.stop()
        print(text)
        if args.write:
            write_results("spark", text)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
