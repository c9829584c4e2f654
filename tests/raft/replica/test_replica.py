"""A partition with several replicas."""

import asyncio
from pathlib import Path

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log import checkpoint
from kompat.log.cleaner import Cleaner, CleanerSettings
from kompat.log.partition import Isolation, Origin
from kompat.log.storage.rocks import RocksStore
from kompat.protocol.records import ControlType, control_batch
from kompat.raft.engine import RaftPanic
from kompat.raft.replica.replica import Replica
from kompat.types import NodeId, Offset, RaftIndex
from tests.log.support import LOG_ID, Restless
from tests.simulator.cluster import Cluster, Node, run
from tests.simulator.history import states_of


def test_an_append_is_committed_when_a_majority_has_it() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        first = leader.append(b"a", b"b")
        assert not first.pending.is_done
        await first.pending

        assert (first.base_offset, first.last_offset) == (0, 1)
        assert leader.partition.high_watermark == 2
        await cluster.settled()
        for node in cluster.nodes.values():
            assert await node.values() == [b"a", b"b"]

    run(test)


def test_where_more_replicas_are_demanded_than_a_majority_so_many_are_waited_for() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        await cluster.settled()
        last = next(node for node in cluster.nodes.values() if node is not leader)
        first = leader.append(b"a")
        acknowledged = leader.replica.when_in_min_isr(first.pending)
        await acknowledged
        assert all(node.partition.log_end_offset == 1 for node in cluster.nodes.values())

        second = leader.append(b"b")
        acknowledged = leader.replica.when_in_min_isr(second.pending)
        cluster.isolate(last.node_id)
        await second.pending
        assert not acknowledged.is_done
        with pytest.raises(KafkaError) as raised:
            await acknowledged
        assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        with pytest.raises(KafkaError) as raised:
            leader.replica.require_in_sync()
        assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    run(test, min_insync_replicas=3)


def test_a_leader_that_waits_for_more_than_a_majority_gives_that_up_with_its_lead() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        old = await cluster.leader()
        await cluster.settled()
        acknowledged = old.replica.when_in_min_isr(old.append(b"a").pending)
        cluster.isolate(old.node_id)

        with pytest.raises(KafkaError) as raised:
            await acknowledged
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test, min_insync_replicas=3)


def test_a_majority_is_enough_where_no_more_is_demanded() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        appended = leader.append(b"a")
        assert leader.replica.when_in_min_isr(appended.pending) is appended.pending

    run(test, min_insync_replicas=2)


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
                await appended.pending
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


def test_a_log_whose_end_is_about_to_be_cut_is_never_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for its end, to read it, would find it neither committed nor on its way, and ask again and again."""
    look_at_role, settled = Replica._look_at_role, []

    def looking(replica: Replica) -> None:
        look_at_role(replica)
        if replica.loop.is_held:
            settled.append(replica.when_committed())

    monkeypatch.setattr(Replica, "_look_at_role", looking)

    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"kept")
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        old.append(b"lost")
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        await cluster.append(b"new", node=next(node for node in cluster.leaders if node is not old))
        cluster.heal()
        await cluster.settled()
        with pytest.raises(KafkaError) as raised:
            await settled[0]
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test)


def test_what_a_leader_has_promised_is_void_when_it_takes_up_its_log_anew() -> None:
    """As after a copy of another leader's log, which may reach as far and have other entries."""

    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"kept")
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        lost = old.append(b"lost")
        await lost.written
        old.replica.is_installing = True
        old.replica.end_installation()

        assert not old.replica.is_leading
        with pytest.raises(KafkaError) as raised:
            await lost.pending
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(0)
        assert old.roles[-1][0] == "following"
        cluster.heal()
        await cluster.settled()

    run(test)


def test_a_producer_that_repeats_itself_is_recognised_by_the_next_leader() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        numbered = {"producer_id": 7, "producer_epoch": 0}
        await cluster.append(b"a", base_sequence=0, **numbered)
        leader = await cluster.leader()
        first = leader.append(b"b", base_sequence=1, **numbered)
        again = leader.append(b"b", base_sequence=1, **numbered)
        assert again.base_offset == first.base_offset == 1
        assert again.pending is first.pending
        await again.pending
        cluster.crash(leader.node_id)
        third = (await cluster.leader()).append(b"b", base_sequence=1, **numbered)
        assert third.base_offset == 1
        assert third.pending.is_done
        with pytest.raises(KafkaError) as raised:
            (await cluster.leader()).append(b"gap", base_sequence=5, **numbered)
        assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    run(test)


def test_what_a_producer_sent_to_a_leader_that_lost_is_forgotten() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        numbered = {"producer_id": 7, "producer_epoch": 0}
        await cluster.append(b"a", base_sequence=0, **numbered)
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        old.append(b"b", base_sequence=1, **numbered)
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        cluster.crash(
            next(node for node in cluster.nodes.values() if node in cluster.leaders and node is not old).node_id
        )
        cluster.heal()
        await cluster.append(b"c", base_sequence=1, **numbered)
        await cluster.settled()
        assert {tuple(await node.values()) for node in cluster.nodes.values()} <= {(b"a", b"b"), (b"a", b"c")}

    run(test)


def test_open_transactions_and_their_ends_are_the_same_everywhere() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        transactional = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
        await cluster.append(b"a", base_sequence=0, **transactional)
        await cluster.append(b"b")
        await cluster.settled()
        assert [node.partition.last_stable_offset for node in cluster.nodes.values()] == [0, 0, 0]
        marker = control_batch(
            ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1_700_000_000_000
        )
        leader = await cluster.leader()
        await leader.partition.append(memoryview(marker), origin=Origin.INTERNAL).pending
        await cluster.settled()
        for node in cluster.nodes.values():
            assert node.partition.last_stable_offset == 3
            read = node.partition.read(Offset(0), 1000, Isolation.READ_COMMITTED)
            assert read is not None
            assert read.aborted is not None
            assert [(each.producer_id, each.first_offset) for each in read.aborted] == [(7, 0)]

    run(test)


def test_a_marker_that_is_not_committed_does_not_end_a_transaction_and_may_be_taken_back() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        transactional = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
        await cluster.append(b"a", base_sequence=0, **transactional)
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        marker = control_batch(
            ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1_700_000_000_000
        )
        old.partition.append(memoryview(marker), origin=Origin.INTERNAL)
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        cluster.restart(old.node_id)
        assert cluster.nodes[old.node_id].partition.last_stable_offset == 0
        cluster.heal()
        await cluster.append(b"b", base_sequence=1, **transactional)
        await cluster.settled()
        for node in cluster.nodes.values():
            assert node.partition.last_stable_offset == 0
            assert await node.values() == [b"a", b"b"]
            assert not list(node.partition.store.states(checkpoint.ABORTED))

    run(test)


def test_the_leader_decides_what_retention_removes() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        for number in range(30):
            await cluster.append(b"%d" % number * 30)
        await cluster.settled()
        leader = await cluster.leader()
        followers = [node for node in cluster.nodes.values() if node is not leader]
        assert [node.partition.upkeep.enforce_retention(node.clock.now()) for node in followers] == [0, 0]
        assert leader.partition.upkeep.enforce_retention(leader.clock.now()) > 0
        await cluster.until(lambda: all(node.partition.log_start_offset > 0 for node in cluster.nodes.values()))
        await cluster.settled()
        starts = {node.partition.log_start_offset for node in cluster.nodes.values()}
        assert len(starts) == 1
        for node in cluster.nodes.values():
            assert node.partition.size <= 2000
            assert node.partition.store.size() == node.partition.size
            assert next(node.partition.store.entries(RaftIndex(0))).index == node.partition.state.start_index
        cluster.restart(leader.node_id)
        await cluster.settled()
        assert {node.partition.log_start_offset for node in cluster.nodes.values()} == starts

    run(test, segment_bytes=600, retention_bytes=1500)


def test_a_compacted_log_still_brings_followers_up() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"first")
        leader = await cluster.leader()
        away = next(node for node in cluster.nodes if node != leader.node_id)
        cluster.crash(away)
        for number in range(40):
            await cluster.append(b"%d" % number * 30)
        cleaner = Cleaner(CleanerSettings())
        cleaner._throttle = Restless(float("inf"))
        assert await cleaner.clean(leader.partition, leader.clock.now())
        cleaner.close()
        before = await leader.values()
        assert len(before) < 20
        cluster.start(away)
        await cluster.settled()
        assert await cluster.nodes[away].values() == before
        cluster.crash(leader.node_id)
        await cluster.append(b"last")

    run(test, segment_bytes=600, compact=True, delete=False)


def test_too_few_replicas_in_sync_are_told() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        leader.replica.require_in_sync()
        cluster.crash(next(node for node in cluster.nodes if node != leader.node_id))
        await asyncio.sleep(0.2)
        with pytest.raises(KafkaError) as raised:
            leader.replica.require_in_sync()
        assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        await cluster.append(b"a majority is there")
        assert leader.replica.is_leading

    run(test, min_insync_replicas=3)


def test_a_leader_without_a_majority_stops_to_lead() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        cluster.isolate(leader.node_id)
        await cluster.until(lambda: not leader.replica.is_leading, 4)
        assert leader.replica.leader is None
        assert leader.roles[-1][:2] == ("following", None)

    run(test)


def test_leadership_is_handed_over_without_an_election_time_out() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"a")
        await cluster.settled()
        leader = await cluster.leader()
        to = next(node for node in cluster.nodes.values() if node is not leader)
        began = cluster.loop.time()
        leader.replica.transfer_leadership(to.node_id)
        await cluster.until(lambda: to.replica.is_leading)
        assert cluster.loop.time() - began < 0.3
        assert to.replica.leader == to.node_id

    run(test)


def test_a_disk_that_refuses_costs_a_leader_its_office_and_nobody_a_record() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"a")
        leader = await cluster.leader()
        leader.disk.is_full = True
        refused = leader.append(b"b")
        with pytest.raises(KafkaError):
            await refused.pending
        assert refused.written.error is not None
        assert not leader.replica.is_leading
        await cluster.append(b"c")
        leader.disk.is_full = False
        await cluster.settled()
        assert len({tuple(await node.values()) for node in cluster.nodes.values()}) == 1
        assert (await leader.values())[-1] == b"c"

    run(test)


def test_idle_groups_are_silent_and_wake_when_somebody_is_lost() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.quiet_after = 3
        cluster.start()
        await cluster.append(b"a")
        await cluster.settled()
        await cluster.until(lambda: all(node.replica.group.quiet for node in cluster.nodes.values()))
        await asyncio.sleep(10)
        assert all(node.replica.group.quiet for node in cluster.nodes.values())
        await cluster.append(b"b")
        leader = await cluster.leader()
        await cluster.until(lambda: all(node.replica.group.quiet for node in cluster.nodes.values()))
        cluster.crash(leader.node_id)
        await cluster.append(b"c")
        assert await (await cluster.leader()).values() == [b"a", b"b", b"c"]

    run(test)


def test_an_engine_that_finds_itself_broken_stops_the_broker() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        told: list[str] = []
        leader.replication._stop_broker = told.append

        class Broken:
            outdated = False

            def ready(self) -> None:
                raise RaftPanic("the log is behind itself")

        leader.replica.group = Broken()  # type: ignore[assignment]
        leader.replication.pump(leader.replica)
        assert told == [f"{leader.partition}: the log is behind itself"]

    run(test)


def test_replicas_on_disks_are_as_those_in_memory(tmp_path: Path) -> None:
    """Through restarts, a truncation, a copy and a cut of the log's start."""

    async def test(cluster: Cluster) -> None:
        stores = {node: RocksStore(str(tmp_path / str(node))) for node in (1, 2, 3, 4)}
        cluster.disks.update(stores)  # type: ignore[arg-type]
        cluster.cache_bytes = 0
        cluster.start()
        for number in range(30):
            await cluster.append(b"%d" % number * 1000, writes=[(b"n", b"%d" % number)])
        old = await cluster.leader()
        cluster.isolate(old.node_id)
        for _ in range(3):
            old.append(b"lost" * 1000, writes=[(b"n", b"lost")])
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        await cluster.append(b"kept", node=next(node for node in cluster.leaders if node is not old))
        cluster.heal()
        await cluster.settled()
        leader = await cluster.leader()
        await leader.partition.delete_records(Offset(20))
        cluster.start(4, voters=())
        await leader.replica.change_members([NodeId(node) for node in (1, 2, 3, 4)])
        await cluster.settled()
        expected = [b"%d" % number * 1000 for number in range(20, 30)] + [b"kept"]
        for _ in range(2):
            for node in cluster.nodes.values():
                assert await node.values() == expected
                assert states_of(node) == {b"n": b"29"}
            for node in list(cluster.nodes.values()):
                node.kill()
                node.disk.close()
                stores[node.node_id] = RocksStore(str(tmp_path / str(node.node_id)))
            cluster.disks.update(stores)  # type: ignore[arg-type]
            cluster.start(1, 2, 3, 4)
            await cluster.settled()
        for store in stores.values():
            store.close()

    run(test, segment_bytes=8000)


def test_a_partition_that_is_deleted_fails_what_waits_and_writes_nothing_more() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"a")
        leader = await cluster.leader()
        appended = leader.append(b"b")
        leader.partition.drop()
        leader.replication.detach(leader.partition)
        leader.disk.drop(LOG_ID)
        with pytest.raises(KafkaError):
            await appended.pending
        await cluster.append(b"c", node=await _another(cluster, leader))
        assert not list(leader.disk.logs())

    run(test)


async def _another(cluster: Cluster, than: Node) -> Node:
    await cluster.until(lambda: any(node is not than for node in cluster.leaders))
    return next(node for node in cluster.leaders if node is not than)


def test_elections_force_the_disk_and_appends_only_where_that_is_asked_for() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        await asyncio.sleep(0.1)
        assert leader.disk._synced > 0
        synced = [node.disk._synced for node in cluster.nodes.values()]
        for number in range(50):
            await cluster.append(b"%d" % number)
        await cluster.settled()
        assert [node.disk._synced for node in cluster.nodes.values()] == synced

    run(test)


def test_a_clock_that_is_set_changes_nothing_about_who_is_in_sync() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"a")
        leader = await cluster.leader()
        for ahead in (3_600_000, -3_600_000):
            leader.clock.ahead_ms = ahead
            await cluster.append(b"b")
            assert list(leader.replica.in_sync()) == [1, 2, 3]
            caught_up = [progress.last_caught_up for progress in leader.replica.progress().values()]
            assert all(leader.clock.now() - 1000 <= each <= leader.clock.now() for each in caught_up)

    run(test)


def test_who_may_have_lost_something_does_not_vote_until_it_knows() -> None:
    """Broker 3 lags, 1 and 2 have a record, 2 loses it with its machine's power, and 1 dies: 2 and 3 alone must not go on."""

    async def test(cluster: Cluster) -> None:
        first, second, third = await _lose_power(cluster)
        cluster.crash(first)
        cluster.heal()
        await asyncio.sleep(5)
        assert not cluster.leaders
        cluster.start(first)
        await cluster.settled()
        assert [await node.values() for node in cluster.nodes.values()] == 3 * [[b"a", b"b"]]
        await cluster.until(lambda: not cluster.nodes[second].replica.recovery.is_open)
        cluster.crash(first)
        await cluster.append(b"c")
        assert await cluster.nodes[third].values() == [b"a", b"b", b"c"]

    run(test)


def test_if_nobody_knows_those_in_doubt_go_on_after_a_while() -> None:
    async def test(cluster: Cluster) -> None:
        first, _, _ = await _lose_power(cluster)
        cluster.crash(first)
        cluster.heal()
        await cluster.append(b"c")
        assert cluster.loop.time() > 1010

    run(test)


async def _lose_power(cluster: Cluster) -> tuple[int, int, int]:
    cluster.start()
    await cluster.append(b"a")
    await cluster.settled()
    first = (await cluster.leader()).node_id
    second, third = (node for node in cluster.nodes if node != first)
    for node in cluster.nodes.values():
        node.disk.begin_sync()
        node.disk.sync()
    cluster.isolate(third)
    await cluster.append(b"b", node=cluster.nodes[first])
    cluster.random.seed(1)
    cluster.crash(second, of_machine=True)
    cluster.start(second)
    return first, second, third
