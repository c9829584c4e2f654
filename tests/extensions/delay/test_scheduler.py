"""Delivery on an event loop, by one timer for all partitions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kompat.clock import Clock, ManualClock, SystemClock
from kompat.config.topic import TopicConfig
from kompat.extensions.delay import scheduler
from kompat.extensions.delay.records import TIMER
from kompat.extensions.service import Extensions
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.log.storage.memory import MemoryStore
from kompat.protocol.records import Record, build_batch, iterate, split_batches
from kompat.types import LogId, Offset
from tests.extensions.support import message


class Node:
    """The part of a broker that this is about."""

    def __init__(self, clock: Clock, store: MemoryStore | None = None) -> None:
        self.clock = clock
        self.store = store or MemoryStore()
        self.commit = GroupCommit(self.store, asyncio.get_running_loop(), on_failed=lambda: self.logs.reload_failed())
        self.logs = Logs(self.store, self.commit, clock)
        self.extensions = Extensions(self.logs, clock, lambda topic: topic.startswith("__"))
        self.arrivals: dict[str, int] = {}  # when each record was first readable

    def open(self, index: int = 0, topic: str = "topic") -> Partition:
        return self.logs.open(LogId(UUID(int=7), index), topic, index, TopicConfig())

    def send(self, partition: Partition, value: str, **asked: object) -> None:
        partition.append(memoryview(build_batch([message(value, now=self.clock.now(), **asked)])))

    async def until(self, *partitions: Partition, count: int) -> list[Record]:
        """Wait for so many records."""
        changed = asyncio.Event()
        wake: Callable[[object], None] = lambda _: changed.set()  # noqa: E731
        for partition in partitions:
            partition.watch(wake)
        try:
            async with asyncio.timeout(10):
                while len(found := [r for p in partitions for r in self.records(p)]) < count:
                    await changed.wait()
                    changed.clear()
            return found
        finally:
            for partition in partitions:
                partition.unwatch(wake)

    def records(self, partition: Partition) -> list[Record]:
        found, offset = [], Offset(0)
        while offset < partition.high_watermark:
            run = partition.store.read(offset, 1 << 20, partition.high_watermark)
            found += [r for b in run.buffers for each in split_batches(memoryview(b)) for r in iterate(each)]
            offset = run.next_offset
        for record in found:
            self.arrivals.setdefault((record.value or b"").decode(), self.clock.now())
        return found

    async def close(self) -> None:
        self.extensions.close()
        await self.logs.close()
        await self.commit.close()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node(SystemClock())
    node.extensions.scheduler.start()
    yield node
    await node.close()


async def test_timers_shorter_than_a_tick_end_and_none_ends_early(node: Node) -> None:
    partition = node.open()
    for delay in (50, 1, 3, 2):
        node.send(partition, str(delay), delay_ms=delay)

    found = await node.until(partition, count=4)

    assert sorted(r.value or b"" for r in found) == [b"1", b"2", b"3", b"50"]
    assert [r.timestamp for r in found] == sorted(r.timestamp for r in found)
    assert all(node.arrivals[(r.value or b"").decode()] >= r.timestamp for r in found)


async def test_many_partitions_share_one_timer(node: Node) -> None:
    partitions = [node.open(index) for index in range(20)]
    begun = node.clock.now() + 300  # by then, all are parked
    for delay in (60, 20, 40):
        for partition in partitions:
            node.send(partition, f"{partition.index}-{delay}", deliver_at=begun + delay)

    found = await node.until(*partitions, count=60)

    for partition in partitions:
        own = [r.value for r in found if (r.value or b"").startswith(f"{partition.index}-".encode())]
        assert own == [f"{partition.index}-{delay}".encode() for delay in (20, 40, 60)]
    assert node.extensions.scheduler._armed == {}


async def test_thousands_that_are_due_together_all_arrive_in_order(node: Node) -> None:
    partition = node.open()
    due = node.clock.now() + 100
    records = [message(str(i), now=node.clock.now(), deliver_at=due) for i in range(3000)]
    partition.append(
        memoryview(build_batch([Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)]))
    )

    found = await node.until(partition, count=3000)

    assert [int(r.value or b"") for r in found] == list(range(3000))


async def test_a_clock_that_is_set_forward_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLEEP", 0.01)
    clock = ManualClock()
    node = Node(clock)
    node.extensions.scheduler.start()
    partition = node.open()
    node.send(partition, "v", delay_ms=3_600_000)
    await asyncio.sleep(0)

    clock.advance(3_600_000)

    assert len(await node.until(partition, count=1)) == 1
    await node.close()


async def test_what_was_due_while_the_broker_was_down_is_delivered_when_it_starts() -> None:
    clock = ManualClock()
    node = Node(clock)
    node.send(node.open(), "v", delay_ms=1000)
    await node.close()
    clock.advance(5000)

    node = Node(clock, node.store)
    partition = node.open()
    assert node.records(partition) == []  # not before it starts
    node.extensions.scheduler.start()

    assert len(await node.until(partition, count=1)) == 1
    await node.close()


async def test_nothing_is_delivered_after_the_end(node: Node) -> None:
    partition = node.open()
    node.send(partition, "v", delay_ms=1)
    node.extensions.close()

    await asyncio.sleep(0.05)

    assert node.records(partition) == []


async def test_the_brokers_own_topics_are_left_alone(node: Node) -> None:
    partition = node.open(topic="__internal")
    node.send(partition, "v", delay_ms=1000)

    assert len(await node.until(partition, count=1)) == 1


@pytest.mark.slow
async def test_the_queue_does_not_grow_with_every_delivery(node: Node) -> None:
    partition = node.open()
    node.send(partition, "far", delay_ms=600_000)
    for i in range(300):
        node.send(partition, str(i), delay_ms=1)
        await node.until(partition, count=i + 1)

    assert len(node.extensions.scheduler._queue) <= scheduler.VOID_TOLERATED + 2


async def test_a_partition_that_cannot_be_read_does_not_stop_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "RETRY_MS", 1)
    damaged, sound = node.open(0), node.open(1)
    node.send(damaged, "damaged", delay_ms=20)
    node.send(sound, "sound", delay_ms=25)
    await node.commit.turn()
    [(name, value)] = damaged.store.states(TIMER)
    await damaged.write_states([(name, b"rubbish")])

    assert [r.value for r in await node.until(sound, count=1)] == [b"sound"]
    await damaged.write_states([(name, value)])
    assert [r.value for r in await node.until(damaged, count=1)] == [b"damaged"]
    assert len(caplog.records) == 1


async def test_only_who_leads_a_partition_delivers_and_a_new_leader_takes_it_up(node: Node) -> None:
    partition = node.open()
    node.send(partition, "later", delay_ms=30)
    await node.commit.turn()
    partition.replicate(cast("Any", SimpleNamespace(is_leading=False)))
    assert partition.interceptor is not None
    partition.interceptor.reload()  # as a replica does when it loses the lead

    assert not node.extensions.scheduler._armed
    await asyncio.sleep(0.1)
    partition.replicate(None)
    assert node.records(partition) == []

    partition.interceptor.reload()  # as a replica does when it gains it
    [record] = await node.until(partition, count=1)
    assert record.value == b"later"
