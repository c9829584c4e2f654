"""OffsetFetch."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import (
    BY_ID,
    a_consumer,
    commit,
    fetched,
    id_of,
    new_group,
)

FETCH_VERSIONS = range(1, 11)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_offset_is_found_in_every_version(prompt: Asker, topic: str, version: int) -> None:
    group = new_group()
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x", "committed_leader_epoch": 3}
    prompt("OffsetCommit", 9, group_id=group, topics=[{"name": topic, "partitions": [partition]}])

    for asked in [topic] if version < 2 else [topic, None]:
        [found] = fetched(prompt, group, asked, version)
        assert (found.partition_index, found.committed_offset, found.metadata) == (0, 7, "x")
        assert version < 5 or found.committed_leader_epoch == 3
        assert found.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_what_nobody_has_committed_is_no_error(prompt: Asker, topic: str, version: int) -> None:
    [missing] = fetched(prompt, new_group(), topic, version)

    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", ErrorCode.NONE)
    assert version < 2 or fetched(prompt, new_group(), None, version) == []


def test_many_groups_are_answered_each_by_itself(prompt: Asker, topic: str) -> None:
    consumer, simple = a_consumer(prompt), new_group()
    consumer.join(topic)
    commit(prompt, simple, topic, 8)
    topics = [{"name": topic, "partition_indexes": [1, 0, 0]}]
    groups = [
        {"group_id": consumer.group, "member_id": consumer.member_id, "member_epoch": 99, "topics": topics},
        {"group_id": simple, "topics": topics},
        {"group_id": "no-such-group", "topics": None},
    ]

    answer = prompt("OffsetFetch", 9, groups=groups)

    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        (consumer.group, ErrorCode.STALE_MEMBER_EPOCH),
        (simple, ErrorCode.NONE),
        ("no-such-group", ErrorCode.NONE),
    ]
    assert [each.topics for each in answer.groups[::2]] == [[], []]
    offsets = [(each.partition_index, each.committed_offset) for each in answer.groups[1].topics[0].partitions]
    assert offsets == [(1, -1), (0, 8), (0, 8)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"member_id": "nobody", "member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": None, "member_epoch": -1}, ErrorCode.NONE),
        ({"member_epoch": 99}, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_members_of_consumer_groups_fetch_with_their_epoch(
    prompt: Asker, topic: str, fields: dict[str, Any], code: ErrorCode
) -> None:
    consumer = a_consumer(prompt)
    as_member = {"member_id": consumer.member_id, "member_epoch": consumer.join(topic).member_epoch}
    group = {"group_id": consumer.group, "topics": None, **as_member, **fields}

    assert prompt("OffsetFetch", 9, groups=[group]).groups[0].error_code == code


def test_topics_are_fetched_by_id_and_one_that_is_unknown_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group, nobodys, ours = new_group(), uuid4(), id_of(prompt, topic)
    commit(prompt, group, topic, 4)
    topics = [{"topic_id": each, "partition_indexes": [0, 1]} for each in (nobodys, ours)]

    [answer] = prompt("OffsetFetch", BY_ID, groups=[{"group_id": group, "topics": topics}]).groups

    unknown = (-1, ErrorCode.UNKNOWN_TOPIC_ID)
    assert {each.topic_id: [(p.committed_offset, p.error_code) for p in each.partitions] for each in answer.topics} == {
        nobodys: [unknown, unknown],
        ours: [(4, ErrorCode.NONE), (-1, ErrorCode.NONE)],
    }


def test_offsets_of_a_deleted_topic_are_forgotten_and_its_namesake_begins_without(prompt: Asker, topic: str) -> None:
    group = new_group()
    commit(prompt, group, topic, 4, version=9)
    prompt("DeleteTopics", 6, topics=[{"name": topic, "topic_id": None}], timeout_ms=1000)
    created = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    assert prompt("CreateTopics", 7, topics=[created]).topics[0].error_code == ErrorCode.NONE

    [found] = fetched(prompt, group, topic, BY_ID)

    assert found.committed_offset == -1
