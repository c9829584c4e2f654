"""CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from kompat.errors import ErrorCode

from .conftest import Asker

DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


def creation(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


# -- CreateTopics ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(ask: Asker, version: int) -> None:
    name = f"created-v{version}"

    [result] = ask("CreateTopics", version, topics=[creation(name, 3)]).topics

    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert (result.num_partitions, result.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))
    assert (result.topic_id is not None) == (version >= 7)
    assert len(ask("Metadata", 12, topics=[{"name": name}]).topics[0].partitions) == 3


def test_a_new_topic_tells_all_its_settings_and_where_they_come_from(ask: Asker) -> None:
    wanted = creation("with-settings", configs=[{"name": "retention.ms", "value": "5000"}])

    [result] = ask("CreateTopics", 7, topics=[wanted]).topics

    settings = {c.name: (c.value, c.config_source, c.read_only, c.is_sensitive) for c in result.configs}
    assert settings["retention.ms"] == ("5000", DYNAMIC_TOPIC_CONFIG, False, False)
    assert settings["cleanup.policy"] == ("delete", DEFAULT_CONFIG, False, False)
    assert len(settings) > 30


def test_validate_only_answers_like_a_creation_and_creates_nothing(ask: Asker) -> None:
    [result] = ask("CreateTopics", 7, topics=[creation("not-really", 4)], validate_only=True).topics

    assert (result.error_code, result.num_partitions, len(result.configs) > 30) == (ErrorCode.NONE, 4, True)
    assert (
        ask("Metadata", 12, topics=[{"name": "not-really"}], allow_auto_topic_creation=False).topics[0].error_code == 3
    )


def test_topics_succeed_and_fail_each_by_itself(ask: Asker) -> None:
    known = ask.new_topic()

    results = ask("CreateTopics", 7, topics=[creation(known), creation("bad name"), creation("good-name")]).topics

    assert {r.name: (r.error_code, r.error_message) for r in results} == {
        known: (ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{known}' already exists."),
        "bad name": (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        "good-name": (ErrorCode.NONE, None),
    }


def test_a_name_given_twice_is_refused_once(ask: Asker) -> None:
    results = ask("CreateTopics", 7, topics=[creation("twice"), creation("twice")]).topics

    assert [(r.name, r.error_code, r.error_message) for r in results] == [
        ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]


def test_manual_assignments_are_kept(ask: Asker) -> None:
    assignments = [{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 1, "broker_ids": [1]}]

    [result] = ask("CreateTopics", 7, topics=[creation("by-hand", -1, -1, assignments=assignments)]).topics

    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 1)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (creation("x", 0), ErrorCode.INVALID_PARTITIONS),
        (creation("x", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            creation("x", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [9]}]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (creation("x", 2, 1, assignments=[{"partition_index": 0, "broker_ids": [1]}]), ErrorCode.INVALID_REQUEST),
        (creation("x", configs=[{"name": "retention.ms", "value": "soon"}]), ErrorCode.INVALID_CONFIG),
        (creation("x", configs=[{"name": "no.such.setting", "value": "1"}]), ErrorCode.INVALID_CONFIG),
        (creation("x", configs=[{"name": "retention.ms", "value": None}]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_reason(ask: Asker, wanted: dict[str, Any], code: ErrorCode) -> None:
    [result] = ask("CreateTopics", 7, topics=[wanted]).topics

    assert (result.error_code, result.topic_id, result.num_partitions) == (code, None, -1)
    assert result.error_message


# -- DeleteTopics ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(ask: Asker, version: int) -> None:
    name = ask.new_topic()

    [result] = ask("DeleteTopics", version, topic_names=[name], timeout_ms=1000).responses

    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0].error_code == 3


def test_topics_are_deleted_by_id(ask: Asker) -> None:
    name = ask.new_topic()
    topic_id = ask("Metadata", 12, topics=[{"name": name}]).topics[0].topic_id

    [result] = ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout_ms=1000).responses

    assert (result.name, result.topic_id, result.error_code) == (name, topic_id, ErrorCode.NONE)


def test_what_cannot_be_deleted_is_told_one_by_one(ask: Asker) -> None:
    missing = uuid4()
    both = uuid4()
    asked = [{"name": "nope"}, {"name": None, "topic_id": missing}, {"name": None}, {"name": "a", "topic_id": both}]

    results = ask("DeleteTopics", 6, topics=asked, timeout_ms=1000).responses

    assert {(r.name, r.topic_id): (r.error_code, r.error_message) for r in results} == {
        ("nope", None): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (None, missing): (ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (None, None): (ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("a", both): (ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
    }


# -- CreatePartitions --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(ask: Asker, version: int) -> None:
    name = ask.new_topic()

    [result] = ask("CreatePartitions", version, topics=[{"name": name, "count": 3}], timeout_ms=1000).results

    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert len(ask("Metadata", 12, topics=[{"name": name}]).topics[0].partitions) == 3


def test_partitions_are_not_added_by_validate_only(ask: Asker) -> None:
    name = ask.new_topic()

    [result] = ask("CreatePartitions", 3, topics=[{"name": name, "count": 3}], validate_only=True).results

    assert result.error_code == ErrorCode.NONE
    assert len(ask("Metadata", 12, topics=[{"name": name}]).topics[0].partitions) == 1


def test_a_topic_does_not_shrink(ask: Asker) -> None:
    name = ask.new_topic(partitions=2)

    [result] = ask("CreatePartitions", 3, topics=[{"name": name, "count": 1}]).results

    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_PARTITIONS,
        f"The topic {name} currently has 2 partition(s); 1 would not be an increase.",
    )


def test_partitions_of_a_missing_topic_are_refused_without_a_text(ask: Asker) -> None:
    [result] = ask("CreatePartitions", 3, topics=[{"name": "nope", "count": 1}]).results

    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


# -- DescribeTopicPartitions -------------------------------------------------------------------------------------------
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
