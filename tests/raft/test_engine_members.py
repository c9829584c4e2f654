"""Changes of members, snapshots for those who need them, and entries that are read from disk for a follower."""

from __future__ import annotations

import pytest

from kompat.raft.engine import (
    ChangeKind,
    ConfState,
    MembershipRefused,
    Message,
    MessageKind,
    MessageRefused,
    NotLeader,
    RaftError,
    Settings,
    describe_message,
)
from tests.raft.support import Cluster


def a_cluster_with_entries(count: int = 5, settings: Settings | None = None) -> Cluster:
    cluster = Cluster(settings=settings)
    cluster.elect(1)
    for number in range(count):
        cluster[1].propose(b"%d" % number)
    cluster.settle()
    return cluster


def test_a_new_replica_is_a_learner_first_and_a_voter_then() -> None:
    cluster = a_cluster_with_entries()
    cluster.start(4)
    cluster[1].propose_membership([(ChangeKind.ADD_LEARNER, 4)])
    cluster.settle()
    cluster.tick(2)
    assert cluster[4].status().members == ConfState([1, 2, 3], [4])
    cluster[1].propose_membership([(ChangeKind.ADD_VOTER, 4)])
    cluster.settle()
    assert cluster[4].status().members == ConfState([1, 2, 3, 4])
    assert cluster[4].commit == cluster[1].commit


def test_replicas_are_exchanged_through_a_joint_state() -> None:
    cluster = a_cluster_with_entries()
    cluster.start(4)
    cluster[1].propose_membership([(ChangeKind.ADD_VOTER, 4), (ChangeKind.REMOVE, 3)], joint=True)
    cluster.settle()
    cluster.tick(2)
    seen = [entry for ready in cluster.replicas[1].readies for entry in ready.memberships]
    assert len(seen) == 2  # into the joint state, and out of it
    assert cluster[1].status().members == ConfState([1, 2, 4])
    assert cluster[4].status().members == ConfState([1, 2, 4])


def test_a_joint_state_that_is_left_by_hand_needs_both_majorities() -> None:
    cluster = a_cluster_with_entries()
    for node in (4, 5):
        cluster.start(node)
    changes = [(ChangeKind.ADD_VOTER, 4), (ChangeKind.ADD_VOTER, 5), (ChangeKind.REMOVE, 2), (ChangeKind.REMOVE, 3)]
    cluster[1].propose_membership(changes, joint=True, auto_leave=False)
    cluster.settle()
    cluster.tick(2)
    assert cluster[1].status().members == ConfState([1, 4, 5], [], [1, 2, 3])
    cluster.isolate(2, 3)
    index, _ = cluster[1].propose(b"the new majority is not enough")
    cluster.settle()
    assert cluster[1].commit < index
    cluster.heal()
    cluster.tick(2)
    assert cluster[1].commit == index
    cluster[1].propose_membership([])
    cluster.settle()
    assert cluster[1].status().members == ConfState([1, 4, 5])


def test_a_leader_that_is_removed_steps_down_and_the_others_go_on() -> None:
    cluster = a_cluster_with_entries()
    cluster[1].propose_membership([(ChangeKind.REMOVE, 1)])
    cluster.settle()
    assert not cluster[1].is_leader
    with pytest.raises(NotLeader):
        cluster[1].propose(b"no longer")
    with pytest.raises(RaftError):
        cluster[1].campaign()
    cluster.tick(40)
    assert any(cluster[node].is_leader for node in (2, 3))


@pytest.mark.parametrize(
    "changes", [[], [(ChangeKind.REMOVE, 1), (ChangeKind.REMOVE, 2), (ChangeKind.REMOVE, 3)]], ids=["none", "everybody"]
)
def test_changes_that_cannot_be_made_are_refused_at_once(changes: list[tuple[int, int]]) -> None:
    cluster = a_cluster_with_entries()
    with pytest.raises(MembershipRefused):
        cluster[1].propose_membership(changes)


def test_one_change_of_members_at_a_time() -> None:
    cluster = a_cluster_with_entries()
    cluster[1].propose_membership([(ChangeKind.ADD_LEARNER, 4)])
    with pytest.raises(MembershipRefused):
        cluster[1].propose_membership([(ChangeKind.ADD_LEARNER, 5)])


def test_members_survive_a_restart() -> None:
    cluster = a_cluster_with_entries()
    cluster[1].propose_membership([(ChangeKind.ADD_LEARNER, 4)])
    cluster.settle()
    cluster.restart(2)
    assert cluster[2].status().members == ConfState([1, 2, 3], [4])


def test_who_needs_compacted_entries_is_offered_a_snapshot() -> None:
    cluster = a_cluster_with_entries()
    cluster.isolate(3)
    for number in range(5, 10):
        cluster[1].propose(b"%d" % number)
    cluster.settle()
    applied = cluster[1].status().applied
    cluster[1].compact(applied)
    offered: list[Message] = []

    def only_others(message: Message) -> bool:
        if message.kind == MessageKind.SNAPSHOT:
            offered.append(message)
        return message.kind != MessageKind.SNAPSHOT

    cluster.passes = only_others
    cluster.tick(3)
    assert [message.to for message in offered] == [3]
    message = describe_message(offered[0].header)
    assert message.snapshot is not None
    assert (message.snapshot.index, message.snapshot.members) == (applied, ConfState([1, 2, 3]))
    assert cluster[1].status().peers[2].state == "snapshot"
    # the bulk has come: now the message is stepped, and the log begins anew
    cluster[3].step(offered[0].header, offered[0].payloads)
    cluster[1].report_snapshot(3, ok=True)
    cluster.settle()
    cluster[1].propose(b"after")
    cluster.tick(2)
    assert cluster[3].status().first == applied + 1
    assert cluster.replicas[3].payloads() == [b"after"]


def test_a_snapshot_that_failed_is_offered_again() -> None:
    cluster = a_cluster_with_entries()
    cluster.isolate(3)
    cluster[1].propose(b"more")
    cluster.settle()
    cluster[1].compact(cluster[1].status().applied)
    offers = 0

    def count(message: Message) -> bool:
        nonlocal offers
        offers += message.kind == MessageKind.SNAPSHOT
        return message.kind != MessageKind.SNAPSHOT

    cluster.passes = count
    cluster.tick(5)
    assert offers == 1
    cluster[1].report_snapshot(3, ok=False)
    cluster.tick(3)
    assert offers == 2


def test_a_pinned_snapshot_is_the_one_that_is_offered() -> None:
    cluster = a_cluster_with_entries()
    cluster.isolate(3)
    cluster[1].propose(b"more")
    cluster[1].propose(b"and more")
    cluster.settle()
    applied = cluster[1].status().applied
    with pytest.raises(ValueError, match="not in"):
        cluster[1].pin_snapshot(applied + 1)
    cluster[1].pin_snapshot(applied - 1, data=b"where the bulk is")
    cluster[1].compact(applied - 1)
    cluster.heal()
    cluster.tick(3)
    snapshots = [ready.snapshot for ready in cluster.replicas[3].readies if ready.snapshot]
    assert [(snapshot.index, snapshot.data) for snapshot in snapshots] == [(applied - 1, b"where the bulk is")]
    assert cluster[3].commit == cluster[1].commit


def test_older_entries_are_asked_of_the_disk() -> None:
    cluster = a_cluster_with_entries(settings=Settings(cache_bytes=0, max_bytes=3))
    cluster.isolate(3)
    for number in range(5, 30):
        cluster[1].propose(b"%d" % number)
    cluster.settle()
    assert cluster[1].cached_bytes == 0
    cluster.heal()
    cluster.tick(3)
    wanted = [want for ready in cluster.replicas[1].readies for want in ready.wanted]
    assert len(wanted) > 3
    assert all(want.followers == [3] for want in wanted)
    assert cluster.replicas[3].payloads() == [b"%d" % number for number in range(30)]


def test_entries_that_are_not_the_log_are_not_taken() -> None:
    cluster = a_cluster_with_entries(settings=Settings(cache_bytes=0))
    cluster.isolate(3)
    for _ in range(3):
        cluster[1].propose(b"x")
    cluster.settle()
    cluster.heal()
    cluster[1].report_unreachable(3)
    cluster[1].ping()
    for message in cluster.drain(1):
        cluster[message.to].step(message.header, message.payloads)
    for message in cluster.drain(3):
        cluster[1].step(message.header, message.payloads)
    ready = cluster[1].ready()
    assert ready is not None
    want = ready.wanted[0]
    with pytest.raises(ValueError, match="not the log's"):
        cluster[1].supply_entries(want.id, [(want.first, 9, 0, b"", b"x")])
    cluster[1].supply_entries(want.id, [])  # it cannot be read now
    assert cluster[1].ready() is None
    cluster.tick(2)  # the follower's next answer asks again
    assert cluster[3].last == cluster[1].last


def test_a_cache_can_be_trimmed() -> None:
    cluster = a_cluster_with_entries()
    cluster.isolate(3)
    for _ in range(4):
        cluster[1].propose(bytes(1000))
    cluster.settle()
    assert cluster[1].cached_bytes == 4000
    cluster[1].trim_cache(2000)
    assert cluster[1].cached_bytes == 2000
    cluster.heal()
    cluster.tick(2)
    assert cluster[3].last == cluster[1].last


def test_a_peer_that_lost_the_end_of_its_log_catches_up_when_the_leader_asks_anew() -> None:
    cluster = a_cluster_with_entries()
    image = cluster.replicas[3].disk.now
    image.cut(4)
    cluster.restart(3)
    with pytest.raises(MessageRefused, match="lost"):
        cluster.tick()
    cluster[1].reset_peer(3)
    cluster.tick(2)
    assert cluster.replicas[3].payloads() == cluster.replicas[1].payloads()
    assert cluster[3].commit == cluster[1].commit
