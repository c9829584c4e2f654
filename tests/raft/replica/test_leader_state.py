"""What a leader knows of its followers, without a cluster."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.raft.replica.leader_state import Follower, LeaderState
from kompat.types import Millis, NodeId, RaftIndex

LAG_MS = 1000


def followers(*matched: int, learner: int | None = None, down: int | None = None) -> list[Follower]:
    return [
        Follower(NodeId(node), RaftIndex(index), node != learner, node != down) for node, index in enumerate(matched, 1)
    ]


def look(state: LeaderState, last: int, now: int, *members: Follower) -> bool:
    return state.look(members, RaftIndex(last), Millis(now), LAG_MS)


def leading(count: int = 3) -> LeaderState:
    state = LeaderState()
    state.begin([NodeId(node) for node in range(1, count + 1)], Millis(5000))
    look(state, 10, 5000, *followers(*[10] * count))
    return state


def test_a_follower_that_falls_behind_leaves_the_in_sync_replicas_after_the_lag_time() -> None:
    state = leading()
    assert not look(state, 20, 5500, *followers(20, 20, 10))
    assert state.in_sync == [1, 2, 3]
    assert look(state, 20, 6001, *followers(20, 20, 10))
    assert state.in_sync == [1, 2]


def test_learners_and_brokers_that_are_away_are_not_in_sync() -> None:
    state = leading()
    assert look(state, 10, 5001, *followers(10, 10, 10, learner=2, down=3))
    assert state.in_sync == [1]


def test_too_few_in_sync_replicas_are_refused_by_kafkas_error() -> None:
    state = leading()
    state.require_in_sync(3)
    look(state, 10, 5001, *followers(10, 10, 10, down=3))
    with pytest.raises(KafkaError) as raised:
        state.require_in_sync(3)
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_append_waits_until_as_many_replicas_have_it_as_the_topic_wants() -> None:
    state = leading()
    waiting = state.wait(RaftIndex(11))
    state.acknowledge([RaftIndex(11), RaftIndex(11), RaftIndex(10)], least=3)
    assert state.has_waiting
    state.acknowledge([RaftIndex(11), RaftIndex(12), RaftIndex(11)], least=3)
    assert waiting.is_done
    assert waiting.error is None
    assert not state.has_waiting


def test_an_append_that_too_few_replicas_can_have_fails() -> None:
    state = leading()
    waiting = state.wait(RaftIndex(11))
    look(state, 11, 5001, *followers(11, 11, 10, down=3))
    state.acknowledge([RaftIndex(11), RaftIndex(11), RaftIndex(10)], least=3)
    assert isinstance(waiting.error, KafkaError)
    assert waiting.error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
