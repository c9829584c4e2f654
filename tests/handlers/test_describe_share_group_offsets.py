"""DescribeShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.handlers.conftest import Asker
from tests.handlers.share import acquired
from tests.handlers.share_queue import ACCEPT, Queue, ask, queue

__all__ = ["ask", "queue"]


def test_offsets_of_groups_are_told_and_set(queue: Callable[..., Queue], ask: Asker) -> None:
    orders = queue()
    orders.numbers(10)
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]})
    alice.acknowledge(orders.said((0, 3, ACCEPT), (6, 6, ACCEPT)))
    asked = [{"group_id": orders.group, "topics": [{"topic_name": orders.topic, "partitions": [0]}]}]
    altered = [{"topic_name": orders.topic, "partitions": [{"partition_index": 0, "start_offset": 2}]}]

    def described(topics: Any = asked) -> Any:
        [group] = ask("DescribeShareGroupOffsets", 1, groups=topics).groups
        assert group.error_code == 0
        return [(p.start_offset, p.lag) for topic in group.topics for p in topic.partitions]

    assert described() == [(4, 5)]
    assert described([{"group_id": orders.group, "topics": None}]) == [(4, 5)]
    alice.fetch(share_session_epoch=-1)
    assert ask("AlterShareGroupOffsets", 0, group_id=orders.group, topics=altered).error_code == 0
    assert described() == [(2, 8)]
    assert acquired(orders.member("bob").fetch({orders.id: [0]})) == [(2, 9, 1)]
