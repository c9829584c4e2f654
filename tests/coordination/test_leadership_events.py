"""Coordinators hear of the partitions of their own topic, and somebody else of all others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kompat.coordination.leadership_events import LeadershipEvents
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch


class Heard:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def leading(self, partition: Partition) -> None:
        self.events.append(("leading", partition))

    def following(self, partition: Partition) -> None:
        self.events.append(("following", partition))

    def changed(self, partition: Partition) -> None:
        self.events.append(("changed", partition))


def a_partition(topic: str) -> Partition:
    return cast("Partition", SimpleNamespace(topic=topic))


def test_a_coordinator_hears_of_its_own_topic_alone() -> None:
    groups, transactions, others = Heard(), Heard(), Heard()
    events = LeadershipEvents({"offsets": groups, "state": transactions}, others.changed)
    offsets, state = a_partition("offsets"), a_partition("state")

    events.leading(offsets, LeaderEpoch(1))
    events.leading(state, LeaderEpoch(1))
    events.following(offsets)

    assert groups.events == [("leading", offsets), ("following", offsets)]
    assert transactions.events == [("leading", state)]
    assert others.events == []


def test_of_every_other_partition_it_is_told_that_its_leader_has_changed() -> None:
    groups, others = Heard(), Heard()
    events, orders = LeadershipEvents({"offsets": groups}, others.changed), a_partition("orders")

    events.leading(orders, LeaderEpoch(2))
    events.following(orders)

    assert others.events == [("changed", orders), ("changed", orders)]
    assert groups.events == []
