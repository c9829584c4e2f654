"""Services of three brokers that call each other over a network that a test controls: what is lost or has moved on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest

from kompat.cluster.state import PartitionState, Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay.service import DelayService
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.priority.service import LaneService
from kompat.extensions.reads.service import ReadRange, ReadService
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId, Millis, NodeId
from tests.extensions.support import ExtendedLog, message
from tests.log.support import LOG_ID, NOW
from tests.rpc.network import ONE, THREE, TWO, Broker, Network, run

T = TypeVar("T")


class Leader(Broker):
    """A broker that has the log."""

    log: ExtendedLog

    def led(self, log_id: LogId) -> Partition | None:
        return self.log.partition if self.network.led_by.get(log_id) == self.me else None


class Nothing:
    """The logs of a broker that has none."""

    def all(self) -> list[Partition]:
        return []


class Services:
    def __init__(self, broker: Broker, topics: Cluster, logs: Any) -> None:
        partitions = PartitionLookup(topics)
        self.delays = DelayService(partitions, broker.rpc, cast("Logs", logs), topics.log.clock)
        self.lanes = LaneService(partitions, broker.rpc, cast("Logs", logs))
        self.reads = ReadService(partitions, broker.rpc)


class Cluster:
    """Broker 2 leads the only partition; broker 3 has its log as well."""

    def __init__(self) -> None:
        self.network = Network(ONE, TWO, THREE)
        self.log = ExtendedLog()
        for node in (TWO, THREE):
            self.network.brokers[node] = leader = Leader(node, self.network)
            leader.log = self.log
        self.network.elect(TWO, LOG_ID)
        self.services = {
            node: Services(broker, self, self.log if node == TWO else Nothing())
            for node, broker in self.network.brokers.items()
        }

    def topic(self, name: str) -> Topic | None:
        states = (PartitionState(0, (TWO, THREE)),)
        return Topic(name, LOG_ID.topic_id, states) if name == "topic" else None

    def __getitem__(self, node: NodeId) -> Services:
        return self.services[node]

    async def send(self, value: str, **asked: object) -> int:
        batch = self.log.stage_all([message(value, now=NOW, **asked)])
        self.log.commit.end_turn()
        return batch.base_offset

    async def turned(self, work: Coroutine[Any, Any, T]) -> T:
        """While turns of the log end."""
        task = asyncio.ensure_future(work)
        while not task.done():
            self.log.commit.end_turn()
            await asyncio.sleep(0.001)
        return task.result()


def test_any_broker_looks_at_what_waits_and_reads_and_nothing_is_called_where_it_is_led() -> None:
    async def check() -> None:
        cluster = Cluster()
        slot = await cluster.send("later", delay_ms=1000, schedule_id="id")
        await cluster.send("now")
        found = [await cluster[node].delays.list("topic") for node in (ONE, TWO)]
        for page in found:
            assert [(each.slot, each.record.value, each.due) for each in page.items] == [(slot, b"later", NOW + 1000)]
        calls = len(cluster.network.calls)
        assert await cluster[TWO].delays.find("topic", 0, found[1].items[0].slot) == found[1].items[0]
        timeline = await cluster[TWO].delays.timeline("topic", Millis(NOW), Millis(NOW + 2000), 2)
        assert [each.count for each in timeline.buckets] == [0, 1]
        assert len(cluster.network.calls) == calls
        for node in (ONE, TWO):
            read = await cluster[node].reads.read(ReadRange(topic="topic"))
            assert [each.record.value for each in read.records] == [b"now"]
            assert (await cluster[node].delays.topics())["topic"].waiting == 1
            assert (await cluster[node].lanes.statistics()).waiting == 0
            assert (await cluster[node].lanes.of_partition("topic", 0)).waiting == 0

    run(check())


def test_a_leader_that_has_moved_is_found_and_one_that_is_gone_is_told() -> None:
    async def check() -> None:
        cluster = Cluster()
        slot = await cluster.send("later", delay_ms=1000)
        cluster.network.elect(THREE, LOG_ID, known=False)
        asyncio.get_running_loop().call_later(1, cluster.network.elect, THREE, LOG_ID)
        [found] = (await cluster[ONE].delays.list("topic")).items
        assert cluster.network.calls[-1] == THREE
        moved = await cluster.turned(cluster[ONE].delays.reschedule("topic", 0, found.slot, Millis(NOW + 5000)))
        assert (moved.slot, moved.due) == (slot, NOW + 5000)

        cluster.network.down = {TWO, THREE}
        with pytest.raises(KafkaError) as raised:
            await cluster[ONE].reads.read(ReadRange(topic="topic"))
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster[ONE].delays.statistics()).waiting == 0  # of the brokers that can be reached

    run(check())


def test_a_lost_answer_is_asked_for_again_where_nothing_is_changed_and_told_where_something_is() -> None:
    async def check() -> None:
        cluster = Cluster()
        await cluster.send("later", delay_ms=1000)
        cluster.network.lost = 1
        [found] = (await cluster[ONE].delays.list("topic")).items
        cluster.network.lost = 1
        with pytest.raises(KafkaError) as raised:
            await cluster.turned(cluster[ONE].delays.cancel("topic", 0, found.slot))
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(KafkaError) as gone:
            await cluster.turned(cluster[ONE].delays.cancel("topic", 0, found.slot))
        assert gone.value.code is ErrorCode.RESOURCE_NOT_FOUND

    run(check())
