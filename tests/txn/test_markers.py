"""The ends of transactions reach partitions wherever they are led, and coordinators wherever they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kompat.clock import SystemClock
from kompat.cluster.service import ClusterService
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.protocol.records import ControlType, control_type, split_batches
from kompat.rpc.router import Router
from kompat.txn.machine import Producer, TransactionMachine
from kompat.txn.markers import Marker, Markers
from kompat.txn.service import AddPartitions, TransactionService, VerifyPartition
from kompat.types import LogId, NodeId, Offset, TopicPartition
from tests.coordination.support import Disk, FixedTopic, LocalDirectory, Node

MARKER = Marker(producer_id=7, producer_epoch=1, commit=True, coordinator_epoch=3)
DATA, OFFSETS, STATE = TopicPartition("t", 0), TopicPartition("__consumer_offsets", 0), "__transaction_state"


class Cluster:
    """Topics of one partition each, and a router that leads them all."""

    def __init__(self, node: Node, *names: str) -> None:
        self.topics: dict[str, Any] = {}
        self.logs: dict[str, Partition] = {}
        for number, name in enumerate(names, 1):
            topic_id = UUID(int=number)
            self.logs[name] = node.logs.open(LogId(topic_id, 0), name, 0, TopicConfig())
            internal = name.startswith("__")
            self.topics[name] = SimpleNamespace(id=topic_id, name=name, internal=internal, partitions=[None])
        self.rpc = Router(NodeId(1), LocalDirectory(node.logs))

    def topic(self, name: str) -> Any:
        return self.topics.get(name)


class Offsets:
    def __init__(self) -> None:
        self.ended: list[tuple[Any, ...]] = []

    async def end_transaction(
        self, partition: Partition, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
    ) -> None:
        self.ended.append((partition, producer_id, producer_epoch, commit, coordinator_epoch))


async def test_a_marker_is_a_control_batch_in_the_partition() -> None:
    node, offsets = Node(Disk()), Offsets()
    cluster = Cluster(node, "t")
    await Markers(cast("ClusterService", cluster), offsets, SystemClock()).write(DATA, MARKER)

    log = cluster.logs["t"]
    [buffer] = log.store.read(Offset(0), 1 << 20, log.high_watermark).buffers
    assert [control_type(batch) for batch in split_batches(memoryview(buffer))] == [ControlType.COMMIT]
    assert offsets.ended == []
    await node.close()


async def test_groups_hear_of_the_end_in_a_partition_of_the_offsets() -> None:
    node, offsets = Node(Disk()), Offsets()
    cluster = Cluster(node, OFFSETS.topic)
    await Markers(cast("ClusterService", cluster), offsets, SystemClock()).write(OFFSETS, MARKER)

    assert offsets.ended == [(cluster.logs[OFFSETS.topic], 7, 1, True, 3)]
    await node.close()


async def test_nobody_needs_a_marker_where_the_partition_is_gone_or_is_the_brokers_own() -> None:
    node = Node(Disk())
    cluster = Cluster(node, STATE)
    markers = Markers(cast("ClusterService", cluster), Offsets(), SystemClock())
    await markers.write(DATA, MARKER)
    await markers.write(TopicPartition(STATE, 0), MARKER)
    await markers.write(TopicPartition(STATE, 1), MARKER)

    assert cluster.logs[STATE].log_end_offset == 0
    await node.close()


@pytest.mark.parametrize("request_class", [AddPartitions, VerifyPartition])
async def test_a_coordinator_that_cannot_be_reached_is_not_the_coordinator(
    request_class: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not a leader that is missing: producers know nothing of those."""
    monkeypatch.setattr(request_class, "patience", 0.0)
    node = Node(Disk())
    topic = FixedTopic(STATE, [node.logs.open(LogId(UUID(int=9), 0), STATE, 0, TopicConfig())])

    class Nobody(LocalDirectory):
        def led(self, log_id: LogId) -> Partition | None:
            return None

    async def next_id() -> int:
        raise AssertionError

    transactions = TransactionService(
        topic,
        rpc=Router(NodeId(1), Nobody(node.logs, topic)),
        make=lambda: TransactionMachine(max_timeout_ms=1000, expiration_ms=1000),
        next_producer_id=next_id,
        markers=cast("Any", None),
        clock=node.clock,
    )
    calls = {
        AddPartitions: lambda: transactions.add_patiently("id", Producer(1, 0), [DATA]),
        VerifyPartition: lambda: transactions.verify("id", Producer(1, 0), DATA),
    }
    with pytest.raises(KafkaError) as raised:
        await calls[request_class]()
    assert raised.value.code is ErrorCode.NOT_COORDINATOR
    await transactions.close()
    await node.close()
