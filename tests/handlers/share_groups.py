"""Share groups and their offsets by request, and a broker whose share groups are assigned at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kompat.testing
from tests.handlers.conftest import Asker
from tests.handlers.members import new_group


@pytest.fixture(scope="module")
def ask() -> Iterator[Asker]:
    settings = {"group.share.assignment.interval.ms": 0, "group.share.max.size": 3}
    with kompat.testing.broker(settings) as running:
        yield Asker(running)


@pytest.fixture
def topic(ask: Asker) -> str:
    return ask.new_topic(partitions=3)


@pytest.fixture
def group() -> str:
    return new_group()


def assigned(answer: Any) -> set[int] | None:
    """The partitions, of whatever topic."""
    if answer.assignment is None:
        return None
    return {index for each in answer.assignment.topic_partitions for index in each.partitions}


def offsets(ask: Asker, group: str, topic: str | None = None) -> list[tuple[int, int]]:
    topics = None if topic is None else [{"topic_name": topic, "partitions": [0, 1, 2]}]
    [answer] = ask("DescribeShareGroupOffsets", 1, groups=[{"group_id": group, "topics": topics}]).groups
    assert answer.error_code == 0, answer
    return [(each.partition_index, each.start_offset) for found in answer.topics for each in found.partitions]


def alter(ask: Asker, group: str, topic: str, *starts: int) -> Any:
    partitions = [{"partition_index": index, "start_offset": offset} for index, offset in enumerate(starts)]
    return ask("AlterShareGroupOffsets", 0, group_id=group, topics=[{"topic_name": topic, "partitions": partitions}])


def forget(ask: Asker, group: str, *topics: str) -> Any:
    return ask("DeleteShareGroupOffsets", 0, group_id=group, topics=[{"topic_name": topic} for topic in topics])
