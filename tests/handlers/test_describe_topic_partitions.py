"""DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


def page(ask: Asker, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return ask("DescribeTopicPartitions", 0, topics=topics, response_partition_limit=limit, cursor=at)


def contents(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in answer.topics]


def test_topics_are_described_in_the_order_of_their_names(ask: Asker) -> None:
    first, second = sorted([ask.new_topic(partitions=2), ask.new_topic()])

    answer = page(ask, [second, first, "nope", "bad name", first])

    found = {name: (code, partitions) for name, code, partitions in contents(answer)}
    assert [t.name for t in answer.topics] == sorted({first, second, "nope", "bad name"})
    assert found["nope"] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert found["bad name"] == (ErrorCode.INVALID_TOPIC_EXCEPTION, [])
    assert answer.next_cursor is None


def test_pages_join_to_the_whole(ask: Asker) -> None:
    names = sorted([ask.new_topic(partitions=3), ask.new_topic(partitions=3)])
    seen: list[tuple[str, int]] = []
    cursor = None
    pages = 0

    while pages == 0 or cursor is not None:
        answer = page(ask, names, 2, cursor)
        seen += [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        end = answer.next_cursor
        cursor = None if end is None else (end.topic_name, end.partition_index)
        pages += 1

    assert seen == [(name, index) for name in names for index in range(3)]
    assert pages == 3


def test_a_page_that_ends_with_a_topic_points_at_the_next(ask: Asker) -> None:
    first, second = sorted([ask.new_topic(partitions=2), ask.new_topic(partitions=2)])

    answer = page(ask, [first, second], 2)

    assert contents(answer) == [(first, 0, [0, 1])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (second, 0)


def test_a_page_has_at_least_one_partition(ask: Asker) -> None:
    name = ask.new_topic(partitions=2)

    assert contents(page(ask, [name], 0)) == [(name, 0, [0])]


@pytest.mark.parametrize("cursor", [("elsewhere", 0), ("", -1)])
def test_a_cursor_that_makes_no_sense_is_refused(ask: Asker, cursor: tuple[str, int]) -> None:
    name = ask.new_topic()
    at = (cursor[0] or name, cursor[1])

    assert contents(page(ask, [name], cursor=at)) == [(name, ErrorCode.INVALID_REQUEST, [])]


def test_no_topics_describes_all(ask: Asker) -> None:
    name = ask.new_topic()

    described = {t.name: t for t in page(ask, []).topics}

    assert name in described
    assert described[name].topic_authorized_operations == 3576
    assert described[name].partitions[0].eligible_leader_replicas == []
