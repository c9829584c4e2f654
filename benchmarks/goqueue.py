"""The figures that GoQueue claims for three machines, times ten, on one: `python -m benchmarks.goqueue [--write]`.

10-byte payloads, acks=all, and nothing is sent before what was sent before it is acknowledged: one by one on one connection, or by
eight at a time, be it on a connection each, or on one, as a client that eight threads share has it. The clients are prebuilt requests
on bare sockets, each connection a process of its own, so that the broker is what is measured. One partition a connection.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import socket
import struct
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs hide it

from benchmarks.compare import write_results
from benchmarks.processes import Process, kompat, usage
from kompat.protocol.records import Record, build_batch

TOPIC = "goqueue"
VALUE = b"0123456789"
ROUNDS = 3


@dataclass(frozen=True)
class Measure:
    name: str
    connections: int
    batch: int  # records in each request
    claimed: int  # records a second
    in_flight: int = 1  # requests, on each connection


MEASURES = (
    Measure("one by one", 1, 1, 320),
    Measure("one by one, 8 at a time on one connection", 1, 1, 1_300, in_flight=8),
    Measure("one by one, 8 connections", 8, 1, 1_300),
    Measure("batches of 100", 1, 100, 30_000),
    Measure("batches of 100, 8 at a time on one connection", 1, 100, 30_000, in_flight=8),
    Measure("batches of 1,000", 1, 1_000, 220_000),
    Measure("batches of 1,000, 4 at a time on one connection", 1, 1_000, 220_000, in_flight=4),
)


def request(partition: int, records: int) -> bytes:
    """Produce v7: one batch."""
    now = time.time_ns() // 1_000_000
    batch = bytes(build_batch([Record(index, now, None, VALUE) for index in range(records)]))
    head = struct.pack(">hhih", 0, 7, 1, 5) + b"bench"
    name = TOPIC.encode()
    body = struct.pack(">hhiih", -1, -1, 30_000, 1, len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(head) + len(body)) + head + body


ERROR_AT = 4 + 4 + 2 + len(TOPIC) + 4 + 4  # in an answer: correlation id, topics, name, partitions, index


def send_all(port: int, partition: int, measure: Measure, seconds: float, start: Any, answer: Any) -> None:
    """In a process of its own: how long each request took."""
    sent = request(partition, measure.batch)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(30)
        answers = Answers(connection)
        connection.sendall(sent)
        answers.wait()
        start.wait()
        answer.send(_keep_sending(connection, answers, sent, measure.in_flight, seconds))


def _keep_sending(
    connection: socket.socket, answers: Answers, sent: bytes, in_flight: int, seconds: float
) -> list[float]:
    taken: list[float] = []
    now = time.perf_counter()
    end = now + seconds
    begun = deque([now] * in_flight)
    connection.sendall(sent * in_flight)
    while begun:
        done = answers.wait()
        now = time.perf_counter()
        taken += (now - begun.popleft() for _ in range(done))
        if now < end:
            connection.sendall(sent * done)
            begun.extend([now] * done)
    return taken


class Answers:
    """What comes back on a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def wait(self) -> int:
        """How many answers have come; none that tells of an error."""
        count = 0
        while not count:
            self._data += self._connection.recv(65536)
            while len(self._data) >= 4 and len(self._data) >= (size := 4 + int.from_bytes(self._data[:4], "big")):
                error = int.from_bytes(self._data[4 + ERROR_AT : 6 + ERROR_AT], "big", signed=True)
                if error:
                    raise RuntimeError(f"the broker answered error {error}")
                self._data = self._data[size:]
                count += 1
        return count


def run(broker: Process, measure: Measure, seconds: float) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(measure.connections + 1)
    pipes, clients = [], []
    for partition in range(measure.connections):
        here, there = context.Pipe(duplex=False)
        arguments = (broker.port, partition, measure, seconds, start, there)
        clients.append(context.Process(target=send_all, args=arguments))
        clients[-1].start()
        pipes.append(here)
    start.wait(60)
    before, begun = usage(broker.pids).cpu, time.perf_counter()
    taken = sorted(each for pipe in pipes for each in pipe.recv())
    elapsed, cpu = time.perf_counter() - begun, usage(broker.pids).cpu - before
    for client in clients:
        client.join()
    return {
        "per_second": len(taken) * measure.batch / elapsed,
        "p50_ms": taken[len(taken) // 2] * 1000,
        "p99_ms": taken[int(len(taken) * 0.99)] * 1000,
        "broker_us": cpu / len(taken) * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--port", type=int, default=29492)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    rows = [
        f"{os.cpu_count()} cores for broker and clients; the best of {ROUNDS} rounds.",
        "",
        "| 10-byte payloads | wanted: ten times GoQueue's | kompat, records/s | p50 / p99 of a request | broker CPU a request |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    broker = kompat(options.port, directory)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 8, 1)])[TOPIC].result(30)
        for measure in MEASURES:
            found = max((run(broker, measure, options.seconds) for _ in range(ROUNDS)), key=lambda r: r["per_second"])
            rows.append(
                f"| {measure.name} | {measure.claimed * 10:,} | {found['per_second']:,.0f} "
                f"| {found['p50_ms']:.2f} / {found['p99_ms']:.2f} ms | {found['broker_us']:.0f} µs |"
            )
            print(rows[-1], flush=True)
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(rows))
    if options.write:
        write_results("goqueue", "\n".join(rows))


if __name__ == "__main__":
    main()
