"""A broker without others is a cluster of one: it leads and controls everything, and loads nothing of Raft for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from kompat.cluster.messages import DescribeNode
from kompat.cluster.metadata import METADATA_LOG
from kompat.cluster.service import ClusterService
from kompat.errors import ErrorCode, KafkaError
from kompat.types import LogId, NodeId
from tests.cluster.support import create, service_on
from tests.coordination.support import Disk, Node

ME, NOBODY = NodeId(1), NodeId(2)


@pytest.fixture
async def service() -> AsyncIterator[ClusterService]:
    node = Node(Disk())
    service = await service_on(node)
    yield service
    await service.close()
    await node.close()


async def test_it_leads_and_controls_everything(service: ClusterService) -> None:
    [topic] = await create(service, "t", partitions=3)

    assert service.controller == ME
    assert service.is_controller
    assert {service.local.leader(LogId(topic.id, index)) for index in range(3)} == {ME}
    assert service.local.leader(METADATA_LOG) == ME
    assert service.local.metadata_voters() == ()
    assert len(service.local.replication) == 0


async def test_a_topic_that_is_gone_is_led_by_nobody(service: ClusterService) -> None:
    [topic] = await create(service, "t")
    await service.delete_topics(["t"])

    assert service.local.leader(LogId(topic.id, 0)) is None


async def test_it_describes_itself_as_any_broker_does_and_reaches_nobody_else(service: ClusterService) -> None:
    found = await service.rpc.call(ME, DescribeNode())
    assert (found.has_metadata, found.controller, found.peers) == (True, ME, {})

    with pytest.raises(KafkaError) as refused:
        await service.rpc.call(NOBODY, DescribeNode())
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE


async def test_its_partitions_are_owned_once(service: ClusterService) -> None:
    class Watcher:
        led = 0

        def leading(self, partition: object, epoch: object) -> None:
            self.led += 1

        def following(self, partition: object) -> None:
            pass

    watcher = Watcher()
    service.local.leadership.watch(watcher)
    before = watcher.led
    service.local.leadership.own(service.log)

    assert watcher.led == before


def test_nothing_of_raft_is_imported_for_it() -> None:
    script = "import sys, kompat.broker; print([name for name in sys.modules if name.startswith('kompat.raft')])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603

    assert found.stdout.strip() == "[]"
