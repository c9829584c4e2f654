"""Disks that were emptied or put back while another broker is down: who has lost its promises neither votes nor counts."""

import asyncio
from unittest.mock import patch

import pytest

from kompat.log.storage.incarnation import Incarnations
from kompat.raft.replication import Replication
from kompat.types import NodeId
from tests.simulator.cluster import Cluster, run

WHILE = 20.0  # seconds in which nobody may lead


async def acknowledged_by_1_and_2(cluster: Cluster) -> None:
    """All brokers are down then, and broker 3 lacks what was acknowledged last."""
    cluster.start()
    await cluster.append(b"all have it")
    await cluster.settled()
    cluster.crash(2)
    cluster.disks[2].save()
    cluster.start(2)
    await cluster.settled()
    cluster.crash(3)
    await cluster.append(b"1 and 2 have it")
    cluster.crash(1)
    cluster.crash(2)


async def come_back(cluster: Cluster, *, emptied: bool) -> None:
    disk = cluster.disks[2]
    cluster.disks[2] = disk.emptied() if emptied else disk.put_back()
    cluster.start(3)
    cluster.start(2, voters=() if emptied else None)
    cluster._meet([3])


async def has_leader(cluster: Cluster) -> bool:
    await asyncio.sleep(WHILE)
    cluster.check()
    return bool(cluster.leaders)


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "put back"])
def test_two_brokers_do_not_go_on_without_what_the_third_has_and_one_of_them_has_lost(emptied: bool) -> None:
    async def test(cluster: Cluster) -> None:
        await acknowledged_by_1_and_2(cluster)
        await come_back(cluster, emptied=emptied)

        assert not await has_leader(cluster)
        assert cluster.nodes[2].replica.is_in_doubt
        assert cluster.nodes[2].replication.in_doubt == 1
        cluster.start(1)
        await cluster.append(b"then")
        await cluster.settled()

        for node in cluster.nodes.values():
            assert await node.values() == [b"all have it", b"1 and 2 have it", b"then"]
        await cluster.until(lambda: not cluster.nodes[2].is_in_doubt and cluster.nodes[2].is_quiet)
        cluster.restart(2)
        assert not cluster.nodes[2].is_in_doubt  # what it has caught up with it has, in this directory

    run(test)


def test_without_its_doubts_an_emptied_disk_loses_what_was_acknowledged() -> None:
    async def test(cluster: Cluster) -> None:
        await acknowledged_by_1_and_2(cluster)
        with patch.object(Replication, "_look_for_losses", lambda replication, replica: None):
            await come_back(cluster, emptied=True)
            assert await has_leader(cluster)

    run(test)


def test_without_the_meetings_a_disk_that_was_put_back_loses_what_was_acknowledged() -> None:
    async def test(cluster: Cluster) -> None:
        await acknowledged_by_1_and_2(cluster)
        with patch.object(Incarnations, "is_set_back", lambda incarnations, seen: False):
            await come_back(cluster, emptied=False)
            assert await has_leader(cluster)

    run(test)


def test_a_leader_does_not_commit_by_the_answers_of_one_that_may_have_promised_a_later_term() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"all have it")
        await cluster.settled()
        leader = await cluster.leader()
        emptied, other = (node for node in (1, 2, 3) if node != leader.node_id)
        cluster.crash(emptied)
        cluster.crash(other)
        cluster.disks[emptied] = cluster.disks[emptied].emptied()
        cluster.start(emptied, voters=())
        await asyncio.sleep(WHILE)

        assert leader.partition.high_watermark == 1
        assert cluster.nodes[emptied].partition.log_end_offset == 0
        cluster.start(other)
        await cluster.append(b"then")
        await cluster.settled()

    run(test)


def test_an_operator_may_have_those_that_are_there_go_on_and_who_was_away_takes_their_log() -> None:
    async def test(cluster: Cluster) -> None:
        await acknowledged_by_1_and_2(cluster)
        await come_back(cluster, emptied=True)
        assert not await has_leader(cluster)
        for node in (2, 3):
            cluster.nodes[node].replica.recover()
        await cluster.append(b"without it")
        await cluster.settled()

        cluster.start(1)
        await cluster.settled(60)

        for node in cluster.nodes.values():
            assert await node.values() == [b"all have it", b"without it"]
        await cluster.until(lambda: not any(node.is_in_doubt for node in cluster.nodes.values()))
        cluster.crash(3)
        await cluster.append(b"with what it got")

    run(test)


def test_a_new_voter_is_not_in_doubt_for_long() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        cluster.start(4, voters=())
        await leader.replica.change_members([NodeId(1), NodeId(2), NodeId(3), NodeId(4)])
        await cluster.until(lambda: not cluster.nodes[4].is_in_doubt)

    run(test)
