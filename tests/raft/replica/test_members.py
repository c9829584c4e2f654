"""Who belongs to a partition: new replicas, old ones, and what those get that need more than entries."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log.cache import TailCache
from kompat.log.commit import GroupCommit
from kompat.log.partition import Partition
from kompat.raft.engine import Settings
from kompat.types import NodeId, Offset
from tests.log.support import LOG_ID, batch
from tests.simulator.cluster import Cluster, run
from tests.simulator.disk import SimDisk
from tests.simulator.history import states_of
from tests.simulator.loop import SimClock


async def grow(cluster: Cluster, *nodes: int) -> None:
    for node in nodes:
        if node not in cluster.nodes:
            cluster.start(node, voters=())
    leader = await cluster.leader()
    await leader.replica.change_members([NodeId(node) for node in nodes])


def test_a_log_of_one_broker_becomes_that_of_three() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.disks[1] = await write_alone(cluster, b"a", b"b", b"c")
        cluster.start(1, voters=[1])
        leader = await cluster.leader(1)
        assert leader.replica.epoch > 0
        assert await leader.values() == [b"a", b"b", b"c"]
        await cluster.append(b"d", writes=[(b"state", b"1")])
        await grow(cluster, 1, 2, 3)
        await cluster.settled()
        for node in cluster.nodes.values():
            assert await node.values() == [b"a", b"b", b"c", b"d"]
            assert states_of(node) == {b"state": b"1"}
        assert list(leader.replica.in_sync()) == [1, 2, 3]
        cluster.crash(1)
        await cluster.append(b"e")
        assert await (await cluster.leader()).values() == [b"a", b"b", b"c", b"d", b"e"]

    run(test)


async def write_alone(cluster: Cluster, *values: bytes) -> SimDisk:
    """The disk of a broker that has the partition for itself."""
    disk = SimDisk()
    partition = Partition(
        LOG_ID,
        "topic",
        0,
        store=disk.open(LOG_ID),
        commit=GroupCommit(disk, cluster.loop),
        config=cluster.config,
        clock=SimClock(cluster.loop),  # type: ignore[arg-type]
        cache=TailCache(1 << 16),
    )
    for value in values:
        await partition.append(memoryview(batch(value))).pending
    return disk


def test_a_replica_is_replaced_while_others_write() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        for number in range(50):
            await cluster.append(b"%d" % number)
        leader = await cluster.leader()
        gone = next(node for node in cluster.nodes if node != leader.node_id)
        left = sorted(node for node in cluster.nodes if node != gone)
        await grow(cluster, *left, 4)
        cluster.crash(gone)
        await cluster.settled()
        assert sorted(leader.replica.voters) == sorted((*left, 4))
        assert await cluster.nodes[4].values() == [b"%d" % number for number in range(50)]

    run(test)


def test_a_leader_that_is_to_go_hands_over_first() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"a")
        leader = await cluster.leader()
        wanted = [NodeId(node) for node in cluster.nodes if node != leader.node_id]
        with pytest.raises(KafkaError) as raised:
            await leader.replica.change_members(wanted)
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.until(lambda: any(node is not leader for node in cluster.leaders))
        await (await cluster.leader()).replica.change_members(wanted)
        cluster.crash(leader.node_id)
        await cluster.append(b"b")
        await cluster.settled()

    run(test)


def test_learners_have_the_log_and_no_vote() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        cluster.start(4, voters=())
        leader = await cluster.leader()
        await leader.replica.change_members(leader.replica.voters, [NodeId(4)])
        await cluster.append(b"a")
        await cluster.settled()
        assert list(leader.replica.learners) == [4]
        assert await cluster.nodes[4].values() == [b"a"]
        demoted = next(node for node in leader.replica.voters if node != leader.node_id)
        voters = [node for node in leader.replica.voters if node != demoted]
        await leader.replica.change_members([*voters, NodeId(4)], [demoted])
        assert (sorted(leader.replica.voters), list(leader.replica.learners)) == (sorted((*voters, 4)), [demoted])

    run(test)


@pytest.mark.parametrize("of_machine", [False, True])
def test_who_was_away_for_long_gets_a_copy(of_machine: bool) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.fsync = "always"
        cluster.start()
        for number in range(20):
            await cluster.append(b"%d" % number * 20, writes=[(b"n", b"%d" % number)])
        leader = await cluster.leader()
        away = next(node for node in cluster.nodes if node != leader.node_id)
        cluster.crash(away, of_machine=of_machine)
        for number in range(20, 60):
            await cluster.append(b"%d" % number * 20, writes=[(b"n", b"%d" % number)])
        await leader.partition.delete_records(Offset(50))
        await cluster.until(lambda: leader.partition.state.start_index > 30)
        cluster.start(away)
        await cluster.settled()
        back = cluster.nodes[away]
        assert back.partition.log_start_offset == 50
        assert await back.values() == [b"%d" % number * 20 for number in range(50, 60)]
        assert states_of(back) == {b"n": b"59"}
        assert back.partition.size == back.partition.store.size() == leader.partition.size
        cluster.restart(away)
        await cluster.settled()
        assert await cluster.nodes[away].values() == [b"%d" % number * 20 for number in range(50, 60)]

    run(test, segment_bytes=1000)


def test_a_copy_that_ends_half_way_begins_anew() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        for number in range(30):
            await cluster.append(b"%d" % number * 50_000)
        cluster.start(4, voters=())
        leader = await cluster.leader()
        change = cluster.loop.create_task(leader.replica.change_members([NodeId(1), NodeId(2), NodeId(3), NodeId(4)]))
        for _ in range(3):
            await cluster.until(lambda: cluster.nodes[4].replica.is_installing)
            await cluster.until(lambda: cluster.nodes[4].partition.store.size() > 0)
            assert not change.done()
            cluster.crash(4)
            cluster.start(4, voters=())
            assert cluster.nodes[4].replica.log.last_ever is not None
        await change
        await cluster.settled()
        assert cluster.nodes[4].replica.log.last_ever is None
        assert await cluster.nodes[4].values() == [b"%d" % number * 50_000 for number in range(30)]

    run(test)


def test_a_follower_that_is_a_little_behind_gets_entries_from_the_store() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.engine = Settings(cache_bytes=1, max_bytes=2000)
        cluster.start()
        await cluster.append(b"first")
        leader = await cluster.leader()
        away = next(node for node in cluster.nodes if node != leader.node_id)
        cluster.crash(away)
        for number in range(40):
            await cluster.append(b"%d" % number * 30, writes=[(b"n", b"%d" % number)])
        await leader.partition.write_states([(b"m", b"1")])
        cluster.start(away)
        installed: list[int] = []
        await cluster.until(lambda: _follows(cluster, away, installed))
        assert not installed
        await cluster.settled()
        assert states_of(cluster.nodes[away]) == {b"n": b"39", b"m": b"1"}

    run(test)


def _follows(cluster: Cluster, node: int, installed: list[int]) -> bool:
    if cluster.nodes[node].replica.is_installing:
        installed.append(node)
    return cluster.nodes[node].partition.high_watermark == 41


def test_a_log_that_lies_there_from_another_time_is_replaced() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.disks[4] = await write_alone(cluster, b"old", b"older", b"oldest", b"long gone")
        cluster.start()
        await cluster.append(b"new")
        await grow(cluster, 1, 2, 3, 4)
        await cluster.settled()
        assert await cluster.nodes[4].values() == [b"new"]
        cluster.restart(4)
        await cluster.settled()
        assert await cluster.nodes[4].values() == [b"new"]

    run(test)
