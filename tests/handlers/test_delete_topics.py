"""DeleteTopics."""

from __future__ import annotations

from uuid import uuid4

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import commit, committed, new_group, only_member


def test_groups_begin_anew_when_an_operator_has_deleted_their_topic() -> None:
    with kompat.testing.broker(group_initial_rebalance_delay_ms=0) as broker:
        ask = Asker(broker)
        topic, group = ask.new_topic(), new_group()
        only_member(ask, group)
        offsets = [{"name": "__consumer_offsets", "topic_id": None}]
        assert ask("DeleteTopics", 6, topics=offsets, timeout_ms=1000).responses[0].error_code == ErrorCode.NONE

        assert commit(ask, group, topic, 3) == [ErrorCode.NONE]
        assert committed(ask, group, topic) == (ErrorCode.NONE, 3)
        assert only_member(ask, group).generation_id == 1


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
