"""Share groups next to Apache Kafka's, in one interleaved run: `python -m benchmarks.share [--rounds 3] [--write]`.

- throughput: Kafka's own ShareConsumerPerformance reads a topic of 100-byte records, which it acknowledges as it goes
- acknowledgement: confluent-kafka's ShareConsumer, one record at a time, and how long each `commit_sync` takes
- priorities (kompat alone): a backlog of five classes is produced and read, next to the same without priorities
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs hide what it exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks import kafka
from benchmarks.compare import write_results
from benchmarks.processes import Process, kompat, usage

TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
VALUE = b"x" * 100
CLASSES = ("0", "", "9", "6", "")  # "": of the default class
Figures = dict[str, float]


class Bench:
    """What measures need of one broker."""

    def __init__(self, broker: Process) -> None:
        self.broker = broker
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def topic(self, partitions: int = 1) -> str:
        name = f"share-{uuid.uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def group(self) -> str:
        """One that reads what was there before it."""
        name = f"group-{uuid.uuid4().hex[:8]}"
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(30)
        return name

    def fill(self, topic: str, count: int, headers: Callable[[int], Mapping[str, str]] | None = None) -> float:
        """How many a second were taken."""
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "linger.ms": 20,
                "log_level": 0,
                "queue.buffering.max.messages": 200_000,
            }
        )
        started = time.perf_counter()
        for index in range(count):
            producer.produce(topic, VALUE, headers=dict(headers(index)) if headers else None)
            if len(producer) > 100_000:
                producer.poll(0.05)
        if producer.flush(120):
            raise RuntimeError("not all records were acknowledged")
        return count / (time.perf_counter() - started)

    def cpu(self) -> float:
        return usage(self.broker.pids).cpu

    def consumer(self, group: str, topic: str, **settings: object) -> ShareConsumer:
        servers = {"bootstrap.servers": self.broker.bootstrap, "group.id": group, "log_level": 0}
        consumer = ShareConsumer({**servers, **{name.replace("_", "."): value for name, value in settings.items()}})
        consumer.subscribe([topic])
        return consumer


def throughput(bench: Bench, count: int, partitions: int, threads: int) -> Figures:
    topic, group = bench.topic(partitions), bench.group()
    bench.fill(topic, count)
    options = ["--bootstrap-server", bench.broker.bootstrap, "--topic", topic, "--group", group, "--hide-header"]
    command = ["java", "-Xmx512M", "-cp", f"{kafka.LIBS}/*", TOOL, *options]
    before = bench.cpu()
    ran = subprocess.run(
        [*command, "--num-records", str(count), "--threads", str(threads), "--timeout", "30000"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    cpu = bench.cpu() - before
    # start, end, MB, MB a second, records a second, records, fetch time
    fields = ran.stdout.strip().splitlines()[-1].split(", ")
    return {"per_second": float(fields[4]), "broker_us": cpu / float(fields[5]) * 1e6}


def acknowledgement(bench: Bench, count: int) -> Figures:
    topic, group = bench.topic(), bench.group()
    bench.fill(topic, count)
    consumer = bench.consumer(group, topic, share_acknowledgement_mode="explicit", max_poll_records=1)
    taken: list[float] = []
    before = started = 0.0
    deadline = time.monotonic() + 120
    while len(taken) < count and time.monotonic() < deadline:
        messages = [each for each in consumer.poll(1.0) if not each.error()]
        if not messages:
            continue
        if not started:
            before, started = bench.cpu(), time.perf_counter()
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            begun = time.perf_counter()
            consumer.commit_sync()
            taken.append(time.perf_counter() - begun)
    seconds, cpu = time.perf_counter() - started, bench.cpu() - before
    consumer.close()
    taken.sort()
    return {
        "p50_ms": taken[len(taken) // 2] * 1000,
        "p99_ms": taken[int(len(taken) * 0.99)] * 1000,
        "per_second": len(taken) / seconds,
        "broker_us": cpu / len(taken) * 1e6,
    }


def backlog(bench: Bench, count: int, *, has_classes: bool) -> Figures:
    """Produce a backlog and read it, in a share group that accepts all of it."""
    topic, group = bench.topic(), bench.group()

    def headers(index: int) -> Mapping[str, str]:
        name = CLASSES[index % len(CLASSES)]
        return {"kompat-priority" if has_classes else "some-other-head": name} if name else {}

    before = bench.cpu()
    produced = bench.fill(topic, count, headers)
    between = bench.cpu()
    consumer = bench.consumer(group, topic, max_poll_records=500)
    seen, started = 0, 0.0
    deadline = time.monotonic() + 120
    while seen < count and time.monotonic() < deadline:
        found = sum(not each.error() for each in consumer.poll(1.0))
        started = started or time.perf_counter()
        seen += found
    seconds = time.perf_counter() - started
    cpu = bench.cpu()
    consumer.close()
    if seen < count:
        raise RuntimeError(f"{seen} of {count} were read")
    return {
        "produced_per_second": produced,
        "produce_us": (between - before) / count * 1e6,
        "read_per_second": count / seconds,
        "read_us": (cpu - between) / count * 1e6,
    }


MEASURES: dict[str, tuple[Callable[[Bench], Figures], tuple[str, ...]]] = {
    "1 partition, 1 consumer": (lambda bench: throughput(bench, 300_000, 1, 1), ("+per_second", "broker_us")),
    "4 partitions, 4 consumers": (lambda bench: throughput(bench, 300_000, 4, 4), ("+per_second", "broker_us")),
    "acknowledge one by one": (
        lambda bench: acknowledgement(bench, 2_000),
        ("p50_ms", "p99_ms", "+per_second", "broker_us"),
    ),
}


def compare(benches: list[Bench], rounds: int) -> list[str]:
    ours, theirs = benches
    rows = ["| measure | figure (wanted ratio) | kompat | Apache Kafka | ratio | rounds |"]
    rows.append("| --- | --- | ---: | ---: | ---: | --- |")
    for name, (measure, figures) in MEASURES.items():
        samples: dict[Bench, list[Figures]] = {ours: [], theirs: []}
        for turn in range(rounds):
            for bench in benches[:: -1 if turn % 2 else 1]:
                samples[bench].append(measure(bench))
                print(name, bench.broker.name, samples[bench][-1], file=sys.stderr, flush=True)
        for figure in figures:
            key = figure.lstrip("+")
            both = [(a[key], b[key]) for a, b in zip(samples[ours], samples[theirs], strict=True)]
            ratios = [a / b if b else 0.0 for a, b in both]
            mine, kafkas = (statistics.median(each) for each in zip(*both, strict=True))
            wanted = "≥ 1" if figure.startswith("+") else "≤ 1"
            rows.append(
                f"| {name} | {key} ({wanted}) | {mine:,.4g} | {kafkas:,.4g} | **{statistics.median(ratios):.2f}** "
                f"| {min(ratios):.2f}–{max(ratios):.2f} |"
            )
    return rows


def priorities(bench: Bench, rounds: int, count: int = 100_000) -> list[str]:
    rows = ["| backlog of 100,000 records | with priorities | without |", "| --- | ---: | ---: |"]
    samples: dict[bool, list[Figures]] = {True: [], False: []}
    for _ in range(rounds):
        for has_classes in (True, False):
            samples[has_classes].append(backlog(bench, count, has_classes=has_classes))
            print("backlog", has_classes, samples[has_classes][-1], file=sys.stderr, flush=True)
    for key, what in (
        ("produced_per_second", "produced a second"),
        ("produce_us", "µs of the broker's CPU a record, produced"),
        ("read_per_second", "read and acknowledged a second"),
        ("read_us", "µs of the broker's CPU a record, read"),
    ):
        both = (statistics.median(each[key] for each in samples[has]) for has in (True, False))
        rows.append(f"| {what} | {' | '.join(f'{each:,.4g}' for each in both)} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=29292)
    parser.add_argument("--only-priorities", action="store_true", help="without Apache Kafka")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    brokers: list[Process] = []
    rows: list[str] = []
    try:
        brokers.append(kompat(options.port, directory / "kompat"))
        if not options.only_priorities:
            brokers.append(kafka.start(options.port + 100, directory / "kafka"))
            benches = [Bench(broker) for broker in brokers]
            for bench in benches:  # a fresh JVM is slower for minutes
                throughput(bench, 300_000, 1, 1)
                acknowledgement(bench, 1_000)
            rows += [*compare(benches, options.rounds), ""]
        rows += priorities(Bench(brokers[0]), options.rounds)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)
    text = "\n".join([f"{os.cpu_count()} cores, Apache Kafka {kafka.VERSION}, {options.rounds} rounds.", "", *rows])
    print(text)
    if options.write:
        write_results("share", text)


if __name__ == "__main__":
    main()
