"""`kompat bench`: a quick measurement of any broker of Kafka's protocol. To compare versions, use benchmarks/."""

from __future__ import annotations

import argparse
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from kompat.cli import bench_requests as requests
from kompat.cli.arguments import count
from kompat.cli.command import CommandError, Parsers, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.kafka_client import Kafka, connect
from kompat.cli.output import output_of, size_text
from kompat.cli.progress import Progress

WINDOW: Final = 5  # requests in flight of one partition
WAIT_MS: Final = 5000
SHORT_WAIT_MS: Final = 500
IN_FLIGHT: Final = 1000  # requests of a connection: at least the windows of all partitions
MIB: Final = 1 << 20
ACKS: Final = {"all": -1, "1": 1}


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of a measurement."""

    what: str
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    latencies: dict[str, list[float]] = field(default_factory=dict)  # ms

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "what": self.what,
            "records": self.records,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "recordsPerSecond": round(self.records / self.seconds) if self.seconds else 0,
            "mibPerSecond": round(self.size / MIB / self.seconds, 2) if self.seconds else 0.0,
        }
        return row | {f"{name}Ms": percentiles(values) for name, values in self.latencies.items()}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the maximum, in milliseconds."""
    ordered = sorted(values)
    if not ordered:
        return {}
    at = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) for name, part in at.items()}


# -- the command -------------------------------------------------------------------------------------------------------
def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "bench",
        summary,
        description=(
            "Measure any Kafka broker. The command creates a topic and deletes it afterwards, unless --topic is given. "
            "Batches are built once and responses are not decoded, so that the broker is measured and not the client."
        ),
        examples=[
            "kompat bench produce",
            "kompat bench produce --records 1000000 --size 100 --partitions 6 --acks 1",
            "kompat bench consume --records 1000000",
            "kompat bench latency --records 1000 --json",
            "kompat bench produce --bootstrap-server apache:9092",
        ],
    )
    inner = subcommands(parser)
    for name, summary, records, work in (
        ("produce", "measure how many records per second a broker accepts", 500_000, _produce),
        ("consume", "measure how many records per second a broker delivers", 500_000, _consume),
        (
            "latency",
            "measure the latency of single records: to the acknowledgement, and to a waiting consumer",
            500,
            _latency,
        ),
    ):
        _add(inner, name, summary, records, work)


def _add(inner: Parsers, name: str, summary: str, records: int, work: Any) -> None:
    parser = declare(inner, name, summary, examples=[f"kompat bench {name}", f"kompat bench {name} --size 1000 --json"])
    parser.add_argument("--topic", help="use this topic, and keep it and its records afterwards")
    parser.add_argument(
        "--partitions", type=count, default=1, metavar="N", help="number of partitions of the created topic (1)"
    )
    parser.add_argument(
        "--replication-factor",
        type=count,
        metavar="N",
        help="replication factor of the created topic (the broker's default)",
    )
    parser.add_argument("--records", type=count, default=records, metavar="N", help=f"number of records ({records})")
    parser.add_argument("--size", type=count, default=100, metavar="BYTES", help="size of a record (100)")
    if name != "latency":
        parser.add_argument("--batch", type=count, default=1000, metavar="N", help="records per batch (1000)")
        parser.add_argument(
            "--compression", choices=list(requests.CODECS), default="none", help="compression type of batches (none)"
        )
    parser.add_argument(
        "--acks", choices=list(ACKS), default="all", help="acknowledgements that the producer requires (all)"
    )
    add_json(parser)
    add_kafka(parser)
    runs(parser, lambda given: _run(given, work))


def _run(given: argparse.Namespace, work: Any) -> None:
    output = output_of(given)
    with connect(given, max_in_flight_requests_per_connection=IN_FLIGHT) as kafka, _topic(kafka, given) as topic:
        found: Result = work(kafka, given, topic, requests.leaders(kafka.topics([topic])))
    row = found.row()
    if output.is_json:
        output.json(row)
        return
    pairs = [
        ("records", f"{found.records:,} of {given.size} bytes in {found.seconds:.2f} s"),
        ("records/s", f"{row['recordsPerSecond']:,}"),
        ("bytes/s", f"{size_text(round(found.size / found.seconds))}"),
    ]
    for name, values in found.latencies.items():
        text = "  ".join(f"{part} {value:.2f}" for part, value in percentiles(values).items())
        pairs.append((f"{name} (ms)", text))
    output.pairs(pairs)


@contextmanager
def _topic(kafka: Kafka, given: argparse.Namespace) -> Iterator[str]:
    if given.topic:
        kafka.topics([given.topic])
        yield given.topic
        return
    name = f"kompat-bench-{uuid.uuid4().hex[:12]}"
    made = {"num_partitions": given.partitions, "replication_factor": given.replication_factor or -1}
    kafka.admin.create_topics({name: made})
    kafka.admin.wait_for_topics([name])
    try:
        yield name
    finally:
        kafka.admin.delete_topics([name])


# -- produce and consume -----------------------------------------------------------------------------------------------
def _produce(kafka: Kafka, given: argparse.Namespace, topic: str, leaders: dict[int, int]) -> Result:
    found = Result(what="produce", latencies={"batch": []})
    kafka.run(lambda: _send(kafka, given, topic, leaders, found))
    return found


async def _send(kafka: Kafka, given: argparse.Namespace, topic: str, leaders: dict[int, int], found: Result) -> None:
    """Send all batches, in turn to all partitions, with a few requests of each in flight."""
    per_batch = min(given.batch, given.records)
    batch = requests.batch_of(per_batch, given.size, given.compression, time.time_ns() // 1_000_000)
    number = -(-given.records // per_batch)
    waiting: deque[Any] = deque()
    took = found.latencies["batch"]
    began = time.perf_counter()
    with Progress("sent", number * per_batch) as progress:
        for at in range(number):
            if len(waiting) >= WINDOW * len(leaders):
                requests.check_produced(await waiting.popleft())
            partition = at % len(leaders)
            request = requests.produce_request(topic, partition, batch, ACKS[given.acks])
            sent = time.perf_counter()
            future = kafka.send(request, leaders[partition])
            future.add_callback(lambda _, sent=sent: took.append((time.perf_counter() - sent) * 1000))
            waiting.append(future)
            progress.to(at * per_batch)
        while waiting:
            requests.check_produced(await waiting.popleft())
    found.seconds = time.perf_counter() - began
    found.records, found.size = number * per_batch, number * len(batch)


def _consume(kafka: Kafka, given: argparse.Namespace, topic: str, leaders: dict[int, int]) -> Result:
    """Consume a topic: one of its own, which is filled before, or a given topic with the records that it has."""
    if not given.topic:
        _produce(kafka, given, topic, leaders)
    found = Result(what="consume")
    ends = kafka.ends([(topic, partition) for partition in leaders])
    total = sum(end - start for start, end in ends.values())
    if total == 0:
        raise CommandError(f"{topic} is empty; `kompat bench produce --topic {topic}` fills it")
    places = {partition: ends[topic, partition] for partition in leaders}
    kafka.run(lambda: _fetch(kafka, topic, leaders, places, found, min(total, given.records)))
    return found


async def _fetch(
    kafka: Kafka,
    topic: str,
    leaders: dict[int, int],
    places: dict[int, tuple[int, int]],
    found: Result,
    total: int,
) -> None:
    position = {partition: start for partition, (start, _) in places.items()}
    began = time.perf_counter()
    with Progress("read", total) as progress:
        while found.records < total:
            positions: dict[int, list[tuple[int, int]]] = {}
            for partition, offset in position.items():
                if offset < places[partition][1]:
                    positions.setdefault(leaders[partition], []).append((partition, offset))
            if not positions:
                break
            sent = [
                kafka.send(requests.fetch_request(topic, offsets, WAIT_MS), node) for node, offsets in positions.items()
            ]
            for future in sent:
                after, records, size = requests.fetched(await future)
                position |= after
                found.records, found.size = found.records + records, found.size + size
            progress.to(found.records)
    found.seconds = time.perf_counter() - began


# -- latency -----------------------------------------------------------------------------------------------------------
def _latency(kafka: Kafka, given: argparse.Namespace, topic: str, leaders: dict[int, int]) -> Result:
    """A consumer waits at the end of the log while a record is sent. The next one follows when the record is acknowledged and consumed."""
    found = Result(what="latency", latencies={"acknowledged": [], "delivered": []})
    [(partition, leader), *_] = sorted(leaders.items())
    [(_, end)] = kafka.ends([(topic, partition)]).values()
    batch = requests.batch_of(1, given.size, "none", time.time_ns() // 1_000_000)
    request = requests.produce_request(topic, partition, batch, ACKS[given.acks])
    began = time.perf_counter()
    with (
        connect(given) as other,
        _Waiting(other, leader, topic, partition, end) as waiting,
        Progress("sent", given.records) as progress,
    ):
        for at in range(given.records):
            sent = time.perf_counter()
            requests.check_produced(kafka.ask(request, leader))
            found.latencies["acknowledged"].append((time.perf_counter() - sent) * 1000)
            found.latencies["delivered"].append((waiting.next() - sent) * 1000)
            progress.to(at + 1)
    found.seconds = time.perf_counter() - began
    found.records, found.size = given.records, given.records * len(batch)
    return found


class _Waiting:
    """A consumer with a connection of its own, which notes when records arrive."""

    def __init__(self, kafka: Kafka, leader: int, topic: str, partition: int, offset: int) -> None:
        self._kafka = kafka
        self._leader = leader
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._came: SimpleQueue[float | Exception] = SimpleQueue()
        self._is_over = False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join(WAIT_MS / 1000)

    def next(self) -> float:
        try:
            came = self._came.get(timeout=requests.TIMEOUT_MS / 1000)
        except Empty:
            raise CommandError("an acknowledged record was not delivered") from None
        if isinstance(came, Exception):
            raise came
        return came

    def _run(self) -> None:
        from kafka.errors import KafkaError

        try:
            while not self._is_over:
                request = requests.fetch_request(self._topic, [(self._partition, self._offset)], SHORT_WAIT_MS)
                after, records, _ = requests.fetched(self._kafka.ask(request, self._leader))
                came = time.perf_counter()
                self._offset = after.get(self._partition, self._offset)
                for _ in range(records):
                    self._came.put(came)
        except (KafkaError, CommandError) as error:
            self._came.put(error)
