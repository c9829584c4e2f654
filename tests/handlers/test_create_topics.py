"""CreateTopics."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker

DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


def creation(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


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
