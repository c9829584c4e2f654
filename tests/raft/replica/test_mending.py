"""Disks that do not keep what was written, where other replicas have it."""

import asyncio
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log.cleaner import Cleaner, CleanerSettings
from kompat.log.partition import Isolation
from kompat.log.scrubbing import Scrubber, ScrubSettings
from kompat.protocol.records import Record, build_batch, iterate, split_batches
from kompat.raft.engine import Settings
from kompat.types import NodeId, Offset
from tests.log.support import Restless
from tests.simulator.cluster import Cluster, Node, run
from tests.simulator.disk import SimPartition

VALUES = [b"a", b"b", b"c", b"d", b"e"]


def store(node: Node) -> SimPartition:
    found = node.partition.store
    assert isinstance(found, SimPartition)
    return found


async def filled(cluster: Cluster, **options: Any) -> Node:
    """Five batches on all replicas, of which no memory knows."""
    cluster.cache_bytes = 0
    cluster.start()
    for value in VALUES:
        await cluster.append(value, **options)
    await cluster.settled()
    return await cluster.leader()


def others(cluster: Cluster, node: Node) -> list[Node]:
    return [each for each in cluster.nodes.values() if each is not node]


@pytest.mark.parametrize("bases", [[0], [4], [2, 3], [0, 1, 2, 3, 4]])
def test_a_leader_serves_what_others_have_in_the_place_of_what_is_damaged_and_keeps_it(bases: list[int]) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        for base in bases:
            store(leader).damage(base)

        assert await leader.values() == VALUES

        assert leader.replica.is_leading
        assert leader.partition.damages.repaired == len(bases)
        for base in range(len(VALUES)):
            assert store(leader).content(base) == store(others(cluster, leader)[0]).content(base)

    run(test)


def test_a_follower_that_is_read_from_is_mended_too() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        follower = others(cluster, leader)[0]
        store(follower).damage(1)

        assert await follower.values() == VALUES
        assert not store(follower).is_damaged(1)

    run(test)


def test_the_scrubber_mends_a_follower_that_nobody_reads_from() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        follower = others(cluster, leader)[0]
        store(follower).damage(1)

        await Scrubber(ScrubSettings(bytes_per_second=1 << 40), lambda: [follower.partition]).scrub_all()

        assert not store(follower).is_damaged(1)
        assert follower.partition.damages.repaired == 1

    run(test)


def test_where_another_replica_is_damaged_at_the_same_place_the_third_is_asked() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        first, _ = others(cluster, leader)
        store(leader).damage(2)
        store(first).damage(2)

        assert await leader.values() == VALUES
        assert await first.values() == VALUES

    run(test)


def test_what_no_replica_has_is_told_of_and_reads_go_on_behind_it() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        for node in cluster.nodes.values():
            store(node).damage(2)

        before = await leader.partition.read_stored(Offset(0), 1 << 20, Isolation.READ_UNCOMMITTED)
        assert before.next_offset == 2
        with pytest.raises(KafkaError, match="offsets 2 to 2 are damaged") as raised:
            await leader.partition.read_stored(Offset(2), 1 << 20, Isolation.READ_UNCOMMITTED)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
        assert await leader.values(3) == VALUES[3:]

    run(test)


def test_while_a_replica_that_may_have_it_is_away_readers_are_told_to_come_again() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        first, second = others(cluster, leader)
        store(leader).damage(2)
        store(first).damage(2)
        cluster.crash(second.node_id)

        with pytest.raises(KafkaError) as raised:
            await leader.values(2)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR

        cluster.start(second.node_id)
        await cluster.settled()
        assert await (await cluster.leader()).values() == VALUES

    run(test)


def test_a_leader_that_cannot_put_it_into_its_own_log_lets_another_lead() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        store(leader).damage(1)
        store(leader).is_worn_out = True

        with pytest.raises(KafkaError) as raised:
            await leader.values()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.until(lambda: bool(cluster.leaders) and cluster.leaders[0] is not leader)

        assert await (await cluster.leader()).values() == VALUES

    run(test)


def test_a_new_replica_does_not_get_a_damaged_copy() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        leader.partition.upkeep.enforce_retention(leader.clock.now())
        store(leader).damage(1)
        cluster.start(4, voters=())

        await leader.replica.change_members([NodeId(each) for each in (1, 2, 3, 4)])
        await cluster.until(lambda: cluster.nodes[4].partition.high_watermark == len(VALUES))

        assert await cluster.nodes[4].values() == VALUES
        assert [store(cluster.nodes[4]).content(base) for base in range(5)] == [
            store(others(cluster, leader)[0]).content(base) for base in range(5)
        ]
        assert not store(leader).is_damaged(1)

    run(test)


def test_a_follower_that_was_away_does_not_get_damaged_entries() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.cache_bytes = 0
        cluster.engine = Settings(cache_bytes=0)
        cluster.start()
        leader = await cluster.leader()
        away = others(cluster, leader)[0]
        cluster.crash(away.node_id)
        for value in VALUES:
            await cluster.append(value)
        leader = await cluster.leader()
        await cluster.settled()
        leader.replica.group.trim_cache(0)
        store(leader).damage(3)
        cluster.start(away.node_id)

        await cluster.settled()

        for node in cluster.nodes.values():
            assert await node.values() == VALUES
            assert not store(node).is_damaged(3)

    run(test)


def test_a_batch_that_was_damaged_on_its_way_is_not_taken_and_comes_again() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await filled(cluster)
        follower = others(cluster, leader)[0]
        receive, damaged = follower.peers.on_raft, []

        def flip(sender: NodeId, group: bytes, header: memoryview, payloads: list[memoryview]) -> None:
            if payloads and len(payloads[0]) > 61 and not damaged:
                damaged.append(bytes(payloads[0]))
                flipped = bytearray(payloads[0])
                flipped[-1] ^= 1
                payloads = [memoryview(flipped), *payloads[1:]]
            receive(sender, group, header, payloads)

        follower.peers.on_raft = flip
        await cluster.append(b"f")
        await cluster.settled()

        assert damaged
        assert follower.partition.damages.refused == 1
        assert await follower.values() == [*VALUES, b"f"]

    run(test)


def test_compaction_takes_another_replicas_batch_instead_of_a_damaged_one_and_never_seals_it() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.cache_bytes = 0
        cluster.start()
        for number in range(6):
            records = [Record(0, 1, b"old", b"%d" % number), Record(1, 1, b"key %d" % number, b"kept")]
            leader = await cluster.leader()
            await leader.partition.append(memoryview(build_batch(records))).pending
        leader = await cluster.leader()
        await cluster.settled()
        leader.partition.log.roll(leader.clock.now())
        await cluster.append(b"end")
        store(leader).damage(4)
        cleaner = Cleaner(CleanerSettings())
        cleaner._throttle = Restless(1)

        for _ in range(2):
            await cleaner.clean(leader.partition, leader.clock.now())
            await asyncio.sleep(0.1)

        shown = [
            (record.key, record.value)
            for base in store(leader).bases()
            for batch in split_batches(memoryview(store(leader).content(base)))
            for record in iterate(batch)
        ]
        assert [each for each in shown if each[0] != b"key"] == [
            *((b"key %d" % number, b"kept") for number in range(5)),
            (b"old", b"5"),
            (b"key 5", b"kept"),
        ]
        cleaner.close()

    run(test, compact=True, delete=False, min_cleanable_dirty_ratio=0.0)
