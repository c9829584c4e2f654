"""OffsetCommit."""

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
    committed,
    fetched,
    id_of,
    name_it,
    new_group,
    only_member,
)

COMMIT_VERSIONS = range(2, 11)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_an_offset_is_kept_in_every_version(prompt: Asker, topic: str, version: int) -> None:
    group = new_group()
    partition = {"partition_index": 1, "committed_offset": 7, "committed_metadata": "note"}
    named = name_it(prompt, topic, version)

    answer = prompt("OffsetCommit", version, group_id=group, topics=[{**named, "partitions": [partition]}])

    [told] = answer.topics
    assert (told.topic_id if version >= BY_ID else told.name) in named.values()
    assert [(each.partition_index, each.error_code) for each in told.partitions] == [(1, ErrorCode.NONE)]
    assert committed(prompt, group, topic, 1) == (ErrorCode.NONE, 7)
    assert committed(prompt, group, topic, 0) == (ErrorCode.NONE, -1)


def test_what_does_not_exist_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group = new_group()
    asked = [0, 9, 1, -1]

    assert commit(prompt, group, topic, partitions=asked) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert commit(prompt, group, "no-such-topic") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert committed(prompt, group, topic, 1) == (ErrorCode.NONE, 5)


def test_an_unknown_topic_id_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group, nobodys = new_group(), uuid4()
    partitions = [{"partition_index": 0, "committed_offset": 3}]
    topics = [{"topic_id": each, "partitions": partitions} for each in (nobodys, id_of(prompt, topic))]

    answer = prompt("OffsetCommit", BY_ID, group_id=group, topics=topics)

    assert [each.topic_id for each in answer.topics] == [each["topic_id"] for each in topics]
    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NONE]
    assert committed(prompt, group, topic) == (ErrorCode.NONE, 3)


def test_who_is_no_member_is_refused_except_for_what_does_not_exist(prompt: Asker, topic: str) -> None:
    group = new_group()
    only_member(prompt, group)

    codes = commit(prompt, group, topic, partitions=[0, 9], member_id="nobody", generation_id_or_member_epoch=1)

    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_of_nothing_is_not_judged(prompt: Asker, version: int) -> None:
    answer = prompt("OffsetCommit", version, group_id=new_group(), generation_id_or_member_epoch=4, topics=[])

    assert answer.topics == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"generation_id_or_member_epoch": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "one"}, ErrorCode.NONE),
        ({"group_instance_id": "two"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "one", "member_id": "nobody"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_members_commit_for_their_generation(
    prompt: Asker, topic: str, fields: dict[str, Any], code: ErrorCode
) -> None:
    group = new_group()
    member = only_member(prompt, group, group_instance_id="one")
    as_member = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id}

    assert commit(prompt, group, topic, **{**as_member, **fields}) == [code]


def test_members_of_consumer_groups_commit_for_their_epoch_and_from_version_9_on(prompt: Asker, topic: str) -> None:
    consumer = a_consumer(prompt)
    epoch = consumer.join(topic).member_epoch

    def try_to(version: int, told: int) -> list[ErrorCode]:
        fields: dict[str, Any] = {"member_id": consumer.member_id, "generation_id_or_member_epoch": told}
        return commit(prompt, consumer.group, topic, version=version, **fields)

    assert try_to(8, epoch) == [ErrorCode.UNSUPPORTED_VERSION]
    assert try_to(9, epoch) == [ErrorCode.NONE]
    assert try_to(9, epoch + 1) == [ErrorCode.STALE_MEMBER_EPOCH]


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_a_group_that_is_gone_is_told_so(prompt: Asker, topic: str, version: int, code: ErrorCode) -> None:
    fields: dict[str, Any] = {"member_id": "somebody", "generation_id_or_member_epoch": 3}

    assert commit(prompt, new_group(), topic, version=version, **fields) == [code]


def test_a_note_may_be_missing_but_not_too_long(prompt: Asker, topic: str) -> None:
    group = new_group()

    assert commit(prompt, group, topic, metadata=None) == [ErrorCode.NONE]
    assert commit(prompt, group, topic, metadata="x" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    [partition] = fetched(prompt, group, topic, 9)
    assert partition.metadata == ""
