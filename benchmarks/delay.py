"""What delayed records cost: `python -m benchmarks.delay [--parked 1000000] [--write]`.

Parks a million records, looks at memory and at how long a restart takes with and without them, and then delivers: some
at times of their own, to see how late they come, and ten thousand that are due at once.
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
from benchmarks.processes import Process, kompat, usage

TOPIC = "delays"
VALUE = b"x" * 100
HOUR = 3_600_000
AT_ONCE = 10_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def park(broker: Process, dues: list[int]) -> float:
    """Send records with these times; how many seconds that took."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
        }
    )
    started = time.perf_counter()
    for due in dues:
        producer.produce(TOPIC, VALUE, partition=0, headers={"kompat-deliver-at": str(due)}, on_delivery=_delivered)
        if len(producer) > 100_000:
            producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("not all records were acknowledged")
    return time.perf_counter() - started


def _delivered(error: object, _: object) -> None:
    if error is not None:
        raise RuntimeError(str(error))


class Reader:
    """A consumer at the end of the log."""

    def __init__(self, broker: Process) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "bench",
                "log_level": 0,
                "fetch.wait.max.ms": 500,
                "fetch.min.bytes": 1,
            }
        )
        at = TopicPartition(TOPIC, 0)
        _, at.offset = self._consumer.get_watermark_offsets(at, timeout=30)
        self._consumer.assign([at])

    def arrivals(self, count: int, seconds: float) -> list[tuple[int, int]]:
        """Due time and time of arrival of so many records."""
        found: list[tuple[int, int]] = []
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline:
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                found.append((message.timestamp()[1], now_ms()))
        return found

    def close(self) -> None:
        self._consumer.close()


def lateness(broker: Process) -> list[str]:
    """Records at times of their own, of which none is due before all are parked."""
    begun = now_ms() + 5000
    dues = sorted(begun + random.randrange(10_000) for _ in range(2000))
    park(broker, random.sample(dues, len(dues)))
    reader = Reader(broker)
    late = sorted(came - due for due, came in reader.arrivals(len(dues), 30))
    reader.close()
    middle, most = late[len(late) // 2], late[int(len(late) * 0.99)]
    return [f"| {len(late):,} records over 10 s: lateness p50 / p99 / max | {middle} / {most} / {late[-1]} ms |"]


def due_at_once(broker: Process) -> list[str]:
    due = now_ms() + 8000
    park(broker, [due] * AT_ONCE)
    reader = Reader(broker)
    found = reader.arrivals(AT_ONCE, 30)
    reader.close()
    return [f"| {len(found):,} due at once: the last arrived after | {max(came for _, came in found) - due} ms |"]


def cost_of_looking(broker: Process, rounds: int = 12, count: int = 150_000) -> list[str]:
    """Broker CPU of plain records on a topic that looks for headers, and on one that does not; the better half of the rounds."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    rows = []
    for headers in ({}, {"some-header": "value", "another": "v"}):
        costs: dict[str, list[float]] = {}
        for setting in ("true", "false"):
            topic = NewTopic(f"plain-{len(headers)}-{setting}", 1, 1, config={"kompat.extensions.enable": setting})
            admin.create_topics([topic])[topic.topic].result(30)
        for _ in range(rounds):
            for setting in ("true", "false"):
                used = _produce_plain(broker, f"plain-{len(headers)}-{setting}", count, headers)
                costs.setdefault(setting, []).append(used)
        on, off = (sum(sorted(costs[setting])[: rounds // 2]) / (rounds // 2) for setting in ("true", "false"))
        what = "records with two other headers" if headers else "records without headers"
        rows.append(
            f"| looking for headers, {what} | {on:.3f} / {off:.3f} µs of CPU a record: {100 * (on / off - 1):+.1f} % |"
        )
    return rows


def _produce_plain(broker: Process, topic: str, count: int, headers: dict[str, str]) -> float:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0, "batch.size": 16384})
    before = usage(broker.pids).cpu
    for _ in range(count):
        producer.produce(topic, VALUE, partition=0, headers=headers)
        if len(producer) > 50_000:
            producer.poll(0.05)
    producer.flush(60)
    return (usage(broker.pids).cpu - before) / count * 1e6


def restart(broker: Process, directory: Path, *, kill: bool) -> Process:
    if kill:
        broker.popen.kill()
        broker.popen.wait()
    broker.stop()
    return kompat(broker.port, directory)


def measure(directory: Path, port: int, parked: int) -> list[str]:
    rows = ["| | |", "| --- | ---: |"]
    broker = kompat(port, directory)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        park(broker, [now_ms() + HOUR] * 1000)
        rows.append(f"| memory with 1,000 parked | {usage(broker.pids).rss:.0f} MiB |")
        broker = restart(broker, directory, kill=False)
        rows.append(f"| start with 1,000 parked | {broker.answered_after:.2f} s |")
        begun = now_ms() + HOUR
        seconds = park(broker, [begun + random.randrange(24 * HOUR) for _ in range(parked)])
        rows.append(f"| parked | {parked:,} records, {parked / seconds:,.0f}/s |")
        rows.append(f"| memory with them | {usage(broker.pids).rss:.0f} MiB |")
        for kill in (False, True):
            broker = restart(broker, directory, kill=kill)
            how = "a kill" if kill else "a stop"
            rows.append(f"| start with them, after {how} | {broker.answered_after:.2f} s |")
            rows.append(f"| memory then | {usage(broker.pids).rss:.0f} MiB |")
        rows += lateness(broker)
        rows += due_at_once(broker)
        rows += cost_of_looking(broker)
        rows.append(f"| memory in the end | {usage(broker.pids).rss:.0f} MiB |")
    finally:
        broker.stop()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--port", type=int, default=19392)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    try:
        rows = measure(directory, options.port, options.parked)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(rows))
    if options.write:
        write_results("delay", "\n".join(rows))


if __name__ == "__main__":
    main()
