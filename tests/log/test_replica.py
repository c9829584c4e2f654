"""A partition with several replicas."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from tests.log.sim.cluster import Cluster, run


def test_an_append_is_committed_when_a_majority_has_it() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        first = leader.append(b"a", b"b")
        assert not first.pending.is_done
        await first.pending.wait()

        assert (first.base_offset, first.last_offset) == (0, 1)
        assert leader.partition.high_watermark == 2
        await cluster.settled()
        for node in cluster.nodes.values():
            assert await node.values() == [b"a", b"b"]

    run(test)


def test_what_is_committed_outlives_its_leader() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        for number in range(20):
            await cluster.append(b"%d" % number)
        first = await cluster.leader()
        cluster.crash(first.node_id)
        await cluster.append(b"more")
        second = await cluster.leader()

        assert second.node_id != first.node_id
        assert second.replica.epoch > first.replica.epoch
        assert await second.values() == [b"%d" % number for number in range(20)] + [b"more"]
        cluster.restart(first.node_id)
        await cluster.settled()
        assert await cluster.nodes[first.node_id].values() == await second.values()

    run(test)


def test_a_leader_without_followers_loses_what_it_could_not_commit() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"kept")
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        lost = [old.append(b"lost"), old.append(b"lost too")]
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        for appended in lost:
            with pytest.raises(KafkaError) as raised:
                await appended.pending.wait()
            assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert appended.written.is_done
        assert old.partition.log_end_offset == 3
        with pytest.raises(KafkaError):
            old.append(b"refused")
        await cluster.append(b"new", node=next(node for node in cluster.leaders if node is not old))
        cluster.heal()
        await cluster.settled()
        for node in cluster.nodes.values():
            assert await node.values() == [b"kept", b"new"]

    run(test)
