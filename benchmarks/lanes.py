"""What delivery by priority costs: `python -m benchmarks.lanes [--records 500000] [--write]`.

The same records go to an ordinary topic and to topics with lanes, and are read from there by a plain consumer; of these, some have no
class, some have one, and some have any. Then the lanes are filled once more, and somebody asks where the log ends.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare import write_results
from benchmarks.processes import Process, Window, kompat, usage

VALUE = b"x" * 100
LANES = {"kompat.delivery.order": "priority"}
SECONDS = 300.0


def topics(records: int) -> list[tuple[str, str, dict[str, str], list[int | None]]]:
    """Name, what it is, its settings, and the classes of the records to send."""
    choose = random.Random(1)
    none: list[int | None] = [None] * records
    any_class: list[int | None] = [choose.randrange(10) for _ in range(records)]
    return [
        ("plain", "an ordinary topic", {}, none),
        ("plain-classes", "an ordinary topic, records of any class", {}, any_class),
        ("default", "lanes, records without a class", LANES, none),
        ("same", "lanes, all records of one class", LANES, [7] * records),
        ("any", "lanes, records of any class", LANES, any_class),
    ]


def produce(broker: Process, topic: str, classes: list[int | None]) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "batch.size": 65536, "log_level": 0})
    headers = {c: None if c is None else {"kompat-priority": str(c)} for c in set(classes)}
    window = Window(broker.pids)
    for priority in classes:
        producer.produce(topic, VALUE, partition=0, headers=headers[priority])
        if len(producer) > 50_000:
            producer.poll(0.05)
    if producer.flush(SECONDS):
        raise RuntimeError("not all records were acknowledged")
    return window.close(len(classes))


def drain(broker: Process, topic: str, count: int) -> dict[str, float]:
    """Read from the beginning, until all have come."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 500, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    window = Window(broker.pids)
    found, deadline = 0, time.monotonic() + SECONDS
    while found < count:
        found += sum(message.error() is None for message in consumer.consume(10_000, 0.2))
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic}: {found} of {count} came")
    measured = window.close(found)
    consumer.close()
    return measured


def settle(broker: Process, topic: str) -> float:
    """How many seconds it takes to hear where the log ends."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 0})
    started = time.perf_counter()
    consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def measure(directory: Path, port: int, records: int) -> list[str]:
    rows = ["| | sent, records/s | broker CPU | read, records/s | broker CPU |", "| --- | ---: | ---: | ---: | ---: |"]
    broker = kompat(port, directory)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for name, what, settings, classes in topics(records):
            admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(30)
            sent, read = produce(broker, name, classes), drain(broker, name, records)
            rows.append(f"| {what} | {_cells(sent)} | {_cells(read)} |")
        produce(broker, "any", topics(records)[-1][-1])
        memory = usage(broker.pids)
        rows += [
            "",
            f"- To hear where the log ends, with {records:,} records that wait: {settle(broker, 'any'):.2f} s.",
        ]
        rows.append(f"- Memory with them: {memory.rss:.0f} MiB; in the end {usage(broker.pids).rss:.0f} MiB.")
    finally:
        broker.stop()
    return rows


def _cells(measured: dict[str, float]) -> str:
    return f"{measured['per_second']:,.0f} | {measured['broker_us']:.2f} µs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--port", type=int, default=19393)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    try:
        rows = measure(directory, options.port, options.records)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(rows))
    if options.write:
        write_results("lanes", "\n".join(rows))


if __name__ == "__main__":
    main()
