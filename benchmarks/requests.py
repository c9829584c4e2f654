"""CPU time that the event loop of a broker spends on a request, by API, from socket to socket: what a change to the hot path costs.

    python -m benchmarks.requests [ROUNDS] [--json]

The broker runs in a thread of its own, keeps its log in memory and is sent some requests at a time on one connection. The median of all
rounds counts. Whatever else runs on the machine adds to it all the same: two versions are compared by many short runs in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from kompat.broker import Broker, new_event_loop
from kompat.config.load import load
from kompat.protocol.records import Record, build_batch
from tests.handlers import wire

TOPIC, GROUP = "bench", "bench"
REQUESTS = 1_000  # of each kind, a round
POLLS = 50  # of those that wait for a millisecond
LONGEST_ANSWER = 1 << 20


# -- requests ------------------------------------------------------------------------------------------------------------
def produce(records: int, acks: int = 1) -> bytes:
    batch = build_batch([Record(index, 1_700_000_000_000, None, bytes(100), ()) for index in range(records)])
    message = wire.message("ProduceRequest")
    topic = message.TopicProduceData(
        name=TOPIC, partition_data=[message.TopicProduceData.PartitionProduceData(index=0, records=bytes(batch))]
    )
    return wire.request_frame(message(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[topic]), 9)


def fetch(offset: int, max_wait_ms: int) -> bytes:
    message = wire.message("FetchRequest")
    partition = message.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=4096,
    )
    topic = message.FetchTopic(topic=TOPIC, partitions=[partition])
    request = message(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=0,
        session_epoch=-1, topics=[topic], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return wire.request_frame(request, 12)


def list_offsets(timestamp: int = -1) -> bytes:
    """As Spark asks, twice for every 500 records that it reads."""
    message = wire.message("ListOffsetsRequest")
    partition = message.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=timestamp
    )
    topic = message.ListOffsetsTopic(name=TOPIC, partitions=[partition])
    return wire.request_frame(message(replica_id=-1, isolation_level=0, topics=[topic]), 8)


def metadata() -> bytes:
    message = wire.message("MetadataRequest")
    topics = [message.MetadataRequestTopic(name=TOPIC)]
    return wire.request_frame(message(topics=topics, allow_auto_topic_creation=True), 9)


def offset_commit() -> bytes:
    message = wire.message("OffsetCommitRequest")
    topics = message.OffsetCommitRequestTopic
    partition = topics.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    request = message(
        group_id="commits", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        topics=[topics(name=TOPIC, partitions=[partition])],
    )  # fmt: skip
    return wire.request_frame(request, 8)


def heartbeat(generation: int, member: str) -> bytes:
    message = wire.message("HeartbeatRequest")
    return wire.request_frame(message(group_id=GROUP, generation_id=generation, member_id=member), 4)


def join(connection: socket.socket) -> tuple[int, str]:
    """The generation of a group, and its only member."""
    message = wire.message("JoinGroupRequest")
    protocol = message.JoinGroupRequestProtocol(name="range", metadata=b"")
    joined = wire.exchange(
        connection,
        message(
            group_id=GROUP, session_timeout_ms=300_000, rebalance_timeout_ms=300_000, member_id="",
            protocol_type="consumer", protocols=[protocol],
        ),
        3,
    )  # fmt: skip
    generation, member = joined.generation_id, joined.member_id
    message = wire.message("SyncGroupRequest")
    assignment = message.SyncGroupRequestAssignment(member_id=member, assignment=b"")
    wire.exchange(
        connection, message(group_id=GROUP, generation_id=generation, member_id=member, assignments=[assignment]), 2
    )
    return generation, member


# -- measuring -----------------------------------------------------------------------------------------------------------
class Bench:
    def __init__(self, connection: socket.socket, clock: int) -> None:
        """`clock`: that of the broker's thread."""
        self._connection = connection
        self._clock = clock
        self._room = bytearray(LONGEST_ANSWER)

    def run(self, frame: bytes, at_a_time: int, count: int) -> float:
        """Microseconds of the broker's thread for a request."""
        block = frame * at_a_time
        begun = time.clock_gettime(self._clock)
        for _ in range(count // at_a_time):
            self._connection.sendall(block)
            self._read_answers(at_a_time)
        return (time.clock_gettime(self._clock) - begun) / (count // at_a_time * at_a_time) * 1e6

    def _read_answers(self, count: int) -> None:
        begun, end = 0, 0
        while count:
            end += self._connection.recv_into(memoryview(self._room)[end:])
            while count and end - begun >= 4 and end >= (after := begun + 4 + self._length(begun)):
                begun, count = after, count - 1

    def _length(self, place: int) -> int:
        length: int = struct.unpack_from(">i", self._room, place)[0]
        return length


@contextmanager
def running() -> Iterator[tuple[tuple[str, int], int]]:
    """A broker's address, and the clock of its thread."""
    begun: Any = threading.Event()
    shared: dict[str, Any] = {}

    async def serve() -> None:
        given = {"port": "0", "data": ":memory:", "http-port": "none", "group.initial.rebalance.delay.ms": "0"}
        broker = Broker(load(given, environ={}))
        await broker.start()
        shared["loop"], shared["end"], shared["address"] = asyncio.get_running_loop(), asyncio.Event(), broker.endpoint
        begun.set()
        await shared["end"].wait()
        await broker.stop()

    def run() -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    try:
        yield shared["address"], time.pthread_getcpuclockid(thread.ident)
    finally:
        shared["loop"].call_soon_threadsafe(shared["end"].set)
        thread.join()


def prepare(connection: socket.socket) -> int:
    """Make the topic and put something in it; where its log ends."""
    connection.sendall(metadata())
    wire.read_frame(connection)
    connection.sendall(produce(10))
    wire.read_frame(connection)
    return 10


def measure(rounds: int) -> dict[str, float]:
    with running() as (address, clock), socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        prepare(connection)
        bench = Bench(connection, clock)
        beat = heartbeat(*join(connection))
        kinds: dict[str, tuple[bytes, int, int]] = {
            f"{name} x{at_a_time}": (frame, at_a_time, REQUESTS)
            for name, frame in {
                "Produce 100 B": produce(1),
                "Produce 1 KiB": produce(10),
                "Fetch": fetch(0, 0),
                "ListOffsets": list_offsets(),
                "Metadata": metadata(),
                "OffsetCommit": offset_commit(),
                "Heartbeat": beat,
            }.items()
            for at_a_time in ((1, 5, 50) if name.startswith("Produce") else (1, 50))
        }
        found: dict[str, list[float]] = {name: [] for name in (*kinds, "Fetch at the end x1")}
        for _ in range(rounds):
            for name, kind in kinds.items():
                found[name].append(bench.run(*kind))
            found["Fetch at the end x1"].append(bench.run(_fetch_at_end(connection), 1, POLLS))
    return {name: median(each) for name, each in found.items()}


def _fetch_at_end(connection: socket.socket) -> bytes:
    connection.sendall(list_offsets())
    answer = wire.decode_response("ListOffsets", 8, wire.read_frame(connection))
    return fetch(answer.topics[0].partitions[0].offset, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="for whoever compares two versions")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:22} {figure:7.2f} µs")


if __name__ == "__main__":
    main()
