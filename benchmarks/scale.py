"""Does the cost of a message stay flat as the broker grows? `python -m benchmarks.scale [--write] [--gigabytes 20]`.

Three questions: cost per message from 1 to 1,000 partitions (next to Apache Kafka, since smaller batches cost every
broker more), cost per message while one log grows, and how long 10,000 partitions take to be made and to restart.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import kafka
from benchmarks.compare import measure, write_results
from benchmarks.processes import Process, kompat, usage
from benchmarks.workloads import Run

PARTITIONS = (1, 10, 100, 1000)
PRODUCE = {"size": 1024, "acks": "1", "idempotent": False, "compression": "none"}


def by_partitions(brokers: list[Process], seconds: float) -> list[str]:
    rows = ["| partitions | kompat, µs of CPU a message | Apache Kafka | ratio |", "| ---: | ---: | ---: | ---: |"]
    for count in PARTITIONS:
        figures = []
        for broker in brokers:
            run = Run(
                broker.bootstrap, broker.pids, f"scale-{count}", seconds, PRODUCE | {"partitions": count, "size": 100}
            )
            figures.append(_figure(measure("produce", run), "broker_us"))
        rows.append(f"| {count:,} | {figures[0]:.2f} | {figures[1]:.2f} | **{figures[0] / figures[1]:.2f}** |")
    return rows


def by_size(broker: Process, gigabytes: int) -> list[str]:
    """One topic that grows; after each step what a message costs to write, and to read from the very beginning."""
    rows = ["| log, GB | produce, µs of CPU a 1 KiB message | memory, MiB |", "| ---: | ---: | ---: |"]
    written, step = 0.0, 0
    while written < gigabytes:
        topic = Run(broker.bootstrap, broker.pids, "scale-size", 4, PRODUCE | {"keep": True, "append": step > 0})
        result = measure("produce", topic)
        cost = _figure(result, "broker_us")
        written += _figure(result, "count") * 1024 / 1e9
        step += 1
        if step == 1 or written >= gigabytes or step % 8 == 0:
            rows.append(f"| {written:.1f} | {cost:.2f} | {usage(broker.pids).rss:.0f} |")
    return rows


def many_partitions(directory: Path, port: int) -> list[str]:
    broker = kompat(port, directory)
    try:
        started = time.perf_counter()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic(f"many-{i}", 100, 1) for i in range(100)]
        for future in admin.create_topics(topics, request_timeout=120).values():
            future.result(120)
        created = time.perf_counter() - started
        idle = usage(broker.pids).rss
    finally:
        broker.stop()
    again = kompat(port, directory)
    again.stop()
    return [
        f"10,000 partitions: made in {created:.1f} s, {idle:.0f} MiB with all of them open, "
        f"restart to first answer {again.answered_after:.1f} s."
    ]


def _figure(result: dict[str, float] | str, name: str) -> float:
    if isinstance(result, str):
        raise TypeError(result)
    return result[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-scale-"))
    brokers: list[Process] = []
    try:
        brokers.append(kompat(29092, directory / "kompat"))
        brokers.append(kafka.start(29192, directory / "kafka"))
        lines = [*by_partitions(brokers, args.seconds), "", *by_size(brokers[0], args.gigabytes), ""]
        lines += many_partitions(directory / "many", 29093)
        text = "\n".join(lines)
        print(text)
        if args.write:
            write_results("scale", text)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
