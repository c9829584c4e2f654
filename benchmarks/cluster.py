"""Three brokers against three nodes of Apache Kafka, on one machine: `python -m benchmarks.cluster [--write]`.

Topics with three replicas, two of which have to have a record (`min.insync.replicas`). Only one cluster runs at a time: six
brokers would measure each other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition

from benchmarks import kafka
from benchmarks.compare import measure, write_results
from benchmarks.processes import Process, kompat_cluster, usage
from benchmarks.workloads import Run, values

FACTOR = 3
IDLE_PARTITIONS = 1000
IDLE_SECONDS = 10.0
KILLS = 3
CATCH_UP_BYTES = 512 << 20
SETTINGS = ("default.replication.factor=3", "min.insync.replicas=2")

Figures = dict[str, float]


@dataclass
class Cluster:
    """Of one kind, running."""

    name: str
    brokers: list[Process]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def pids(self) -> list[int]:
        return [broker.popen.pid for broker in self.brokers if broker.popen.poll() is None]

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})

    def create(self, topic: str, partitions: int, **placed: Sequence[Sequence[int]]) -> None:
        factor = {} if placed else {"replication_factor": FACTOR}
        admin = self.admin()
        admin.create_topics([NewTopic(topic, partitions, **factor, **placed)], request_timeout=60)[topic].result(65)

    def leader(self, topic: str) -> int:
        """The place of the broker that leads the topic's only partition."""
        found: int = self.admin().list_topics(topic, timeout=10).topics[topic].partitions[0].leader
        return found - 1


# -- what is measured ----------------------------------------------------------------------------------------------------
def produce(cluster: Cluster, size: int, seconds: float) -> Figures:
    options = {"size": size, "acks": "all", "idempotent": True, "compression": "none", "factor": FACTOR}
    return _measured("produce", cluster, seconds, options)


def synchronous(cluster: Cluster, seconds: float) -> Figures:
    return _measured("synchronous", cluster, seconds, {"acks": "all", "idempotent": True, "factor": FACTOR})


def _measured(workload: str, cluster: Cluster, seconds: float, options: dict[str, object]) -> Figures:
    name = f"{workload}-{options.get('size', 0)}-{time.monotonic_ns()}"
    result = measure(workload, Run(cluster.bootstrap, cluster.pids, name, seconds, options))
    if isinstance(result, str):
        raise RuntimeError(f"{workload} on {cluster.name}: {result}")  # noqa: TRY004 - it is what went wrong
    return result


class Gaps:
    """A producer that always has something under way, and the longest time without an acknowledgement."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "enable.idempotence": True, "linger.ms": 0}
        )
        self.acknowledged: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if len(self._producer) < 50:
                self._producer.produce(self._topic, b"beat", on_delivery=self._told)
            self._producer.poll(0.005)
        self._producer.flush(60)

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())

    def wait(self, since: float, count: int = 100) -> None:
        deadline = time.monotonic() + 60
        while sum(at > since for at in self.acknowledged[-count:]) < count:
            if time.monotonic() > deadline:
                raise RuntimeError("nothing is acknowledged any more")
            time.sleep(0.01)

    def longest(self) -> float:
        return max(after - before for before, after in zip(self.acknowledged, self.acknowledged[1:], strict=False))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def fail_over(cluster: Cluster) -> Figures:
    """`kill -9` of a leader: how long its partition takes no records, as a producer sees it. The broker is gone afterwards."""
    topic = f"fail-over-{time.monotonic_ns()}"
    cluster.create(topic, 1)
    gaps = Gaps(cluster, topic)
    try:
        gaps.wait(time.monotonic())
        killed = time.monotonic()
        cluster.brokers[cluster.leader(topic)].popen.kill()
        gaps.wait(killed + 1.0)
    finally:
        gaps.close()
    return {"gap_s": gaps.longest()}


def idle(cluster: Cluster) -> Figures:
    """CPU of each broker with many partitions in which nothing happens."""
    for part in range(10):
        cluster.create(f"idle-{part}", IDLE_PARTITIONS // 10)
    time.sleep(15)  # until all have leaders, and the JVM has compiled what it likes to
    before, started = {pid: usage([pid]).cpu for pid in cluster.pids}, time.monotonic()
    time.sleep(IDLE_SECONDS)
    spent = time.monotonic() - started
    cores = [(usage([pid]).cpu - cpu) / spent for pid, cpu in before.items()]
    return {"mean_core": statistics.mean(cores), "worst_core": max(cores), "rss": usage(cluster.pids).rss / len(cores)}


def catch_up(cluster: Cluster) -> Figures:
    """A partition of one replica gets two more: how fast they have all of it."""
    topic = f"catch-up-{time.monotonic_ns()}"
    cluster.create(topic, 1, replica_assignment=[[1]])
    _fill(cluster, topic)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    started = time.monotonic()
    admin.alter_partition_reassignments({PythonTopicPartition(topic, 0): [1, 2, 3]})
    while len(cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions[0].isrs) < FACTOR:
        if time.monotonic() - started > 300:
            raise RuntimeError("the new replicas have not caught up in 300 s")
        time.sleep(0.02)
    spent = time.monotonic() - started
    admin.close()
    return {"mb_per_second": 2 * CATCH_UP_BYTES / 1e6 / spent}


def _fill(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "1", "linger.ms": 20, "log_level": 0})
    pool = values(1024)
    for number in range(CATCH_UP_BYTES // 1024):
        while True:
            try:
                producer.produce(topic, pool[number % len(pool)], partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic could not be filled")


# -- running -------------------------------------------------------------------------------------------------------------
Measure = Callable[[Cluster], Figures]


def plan(seconds: float, rounds: int) -> list[tuple[str, Measure, int, tuple[str, ...]]]:
    """Name, measure, rounds, figures (with "+" in front: higher is better). The last ones leave a broker dead."""
    return [
        (
            "produce 1 KiB acks=all idempotent",
            lambda c: produce(c, 1024, seconds),
            rounds,
            ("+per_second", "broker_us"),
        ),
        ("produce 100 B acks=all idempotent", lambda c: produce(c, 100, seconds), rounds, ("+per_second", "broker_us")),
        (
            "synchronous produce acks=all idempotent",
            lambda c: synchronous(c, seconds),
            rounds,
            ("p50_ms", "p99_ms", "broker_us"),
        ),
        ("two fresh replicas catch up", catch_up, 1, ("+mb_per_second",)),
        (f"{IDLE_PARTITIONS:,} idle partitions × {FACTOR}", idle, 1, ("mean_core", "worst_core", "rss")),
        ("kill -9 of a leader", fail_over, 1, ("gap_s",)),
    ]


def start(name: str, directory: Path) -> Cluster:
    if name == "kompat":
        return Cluster(name, kompat_cluster(29292, directory / "kompat", *SETTINGS))
    return Cluster(name, kafka.start_three(29392, directory / "kafka"))


def run(name: str, args: argparse.Namespace, samples: dict[tuple[str, str, str], list[float]]) -> None:
    """All measures on one cluster; another one for every further kill."""
    chosen = [each for each in plan(args.seconds, args.rounds) if args.only in each[0]]
    for turn in range(KILLS if any(each[1] is fail_over for each in chosen) else 1):
        directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
        cluster = start(name, directory)
        try:
            if turn == 0:
                produce(cluster, 1024, args.warm)
            for label, work, rounds, figures in chosen:
                if turn and work is not fail_over:
                    continue
                for _ in range(rounds):
                    found = work(cluster)
                    print(name, label, {key: round(value, 4) for key, value in found.items()}, flush=True)
                    for figure in figures:
                        samples.setdefault((label, figure, name), []).append(found[figure.lstrip("+")])
        finally:
            for broker in cluster.brokers:
                broker.popen.kill()  # the last of a quorum cannot leave in order, and would try to for long
                broker.popen.wait()
            shutil.rmtree(directory, ignore_errors=True)


def report(samples: dict[tuple[str, str, str], list[float]]) -> str:
    lines = [
        f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. Medians; the range in brackets.",
        "",
        "| measure | figure (wanted ratio) | kompat | Apache Kafka | ratio |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for label, figure in dict.fromkeys((label, figure) for label, figure, _ in samples):
        both = [samples.get((label, figure, name), []) for name in ("kompat", "kafka")]
        mine, theirs = (statistics.median(found) if found else None for found in both)
        shown = [_shown(found) for found in both]
        ratio = f"**{mine / theirs:.2f}**" if mine is not None and theirs else "–"
        wanted = "≥ 1" if figure.startswith("+") else "≤ 1"
        lines.append(f"| {label} | {figure.lstrip('+')} ({wanted}) | {shown[0]} | {shown[1]} | {ratio} |")
    return "\n".join(lines)


def _shown(found: list[float]) -> str:
    if not found:
        return "–"
    span = f" ({_number(min(found))}–{_number(max(found))})" if len(found) > 1 else ""
    return _number(statistics.median(found)) + span


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measure")
    parser.add_argument("--warm", type=float, default=15.0, help="seconds of warm-up for each cluster")
    parser.add_argument("--only", default="", help="measures whose name contains this text")
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the table into RESULTS.md")
    args = parser.parse_args()
    samples: dict[tuple[str, str, str], list[float]] = {}
    for name in ("kompat",) if args.without_kafka else ("kompat", "kafka"):
        run(name, args, samples)
    text = report(samples)
    print(text)
    if args.write:
        write_results("cluster", text)


if __name__ == "__main__":
    main()
