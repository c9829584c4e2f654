"""What traces cost: `python -m benchmarks.traces [--rounds 6] [--write]`.

The same load, 100,000 records/s that a group reads and commits, on a topic that traces one record in a hundred and on one
that traces none, in turns. And the most that a broker takes in, with the one topic and with the other.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare import write_results
from benchmarks.processes import Process, kompat, usage

VALUE = b"x" * 100
PER_SECOND = 100_000
PARTITIONS = 6
RATES = {"off": "0", "on": "0.01"}
SETTLE_SECONDS = 0.3  # what is gathered is written by then


def produce(bootstrap: str, topic: str, seconds: float, per_second: int) -> int:
    """So many records a second, or as many as can be; how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, "batch.size": 16384})
    begun, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds:
        due = int(passed * per_second) if per_second else sent + 500
        for _ in range(min(due - sent, 1000)):
            producer.produce(topic, VALUE, partition=sent % PARTITIONS)
            sent += 1
        while len(producer) > 50_000:
            producer.poll(0.01)
        producer.poll(0 if due - sent > 1000 else 0.001)
    if producer.flush(60):
        raise RuntimeError("not all records were acknowledged")
    return sent


def consume(bootstrap: str, topic: str, seconds: float) -> None:
    """Read and commit, in a process of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "latest",
            "auto.commit.interval.ms": 1000,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        consumer.consume(5000, 0.1)
    consumer.close()


def load(broker: Process, topic: str, seconds: float, per_second: int, *, is_read: bool) -> dict[str, float]:
    """One round: the broker's CPU for a record, and records/s."""
    reader = None
    if is_read:
        what = [
            "-m",
            "benchmarks.traces",
            "--consume",
            topic,
            "--seconds",
            str(seconds + 6),
            "--port",
            str(broker.port),
        ]
        reader = subprocess.Popen([sys.executable, *what])
        time.sleep(4)  # it has joined
    before, begun = usage(broker.pids).cpu, time.perf_counter()
    count = produce(broker.bootstrap, topic, seconds, per_second)
    passed = time.perf_counter() - begun
    time.sleep(SETTLE_SECONDS)
    used = usage(broker.pids).cpu - before
    if reader is not None:
        reader.wait()
    return {"us": used / count * 1e6, "per_second": count / passed}


def measure(directory: Path, port: int, rounds: int, seconds: float) -> list[str]:
    broker = kompat(port, directory)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for name, rate in RATES.items():
            topic = NewTopic(name, PARTITIONS, 1, config={"kompat.trace.sample": rate})
            admin.create_topics([topic])[name].result(30)
        rows = ["| | none traced | 1 % traced | |", "| --- | ---: | ---: | ---: |"]
        rows += _row(broker, f"{PER_SECOND:,} records/s, read and committed", rounds, seconds, PER_SECOND)
        rows += _row(broker, "as many as it takes", rounds, seconds, 0)
        return [*rows, f"| events written | | {_written(broker):,} | |"]
    finally:
        broker.stop()


def _row(broker: Process, what: str, rounds: int, seconds: float, per_second: int) -> list[str]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in RATES}
    for number in range(rounds):
        for name in RATES if number % 2 else reversed(RATES):
            found[name].append(load(broker, name, seconds, per_second, is_read=bool(per_second)))
            print(what, name, json.dumps(found[name][-1]), flush=True)
    off, on = (median(each["us"] for each in found[name]) for name in ("off", "on"))
    fast_off, fast_on = (median(each["per_second"] for each in found[name]) for name in ("off", "on"))
    core = 100 * (on - off) * PER_SECOND / 1e6
    return [
        f"| {what}: records/s | {fast_off:,.0f} | {fast_on:,.0f} | {100 * (fast_on / fast_off - 1):+.1f} % |",
        f"| broker CPU, µs a record | {off:.2f} | {on:.2f} | {core:+.1f} % of a core at {PER_SECOND:,}/s |",
    ]


def _written(broker: Process) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "count", "log_level": 0})
    found = consumer.list_topics("__kompat_trace", timeout=10).topics["__kompat_trace"].partitions
    count = sum(
        consumer.get_watermark_offsets(TopicPartition("__kompat_trace", index), timeout=10)[1] for index in found
    )
    consumer.close()
    return int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=19492)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--write", action="store_true", help="put the figures into RESULTS.md")
    parser.add_argument("--consume", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        consume(f"127.0.0.1:{given.port}", given.consume, given.seconds)
        return
    directory = Path(tempfile.mkdtemp(prefix="kompat-traces-"))
    try:
        text = "\n".join(measure(directory, given.port, given.rounds, given.seconds))
    finally:
        shutil.rmtree(directory)
    print(text)
    if given.write:
        write_results("traces", text)


if __name__ == "__main__":
    main()
