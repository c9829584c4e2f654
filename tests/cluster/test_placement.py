"""Where replicas go: balanced, apart from each other, and away from brokers that are down or leave."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cluster import placement
from kompat.cluster import reassignment_rules as moves
from kompat.cluster.records import ConfigsSet
from kompat.cluster.requests import NewTopic, Reassignment
from kompat.cluster.state import DRAIN, Address, Broker
from kompat.errors import ErrorCode, KafkaError
from kompat.types import NodeId
from tests.cluster.support import Cluster, broker, created, refused

RACKS = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9)


def brokers(racks: list[str | None]) -> dict[NodeId, Broker]:
    return {NodeId(node): Broker(NodeId(node), rack) for node, rack in enumerate(racks, 1)}


@settings(deadline=None)
@given(RACKS, st.integers(1, 60), st.integers(1, 9), st.integers(0, 1 << 16), st.sets(st.integers(1, 9)))
def test_replicas_are_apart_and_leaders_are_spread(
    racks: list[str | None], count: int, factor: int, start: int, gone: set[int]
) -> None:
    known = brokers(racks)
    down = {NodeId(node) for node in gone} & set(known)
    try:
        found = placement.place_replicas(count, factor, known, start, down)
    except KafkaError:
        assert factor > len(known) or down == set(known)
        return

    up = set(known) - down
    leaders = Counter(dict.fromkeys(up, 0)) + Counter(replicas[0] for replicas in found)
    counts = [leaders[node] for node in up]
    assert max(counts) - min(counts) <= 1
    assert set(leaders) <= up
    for replicas in found:
        assert len(set(replicas)) == factor
        assert len(set(replicas) & up) == min(factor, len(up))  # those that are down only where there are no others
        if factor <= len(up):
            apart = {known[node].rack for node in replicas}
            assert len(apart) == min(factor, len({known[node].rack for node in up}))


@settings(deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 80), st.integers(0, 99))
def test_brokers_of_one_rack_have_equal_loads(nodes: int, factor: int, count: int, start: int) -> None:
    if factor > nodes:
        return
    load = Counter(
        node
        for replicas in placement.place_replicas(count, factor, brokers([None] * nodes), start)
        for node in replicas
    )

    counts = [load[NodeId(node)] for node in range(1, nodes + 1)]
    assert max(counts) - min(counts) <= factor


def test_each_round_pairs_other_brokers() -> None:
    found = placement.place_replicas(12, 2, brokers([None] * 4), 0)

    assert len(set(found)) == 12


def test_a_topic_whose_manual_replicas_are_all_down_is_refused() -> None:
    cluster = Cluster(brokers=2)
    wanted = [(NewTopic("t", assignments=[(0, [2])]), UUID(int=9))]
    found = cluster.machine.create_topics(wanted, start=0, config=cluster.config, down={NodeId(2)})

    refused(found.reply["t"], ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_a_broker_tells_where_it_is_found() -> None:
    cluster = Cluster()
    told = Broker(NodeId(2), "r", Address("k", 1), Address("::1", 2))
    cluster.do(cluster.machine.join(told, cluster_id="", secret=b"s"))

    assert cluster.machine.state.brokers[NodeId(2)] == told
    assert str(told.peer) == "[::1]:2"


# -- moves -------------------------------------------------------------------------------------------------------------
def test_a_factor_is_kept_where_it_must_not_change() -> None:
    cluster = Cluster("t", brokers=3)
    [outcome] = cluster.do(cluster.machine.reassign([Reassignment("t", 0, [1, 2])], may_change_factor=False))

    refused(outcome, ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 1 to 2")


def test_a_move_lists_both_ends_until_it_is_done() -> None:
    cluster = Cluster(brokers=3)
    created(cluster.create(NewTopic("t", assignments=[(0, [1, 2])])))
    cluster.do(cluster.machine.reassign([Reassignment("t", 0, [3, 2])]))

    moving = cluster.machine.state.topics["t"].partitions[0]
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 2, 1), (3,), (1,))
    assert (moving.leader, moving.target, moving.origin) == (3, (3, 2), (2, 1))


def test_another_order_of_the_same_replicas_takes_effect_at_once() -> None:
    cluster = Cluster(brokers=2)
    created(cluster.create(NewTopic("t", assignments=[(0, [1, 2])])))
    cluster.do(cluster.machine.reassign([Reassignment("t", 0, [2, 1])]))

    moved = cluster.machine.state.topics["t"].partitions[0]
    assert (moved.replicas, moved.leader, moved.is_moving) == ((2, 1), 2, False)


@settings(deadline=None)
@given(RACKS, st.integers(1, 30), st.integers(1, 3), st.integers(1, 9))
def test_a_drained_broker_has_nothing_left_and_gets_nothing(
    racks: list[str | None], count: int, factor: int, node: int
) -> None:
    cluster = Cluster(brokers=0)
    for each in brokers(racks).values():
        cluster.do(cluster.machine.join(each, cluster_id="", secret=b"s"))
    if factor > len(racks):
        return
    created(cluster.create(NewTopic("t", count, factor)))
    cluster.machine.apply(ConfigsSet(broker(str(node)), {DRAIN: "true"}))
    state = cluster.machine.state
    leaving = state.leaving
    assert leaving == ({node} & set(state.brokers))

    cluster.do(cluster.machine.drain(leaving, ()))

    for partition in state.topics["t"].partitions:
        assert len(partition.target) == factor
        assert node not in partition.target or factor == len(racks)  # there is nowhere to go
        is_stuck = ("t", partition.index) in moves.unmovable(state, NodeId(node), ())
        assert is_stuck == (node in partition.target)
    assert not list(moves.plan_drain(state, leaving, ()))
    refusal = cluster.create(NewTopic("u", 5, factor))
    assert isinstance(refusal, KafkaError) == (factor > len(racks) - len(leaving))


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    cluster = Cluster()
    try:
        cluster.machine.unregister(NodeId(9))
    except KafkaError as error:
        refused(error, ErrorCode.BROKER_ID_NOT_REGISTERED)
    else:
        raise AssertionError
