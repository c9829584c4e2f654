"""How long partitions take no records while brokers fail, as their producers see it: `python -m benchmarks.failover [--write]`.

Three brokers, each in a network namespace of its own (needs root; without, links are not cut), and a producer for each partition, with acks=all and short time-outs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.compare import write_results
from interop_tests.support.faults import FaultyCluster, faulty_cluster

PARTITIONS = 6
PACE = 0.01  # seconds between two records of a producer
SETTLED = 50  # records of each producer, after which all is well again
SETTINGS = {"min.insync.replicas": "2", "default.replication.factor": "3"}
CLIENT = {
    "log_level": 0,
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}


class Beats:
    """A producer that always has something under way for one partition, and when it was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition: int, patience_ms: int) -> None:
        self._topic, self._partition = topic, partition
        patience = {"socket.timeout.ms": patience_ms, "request.timeout.ms": patience_ms}
        self._producer = Producer({"bootstrap.servers": bootstrap, **CLIENT, **patience})
        self.acknowledged: list[float] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if len(self._producer) < 50:
                self._producer.produce(self._topic, b"beat", partition=self._partition, on_delivery=self._ended)
            self._producer.poll(PACE)
        self._producer.flush(60)

    def _ended(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())
        else:
            self.failures.append(error.str())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Load:
    def __init__(self, cluster: FaultyCluster, topic: str, patience_ms: int) -> None:
        self.beats = [Beats(cluster.bootstrap, topic, partition, patience_ms) for partition in range(PARTITIONS)]

    def settle(self) -> None:
        goals = [len(each.acknowledged) + SETTLED for each in self.beats]
        deadline = time.monotonic() + 90
        while any(len(each.acknowledged) < goal for each, goal in zip(self.beats, goals, strict=True)):
            if time.monotonic() > deadline:
                raise RuntimeError("nothing is acknowledged any more")
            time.sleep(0.01)

    def longest(self, since: float) -> tuple[float, float]:
        """Without an acknowledgement of any partition, and of the worst one."""
        times = [[at for at in each.acknowledged if at >= since] for each in self.beats]
        together = sorted(at for each in times for at in each)
        return _gap(since, together), max(_gap(since, each) for each in times)

    def close(self) -> None:
        for each in self.beats:
            each.close()


def _gap(since: float, times: Sequence[float]) -> float:
    return max(after - before for before, after in pairwise([since, *times]))


# -- faults --------------------------------------------------------------------------------------------------------------
Fault = Callable[[FaultyCluster, str, Load, float], None]


def kill(cluster: FaultyCluster, topic: str, _: Load, seconds: float) -> None:
    victim = cluster.leader(topic)
    cluster.brokers[victim].kill()
    time.sleep(seconds)
    cluster.start(victim)


def rolling(cluster: FaultyCluster, topic: str, load: Load, _: float) -> None:
    for number in list(cluster.brokers):
        cluster.brokers[number].stop()
        cluster.start(number)
        cluster.wait_in_sync(topic)
        load.settle()


def pause(cluster: FaultyCluster, topic: str, _: Load, seconds: float) -> None:
    victim = cluster.placed[cluster.leader(topic)]
    victim.pause()
    time.sleep(seconds)
    victim.go_on()


def cut(*, hears: bool, speaks: bool, others: int = 2) -> Fault:
    """A leader loses so many of the others, both ways or one."""

    def fault(cluster: FaultyCluster, topic: str, _: Load, seconds: float) -> None:
        victim = cluster.leader(topic)
        for other in [number for number in cluster.brokers if number != victim][:others]:
            if not hears:
                cluster.network.cut(other, victim)
            if not speaks:
                cluster.network.cut(victim, other)
        time.sleep(seconds)
        cluster.network.heal()

    return fault


FAULTS: dict[str, Fault] = {
    "kill -9 of a leader": kill,
    "restart of all brokers, one by one": rolling,
    "a leader is cut off, clients reach it": cut(hears=False, speaks=False),
    "a leader does not hear the others": cut(hears=False, speaks=True),
    "a leader is not heard by the others": cut(hears=True, speaks=False),
    "a leader and one follower lose each other": cut(hears=False, speaks=False, others=1),
    "a leader does not hear one follower": cut(hears=False, speaks=True, others=1),
    "a leader is not heard by one follower": cut(hears=True, speaks=False, others=1),
    "a leader is stopped (SIGSTOP)": pause,
}


def measure(cluster: FaultyCluster, topic: str, fault: Fault, seconds: float, patience_ms: int) -> tuple[float, float]:
    cluster.wait_in_sync(topic)
    load = Load(cluster, topic, patience_ms)
    try:
        load.settle()
        begun = time.monotonic()
        fault(cluster, topic, load, seconds)
        load.settle()
        cluster.wait_in_sync(topic)
        return load.longest(begun)
    finally:
        load.close()
        failures = [failure for each in load.beats for failure in each.failures]
        if failures:
            print(len(failures), "records failed:", failures[0], flush=True)


def report(found: dict[str, list[tuple[float, float]]], rounds: int, seconds: float) -> str:
    lines = [
        f"{PARTITIONS} partitions; faults of {seconds:.0f} s; the worst of {rounds} rounds, the best in brackets. Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
        "",
        "| what happens | nothing acknowledged at all, s | worst partition, s |",
        "| --- | ---: | ---: |",
    ]
    for name, pairs in found.items():
        columns = [f"{max(column):.1f} ({min(column):.1f})" for column in zip(*pairs, strict=True)]
        lines.append(f"| {name} | {' | '.join(columns)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="that a fault lasts")
    parser.add_argument("--timeout-ms", type=int, default=1000, help="after which producers give a broker up")
    parser.add_argument("--only", default="", help="faults whose name contains this text")
    parser.add_argument("--write", action="store_true", help="write the table into RESULTS.md")
    parser.add_argument("--home", type=Path, help="where brokers keep their data and logs; else they are removed")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="kompat-bench-") as directory,
        faulty_cluster(args.home or Path(directory), 3, SETTINGS) as cluster,
    ):
        topic = cluster.create(partitions=PARTITIONS)
        for _ in range(args.rounds):
            for name, fault in FAULTS.items():
                if args.only in name and (cluster.network.can_cut or fault in (kill, rolling, pause)):
                    found.setdefault(name, []).append(measure(cluster, topic, fault, args.seconds, args.timeout_ms))
                    together, worst = found[name][-1]
                    print(f"{name}: {together:.2f} s, worst partition {worst:.2f} s", flush=True)
    text = report(found, args.rounds, args.seconds)
    print(text)
    if args.write:
        write_results("failover", text)


if __name__ == "__main__":
    main()
