"""Many groups on a broker: one tick for all, heartbeats in one piece, and quiet groups that cost nothing."""

from __future__ import annotations

import pytest

from kompat.raft.engine import (
    EMPTY_STATE,
    MessageKind,
    MessageRefused,
    RaftGroup,
    RaftGroups,
    fresh_state,
    open_group,
)

BROKERS = (1, 2, 3)


class Brokers:
    """Three brokers with the same groups; broker 1 leads all of them."""

    def __init__(self, count: int, quiet_after: int = 0) -> None:
        self.shared = {broker: RaftGroups(broker, quiet_after) for broker in BROKERS}
        self.groups: dict[int, dict[int, RaftGroup]] = {broker: {} for broker in BROKERS}
        self.frames = 0
        for broker in BROKERS:
            for key in range(count):
                group = open_group(broker, fresh_state(BROKERS), seed=key)
                self.groups[broker][key] = group
                self.shared[broker].add(key, group)
        for group in self.groups[1].values():
            group.campaign()
        self.settle()

    def settle(self) -> None:
        busy = True
        while busy:
            busy = False
            for broker in BROKERS:
                for key in self.groups[broker]:
                    busy |= self._drain(broker, key)

    def _drain(self, broker: int, key: int) -> bool:
        group, worked = self.groups[broker][key], False
        while ready := group.ready():
            worked = True
            group.persisted(ready.number)
            if ready.committed_to:
                group.applied(ready.committed_to)
            for message in (*ready.messages, *ready.messages_after_persist):
                assert message.kind not in (MessageKind.HEARTBEAT, MessageKind.HEARTBEAT_RESPONSE)
                self.groups[message.to][key].step(message.header, message.payloads)
        return worked

    def tick(self, *lost: int) -> None:
        for broker in BROKERS:
            if broker in lost:
                continue
            self.shared[broker].tick()
            for peer, blob in self.shared[broker].take_heartbeats():
                if peer in lost:
                    continue
                self.frames += 1
                reply, _, unknown, faults = self.shared[peer].step_heartbeats(broker, memoryview(blob))
                assert (unknown, faults) == ([], [])
                if reply:
                    self.shared[broker].step_heartbeat_replies(peer, reply)
        self.settle()


def test_heartbeats_of_all_groups_keep_all_leaders() -> None:
    brokers = Brokers(20)
    brokers.frames = 0
    for _ in range(50):
        brokers.tick()
    assert brokers.frames == 100  # one to each peer per tick, for all groups
    assert all(group.is_leader and group.term == 2 for group in brokers.groups[1].values())


def test_a_heartbeat_carries_what_is_committed() -> None:
    brokers = Brokers(2)
    group = brokers.groups[1][0]
    group.propose(b"a")
    brokers.settle()
    brokers.tick()
    assert {brokers.groups[broker][0].commit for broker in BROKERS} == {3}


def test_reads_are_confirmed_by_shared_heartbeats() -> None:
    brokers = Brokers(1)
    group = brokers.groups[1][0]
    assert group.read_index(b"read me")
    for _ in range(2):  # the first tick takes the heartbeat along that asks
        brokers.shared[1].tick()
        for peer, blob in brokers.shared[1].take_heartbeats():
            reply = brokers.shared[peer].step_heartbeats(1, blob)[0]
            brokers.shared[1].step_heartbeat_replies(peer, reply)
    reads = []
    while ready := group.ready():
        reads += ready.read_states
        group.persisted(ready.number)
    assert [read.context for read in reads] == [b"read me"]


def a_leader_that_nobody_has_answered() -> RaftGroup:
    leader = open_group(1, fresh_state(BROKERS), seed=1)
    leader.campaign()
    while not leader.is_leader:
        ready = leader.ready()
        assert ready is not None
        leader.persisted(ready.number)
        for message in ready.messages_after_persist:
            if message.to == 3:  # which votes for it
                leader.step(bytes([8, message.kind + 1, 16, 1, 24, 3, 32, message.term]), [])
    return leader


def test_an_answer_waits_while_a_new_term_is_not_on_disk() -> None:
    leading, following = RaftGroups(1), RaftGroups(2)
    leading.add(0, a_leader_that_nobody_has_answered())
    follower = open_group(2, fresh_state(BROKERS), seed=1)
    following.add(0, follower)
    leading.tick()
    blob = dict(leading.take_heartbeats())[2]
    reply, keys, _, _ = following.step_heartbeats(1, blob)
    assert (reply, keys) == (b"", [0])
    ready = follower.ready()
    assert ready is not None
    assert ready.must_sync
    assert [message.kind for message in ready.messages_after_persist] == [MessageKind.HEARTBEAT_RESPONSE]
    assert following.step_heartbeats(1, blob)[0] == b""
    follower.persisted(ready.number)
    assert following.step_heartbeats(1, blob)[0]


def test_unknown_groups_and_garbage_are_told() -> None:
    brokers = Brokers(2)
    brokers.shared[1].tick()
    blob = dict(brokers.shared[1].take_heartbeats())[2]
    brokers.shared[2].remove(1)
    assert brokers.shared[2].step_heartbeats(1, blob)[2] == [1]
    for garbage in (b"", b"\x09", blob[:-1], blob[:1] + b"\xff" + blob[2:]):
        with pytest.raises(MessageRefused):
            brokers.shared[2].step_heartbeats(1, garbage)
    lost = RaftGroups(2)
    lost.add(0, open_group(2, EMPTY_STATE, seed=1))
    refusals = lost.step_heartbeats(1, blob)[3]
    assert len(refusals) == 1
    assert "lost" in refusals[0][1]


def test_a_key_is_given_once_and_only_to_a_replica_of_this_broker() -> None:
    shared = RaftGroups(1)
    group = open_group(1, fresh_state([1]), seed=1)
    shared.add(7, group)
    with pytest.raises(KeyError):
        shared.add(7, group)
    with pytest.raises(ValueError, match="another broker"):
        shared.add(8, open_group(2, fresh_state([2]), seed=1))
    shared.remove(7)
    assert len(shared) == 0
    with pytest.raises(KeyError):
        shared.remove(7)


def test_idle_groups_fall_quiet_and_a_proposal_wakes_them() -> None:
    brokers = Brokers(5, quiet_after=3)
    for _ in range(6):
        brokers.tick()
    assert all(group.quiet for groups in brokers.groups.values() for group in groups.values())
    brokers.frames = 0
    for _ in range(100):
        brokers.tick()
    assert brokers.frames == 0
    assert all(group.is_leader for group in brokers.groups[1].values())
    brokers.groups[1][0].propose(b"a")
    brokers.settle()
    assert not any(brokers.groups[broker][0].quiet for broker in BROKERS)
    assert {brokers.groups[broker][0].commit for broker in BROKERS} == {3}


def test_quiet_groups_elect_a_leader_when_they_are_told_of_a_loss() -> None:
    brokers = Brokers(5, quiet_after=3)
    for _ in range(6):
        brokers.tick()
    for broker in (2, 3):
        assert brokers.shared[broker].wake(1) == 5
    for _ in range(60):
        brokers.tick(1)
    for key in range(5):
        assert sum(brokers.groups[broker][key].is_leader for broker in (2, 3)) == 1


def test_a_group_with_something_to_do_does_not_fall_quiet() -> None:
    brokers = Brokers(1, quiet_after=1)
    group = brokers.groups[1][0]
    assert group.become_quiet()
    group.propose(b"a")
    assert not group.become_quiet()
    brokers.settle()
    assert group.become_quiet()
