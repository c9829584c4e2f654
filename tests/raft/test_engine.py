"""A group as its driver sees it: elections, replication, conflicts, restarts, and payloads without copies."""

from __future__ import annotations

import pytest

from kompat.raft.engine import (
    ConfState,
    GroupState,
    HardState,
    MessageKind,
    NotLeader,
    Role,
    Settings,
    fresh_state,
    open_group,
)
from tests.raft.support import Cluster


def test_ticks_without_a_leader_bring_an_election() -> None:
    cluster = Cluster()
    cluster.tick(40)
    leaders = [node for node in cluster.replicas if cluster[node].is_leader]
    assert len(leaders) == 1
    assert {cluster[node].leader for node in cluster.replicas} == set(leaders)
    assert {cluster[node].term for node in cluster.replicas} == {2}


def test_a_proposal_is_committed_everywhere() -> None:
    cluster = Cluster()
    cluster.elect(1)
    index, term = cluster[1].propose(b"a batch", b"its kind")
    cluster.settle()
    assert (index, term) == (3, 2)
    for replica in cluster.replicas.values():
        assert replica.payloads() == [b"a batch"]
        assert replica.disk.now.at(index)[2] == b"its kind"
        assert replica.group.status().applied == index


def test_a_payload_comes_out_as_the_object_that_went_in() -> None:
    cluster = Cluster()
    cluster.elect(1)
    batch, frame = b"a batch of records", bytearray(b"....another batch of records....")
    part = memoryview(frame)[4:-4]
    cluster[1].propose(batch)
    cluster[1].propose(part)
    ready = cluster[1].ready()
    assert ready is not None
    assert [entry.payload for entry in ready.entries] == [batch, part]
    assert ready.entries[0].payload is batch
    assert ready.entries[1].payload is part
    append = next(message for message in ready.messages if message.kind == MessageKind.APPEND)
    assert append.payloads[0] is batch
    assert append.payloads[1] is part
    received = memoryview(b"x" + batch)[1:]
    cluster[2].step(append.header, [received, part])
    at_follower = cluster[2].ready()
    assert at_follower is not None
    assert at_follower.entries[0].payload is received


def test_a_payload_is_let_go_when_all_have_it() -> None:
    cluster = Cluster()
    cluster.elect(1)
    frame = bytearray(b"resizing fails while somebody looks at it")
    cluster[1].propose(memoryview(frame))
    with pytest.raises(BufferError):
        frame.clear()
    cluster.settle()
    assert cluster[1].cached_bytes == 0
    for replica in cluster.replicas.values():
        replica.readies.clear()
    cluster[1].propose(b"the next")
    cluster.settle()
    frame.clear()


def test_a_leader_sends_before_its_own_write_and_a_follower_answers_after_it() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster[1].propose(b"a")
    ready = cluster[1].ready()
    assert ready is not None
    assert ready.must_sync
    assert {message.kind for message in ready.messages} == {MessageKind.APPEND}
    assert ready.messages_after_persist == []
    append = next(message for message in ready.messages if message.to == 2)
    cluster[2].step(append.header, append.payloads)
    at_follower = cluster[2].ready()
    assert at_follower is not None
    assert at_follower.messages == []
    assert [message.kind for message in at_follower.messages_after_persist] == [MessageKind.APPEND_RESPONSE]


def test_a_single_voter_tells_its_learner_of_a_term_only_when_it_is_on_disk() -> None:
    members = ConfState([1], [2])
    state = fresh_state([1])
    group = open_group(
        1, GroupState(members=members, hard_state=state.hard_state, base=(1, 1), last=1, applied=1), seed=1
    )
    group.campaign()
    ready = group.ready()
    assert ready is not None
    assert group.is_leader
    assert ready.messages == []
    assert [message.to for message in ready.messages_after_persist] == [2]


def test_proposals_go_to_the_leader_only() -> None:
    cluster = Cluster()
    with pytest.raises(NotLeader) as nobody:
        cluster[1].propose(b"too early")
    assert nobody.value.args[1] == 0
    cluster.elect(1)
    with pytest.raises(NotLeader) as elsewhere:
        cluster[2].propose(b"to a follower")
    assert elsewhere.value.args[1] == 1
    assert cluster[2].ready() is None


def test_proposals_are_refused_while_leadership_moves() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster.isolate(2)
    cluster[1].transfer_leadership(2)
    with pytest.raises(NotLeader):
        cluster[1].propose(b"neither here nor there")
    cluster.tick(12)  # the transfer is given up
    assert cluster[1].propose(b"here again")


def test_leadership_moves_to_the_voter_that_was_named() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster[1].propose(b"before")
    cluster[1].transfer_leadership(3)
    cluster.settle()
    assert cluster[3].is_leader
    assert not cluster[1].is_leader


def test_entries_of_a_leader_that_lost_are_replaced() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster.isolate(1)
    for number in range(3):
        cluster[1].propose(b"lost %d" % number)
    cluster.drain(1)
    cluster.tick(40)
    winner = next(node for node in (2, 3) if cluster[node].is_leader)
    cluster[winner].propose(b"kept")
    cluster.settle()
    assert cluster.replicas[1].payloads() == [b"lost 0", b"lost 1", b"lost 2"]
    cluster.heal()
    cluster.tick(3)
    assert cluster.replicas[1].payloads() == [b"kept"]
    assert not cluster[1].is_leader


def test_a_leader_without_a_majority_steps_down() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster.isolate(1)
    cluster.tick(25)
    assert not cluster[1].is_leader
    assert cluster[1].term == 2  # pre-vote: who is alone does not raise its term


def test_a_replica_goes_on_from_what_is_on_disk() -> None:
    cluster = Cluster()
    cluster.elect(1)
    for number in range(5):
        cluster[1].propose(b"%d" % number)
    cluster.settle()
    before = cluster[2].status()
    for node in (1, 2, 3):
        cluster.restart(node)
    after = cluster[2].status()
    assert (after.term, after.vote, after.last) == (before.term, before.vote, before.last)
    cluster.elect(2)
    cluster[2].propose(b"after")
    cluster.settle()
    assert [replica.payloads() for replica in cluster.replicas.values()] == [
        [b"0", b"1", b"2", b"3", b"4", b"after"]
    ] * 3


def test_a_restart_tells_again_what_is_committed_but_not_applied() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster[1].propose(b"a")
    cluster.settle()
    cluster.restart(2)
    ready = cluster[2].ready()
    assert ready is not None
    assert (ready.committed_from, ready.committed_to) == (2, 3)
    assert not ready.must_sync


def test_a_long_log_is_told_in_pieces() -> None:
    state = fresh_state([1, 2, 3])
    long = GroupState(
        members=state.members, hard_state=HardState(2, 1, 10_001), base=(1, 1), last=10_001, runs=[(2, 2)], applied=1
    )
    group = open_group(1, long, seed=1)
    pieces = []
    while ready := group.ready():
        pieces.append((ready.committed_from, ready.committed_to))
        group.persisted(ready.number)
        group.applied(ready.committed_to)
    assert pieces[0][0] == 2
    assert pieces[-1][1] == 10_001
    assert all(last - first < 5000 for first, last in pieces)


@pytest.mark.parametrize(
    "broken",
    [
        {"last": 0},
        {"last": 5},
        {"runs": [(2, 1)]},
        {"last": 5, "runs": [(3, 1)]},
        {"last": 5, "runs": [(2, 1), (2, 1)]},
        {"last": 5, "runs": [(2, 9)]},
        {"applied": 0},
        {"applied": 2},
    ],
)
def test_a_state_that_contradicts_itself_is_refused(broken: dict[str, object]) -> None:
    good: dict[str, object] = {
        "members": ConfState([1]),
        "hard_state": HardState(1, 0, 1),
        "base": (1, 1),
        "last": 1,
        "applied": 1,
    }
    open_group(1, GroupState(**good), seed=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError):  # noqa: PT011 (each says something else)
        open_group(1, GroupState(**(good | broken)), seed=1)  # type: ignore[arg-type]


def test_reads_wait_for_a_majority() -> None:
    cluster = Cluster()
    assert not cluster[1].read_index(b"nobody leads")
    cluster.elect(1)
    cluster[1].propose(b"a")
    cluster.settle()
    cluster.replicas[1].readies.clear()
    cluster.isolate(1)
    assert cluster[1].read_index(b"alone")
    cluster.settle()
    assert not any(ready.read_states for ready in cluster.replicas[1].readies)
    cluster.heal()
    assert cluster[2].read_index(b"asked of a follower")
    cluster.settle()
    reads = [read for ready in cluster.replicas[2].readies for read in ready.read_states]
    assert [(read.index, read.context) for read in reads] == [(3, b"asked of a follower")]


def test_an_append_is_no_larger_than_allowed() -> None:
    cluster = Cluster(settings=Settings(max_bytes=100))
    cluster.elect(1)
    for _ in range(10):
        cluster[1].propose(bytes(30))
    cluster[1].propose(bytes(500))
    messages = [message for message in cluster.drain(1) if message.to == 2]
    sizes = [sum(len(payload) for payload in message.payloads) for message in messages]
    assert sum(sizes) == 800
    assert all(size <= 100 or len(message.payloads) == 1 for size, message in zip(sizes, messages, strict=True))
    for message in messages:
        cluster[2].step(message.header, message.payloads)
    cluster.settle()
    assert cluster[2].last == cluster[1].last


def test_the_status_shows_who_is_how_far() -> None:
    cluster = Cluster()
    cluster.elect(1)
    cluster.isolate(3)
    cluster[1].propose(b"a")
    cluster.settle()
    status = cluster[1].status()
    assert status.role == Role.LEADER
    assert {peer.id: peer.matched for peer in status.peers} == {1: 3, 2: 3, 3: 2}
    assert cluster[2].status().peers == []
    assert cluster[2].term_at(3) == 2
    assert cluster[2].term_at(4) is None


def test_equal_seeds_draw_equal_time_outs() -> None:
    def ticks_to_campaign(seed: int) -> int:
        group = open_group(1, fresh_state([1, 2, 3]), seed=seed)
        return next(count for count in range(1, 100) if group.tick())

    assert ticks_to_campaign(5) == ticks_to_campaign(5)
    assert len({ticks_to_campaign(seed) for seed in range(30)}) > 3


def test_commits_can_wait_for_the_next_append() -> None:
    cluster = Cluster(settings=Settings(tell_commits=False))
    cluster.elect(1)
    first, _ = cluster[1].propose(b"a")
    cluster.settle()
    assert cluster[1].commit == first
    assert cluster[2].commit < first
    cluster[1].propose(b"b")
    cluster.settle()
    assert cluster[2].commit == first
    cluster.tick()
    assert cluster[2].commit == first + 1
