"""What moves of replicas are about to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.reassigning import NoPlan, Replicas, changed, chosen, round_robin


def replicas(topic: str, count: int, *brokers: int) -> list[Replicas]:
    return [Replicas(topic=topic, partition=index, brokers=brokers) for index in range(count)]


def test_partitions_are_chosen_by_topic_or_one_by_one() -> None:
    there = [*replicas("a", 2, 1), *replicas("b", 3, 1)]

    assert [(each.topic, each.partition) for each in chosen(["b/1", "a"], there)] == [("a", 0), ("a", 1), ("b", 1)]
    for name in ("c", "a/2", "a/x"):
        with pytest.raises(NoPlan, match=name):
            chosen([name], there)


@settings(deadline=None)
@given(st.integers(1, 30), st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True), st.data())
def test_replicas_are_spread_evenly(count: int, brokers: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.integers(1, len(brokers)))

    found = round_robin(replicas("t", count, 1), brokers, wanted)

    assert all(len(set(each.brokers)) == wanted for each in found)
    leads = [sum(each.brokers[0] == broker for each in found) for broker in brokers]
    assert max(leads) - min(leads) <= 1


def test_more_replicas_than_brokers_cannot_be() -> None:
    with pytest.raises(NoPlan, match="3 replicas"):
        round_robin(replicas("t", 1, 1, 2, 3), [1, 2], None)


def test_what_is_there_already_is_not_moved() -> None:
    now = replicas("t", 3, 1, 2)

    assert [each.partition for each in changed(now, round_robin(now, [1, 2], None))] == [1]
