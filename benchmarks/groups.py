"""Groups next to Apache Kafka: `python -m benchmarks.groups [--write]`.

A thousand members of one group rebalance; a thousand groups commit; what a real consumer waits for: its first message
after it subscribes, and the pause that a member sees when another joins (stock timers make up much of it).
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

from benchmarks import kafka
from benchmarks.compare import write_results
from benchmarks.processes import Process, Window, kompat
from benchmarks.raw_client import RawClient
from benchmarks.workloads import PARTITIONS, Run

MEMBERS = 1000
GROUPS = 1000
NONE, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, LOADING, MEMBER_ID_REQUIRED = 0, 15, 16, 14, 79
JOIN, SYNC, COMMIT = 6, 4, 8
Figures = dict[str, float]


# -- a thousand members -----------------------------------------------------------------------------------------------
class Member:
    def __init__(self, client: RawClient, group: str) -> None:
        self._client = client
        self._group = group
        self.id = ""
        self.generation = -1  # that it has an assignment of

    async def is_current(self) -> bool:
        request = HeartbeatRequest[3](
            group_id=self._group, generation_id=self.generation, member_id=self.id, group_instance_id=None
        )
        return bool((await self._client.call(request, HeartbeatResponse[3])).error_code == NONE)

    async def rebalance(self) -> None:
        """Join, and sync: the leader gives everybody an assignment."""
        joined = await self._join()
        if joined.error_code == MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            joined = await self._join()
        if joined.error_code != NONE:
            raise RuntimeError(f"join: {joined.error_code}")
        self.id = joined.member_id
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"x" * 40)
            for each in (joined.members if joined.leader == self.id else [])
        ]
        request = SyncGroupRequest[SYNC](
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self.id,
            group_instance_id=None,
            assignments=assignments,
        )
        synced = await self._client.call(request, SyncGroupResponse[SYNC])
        if synced.error_code != NONE:
            raise RuntimeError(f"sync: {synced.error_code}")
        self.generation = joined.generation_id

    async def _join(self) -> Any:
        request = JoinGroupRequest[JOIN](
            group_id=self._group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=120_000,
            member_id=self.id,
            group_instance_id=None,
            protocol_type="bench",  # opaque to the broker: what it costs is the protocol itself
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m" * 60)],
        )
        return await self._client.call(request, JoinGroupResponse[JOIN])


async def rebalance(broker: Process) -> Figures:
    """All rejoin a group that they are all members of, as when one more comes."""
    group = f"rebalance-{time.time_ns()}"
    await _coordinator(broker, group)
    clients = [await RawClient.connect(broker.bootstrap) for _ in range(MEMBERS)]
    members = [Member(client, group) for client in clients]
    await _settle(members)
    window = Window(broker.pids)
    await _settle(members)
    figures = window.close(MEMBERS)
    for client in clients:
        client.close()
    return {"seconds": figures["seconds"], "broker_us": figures["broker_us"]}


async def _settle(members: list[Member]) -> None:
    """Until all are in one generation: meanwhile they heartbeat, and rejoin when they are told to, as clients do."""
    settled = asyncio.Event()
    current: dict[int, int] = defaultdict(int)  # generation → how many are in it

    async def live(member: Member) -> None:
        while not settled.is_set():
            try:
                await member.rebalance()
            except RuntimeError:  # the generation was over before it synced
                continue
            current[member.generation] += 1
            if current[member.generation] == len(members):
                settled.set()
            while not await _within(settled, 0.05) and await member.is_current():
                pass
            current[member.generation] -= 1

    await asyncio.gather(*map(live, members))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def _coordinator(broker: Process, group: str) -> None:
    client = await RawClient.connect(broker.bootstrap)
    try:
        async with asyncio.timeout(60):
            while True:
                request = FindCoordinatorRequest[3](key=group, key_type=0)
                found = await client.call(request, FindCoordinatorResponse[3])
                if found.error_code == NONE:
                    return
                await asyncio.sleep(0.1)
    finally:
        client.close()


# -- a thousand groups ------------------------------------------------------------------------------------------------
async def commits(broker: Process, topic: str, seconds: float = 5, connections: int = 20) -> Figures:
    await _coordinator(broker, "commit-0")
    clients = [await RawClient.connect(broker.bootstrap) for _ in range(connections)]
    for i, client in enumerate(clients):
        await _commit(client, f"commit-{i}", topic, 0)
    done = 0
    window = Window(broker.pids)

    async def loop(number: int, client: RawClient) -> None:
        nonlocal done
        turn = 0
        while time.perf_counter() - window.started < seconds:
            turn += 1
            group = (number + turn * connections) % GROUPS
            await _commit(client, f"commit-{group}", topic, turn)
            done += 1

    await asyncio.gather(*(loop(i, client) for i, client in enumerate(clients)))
    figures = window.close(done)
    for client in clients:
        client.close()
    return {"per_second": figures["per_second"], "broker_us": figures["broker_us"]}


async def _commit(client: RawClient, group: str, topic: str, offset: int) -> None:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=i, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        for i in range(PARTITIONS)
    ]
    request = OffsetCommitRequest[COMMIT](
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    async with asyncio.timeout(60):
        while True:
            answer = await client.call(request, OffsetCommitResponse[COMMIT])
            code = answer.topics[0].partitions[0].error_code
            if code == NONE:
                return
            if code not in (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, LOADING):
                raise RuntimeError(f"commit: {code}")
            await asyncio.sleep(0.05)


# -- a real consumer --------------------------------------------------------------------------------------------------
class Polling(threading.Thread):
    """A consumer that polls, and notes when its messages came."""

    def __init__(self, run: Run, protocol: str) -> None:
        super().__init__(daemon=True)
        settings: dict[str, Any] = {"group_protocol": protocol}
        if protocol == "classic":
            settings["partition_assignment_strategy"] = "cooperative-sticky"
        self._consumer: Consumer = run.consumer(**settings)
        self._topic = run.topic
        self.times: list[float] = []
        self.assigned = 0
        self.done = threading.Event()
        self.begun = 0.0

    def run(self) -> None:
        self.begun = time.perf_counter()
        self._consumer.subscribe([self._topic])
        while not self.done.is_set():
            message = self._consumer.poll(0.01)
            if message is not None and message.error() is None:
                self.times.append(time.perf_counter())
            self.assigned = len(self._consumer.assignment())
        self._consumer.close()


def consumer(broker: Process, protocol: str) -> Figures:
    run = Run(broker.bootstrap, broker.pids, f"group-{protocol}-{time.time_ns()}", 0)
    run.create_topic()
    first, second = Polling(run, protocol), Polling(run, protocol)
    stop = threading.Event()
    trickle = threading.Thread(target=_trickle, args=(run, stop), daemon=True)
    trickle.start()
    try:
        first.start()
        _await(lambda: bool(first.times))
        _await(lambda: first.assigned == PARTITIONS)
        second.start()
        _await(lambda: bool(first.assigned and second.assigned and first.assigned + second.assigned == PARTITIONS))
        both = time.perf_counter()
        _await(lambda: bool(second.times))
    finally:
        stop.set()
        first.done.set()
        second.done.set()
        for thread in (first, second, trickle):
            if thread.ident is not None:
                thread.join(20)
    during = [t for t in first.times if t >= second.begun - 0.2]
    pauses = [b - a for a, b in pairwise(during)]
    run.delete_topic()
    return {
        "first_message_s": first.times[0] - first.begun,
        "both_assigned_s": both - second.begun,
        "pause_s": max(pauses, default=0.0),
    }


def _trickle(run: Run, stop: threading.Event) -> None:
    producer = Producer(run.config(linger_ms=0, acks=1))
    i = 0
    while not stop.is_set():
        producer.produce(run.topic, b"x", partition=i % PARTITIONS)
        producer.poll(0.002)
        i += 1
    producer.flush(10)


def _await(condition: Callable[[], bool], seconds: float = 40) -> None:
    deadline = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > deadline:
            raise RuntimeError("it did not happen in time")
        time.sleep(0.002)


# -- side by side -----------------------------------------------------------------------------------------------------
def measures(broker: Process, topic: str) -> dict[str, Callable[[], Figures]]:
    def awaited(work: Callable[[], Awaitable[Figures]]) -> Callable[[], Figures]:
        async def run() -> Figures:
            return await work()

        return lambda: asyncio.run(run())

    return {
        f"{MEMBERS:,} members rebalance": awaited(lambda: rebalance(broker)),
        f"{GROUPS:,} groups commit": awaited(lambda: commits(broker, topic)),
        "one consumer joins another, classic cooperative": lambda: consumer(broker, "classic"),
        "one consumer joins another, KIP-848": lambda: consumer(broker, "consumer"),
    }


def compare(brokers: list[Process], rounds: int) -> list[str]:
    plans = {}
    for broker in brokers:
        topic = Run(broker.bootstrap, broker.pids, "commits", 0)
        topic.create_topic()
        plans[broker.name] = measures(broker, topic.topic)
    rows = ["| measure | figure | kompat | Apache Kafka | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for name in plans[brokers[0].name]:
        samples: dict[str, list[Figures]] = {broker.name: [] for broker in brokers}
        for turn in range(rounds + 1):
            for broker in brokers if turn % 2 else brokers[::-1]:
                figures = plans[broker.name][name]()
                print(name, broker.name, figures, flush=True)
                if turn:  # the first round warms up
                    samples[broker.name].append(figures)
        for figure in samples[brokers[0].name][0]:
            ours, theirs = (statistics.median(s[figure] for s in samples[b.name]) for b in brokers)
            wanted = "≥ 1" if figure == "per_second" else "≤ 1"
            ratio = ours / theirs if theirs else float("nan")
            rows.append(f"| {name} | {figure} ({wanted}) | {ours:,.4g} | {theirs:,.4g} | **{ratio:.2f}** |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kompat-groups-"))
    brokers: list[Process] = []
    try:
        brokers.append(kompat(29092, directory / "kompat", "group.initial.rebalance.delay.ms=0"))
        brokers.append(kafka.start(29192, directory / "kafka"))
        text = "\n".join(compare(brokers, args.rounds))
        print(text)
        if args.write:
            write_results("groups", text)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
