"""OffsetCommit, OffsetFetch, OffsetDelete: where groups stand."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from kompat.errors import ErrorCode

from .conftest import Asker
from .members import a_consumer, commit, committed, new_group, only_member, subscription

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
BY_ID = 10


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=2)


def id_of(ask: Asker, topic: str) -> UUID:
    found: UUID = ask("Metadata", 12, topics=[{"topic_id": None, "name": topic}]).topics[0].topic_id
    return found


def name_it(ask: Asker, topic: str, version: int) -> dict[str, Any]:
    """As the version of OffsetCommit or OffsetFetch names topics."""
    return {"topic_id": id_of(ask, topic)} if version >= BY_ID else {"name": topic}


# -- OffsetCommit ------------------------------------------------------------------------------------------------------
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


# -- OffsetFetch -------------------------------------------------------------------------------------------------------
def fetched(ask: Asker, group: str, topic: str | None, version: int, **fields: Any) -> list[Any]:
    """The partitions of the one topic that is answered; none if none is."""
    topics = None if topic is None else [{**name_it(ask, topic, version), "partition_indexes": [0]}]
    if version < 8:
        answer = ask("OffsetFetch", version, group_id=group, topics=topics, **fields)
    else:
        stable = {name: fields.pop(name) for name in ("require_stable",) if name in fields}
        groups = [{"group_id": group, "topics": topics, **fields}]
        [answer] = ask("OffsetFetch", version, groups=groups, **stable).groups
        assert answer.group_id == group
    assert version < 2 or answer.error_code == ErrorCode.NONE
    assert len(answer.topics) <= 1
    return [partition for each in answer.topics for partition in each.partitions]


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


# -- OffsetDelete ------------------------------------------------------------------------------------------------------
def forget(ask: Asker, group: str, topics: dict[str, list[int]]) -> tuple[ErrorCode, dict[str, list[ErrorCode]]]:
    asked = [{"name": name, "partitions": [{"partition_index": i} for i in wanted]} for name, wanted in topics.items()]
    answer = ask("OffsetDelete", 0, group_id=group, topics=asked)
    told = {each.name: [ErrorCode(p.error_code) for p in each.partitions] for each in answer.topics}
    return ErrorCode(answer.error_code), told


def test_offsets_are_forgotten_and_what_does_not_exist_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group = new_group()
    commit(prompt, group, topic, partitions=[0, 1])

    assert forget(prompt, group, {topic: [0, 9], "no-such-topic": [0]}) == (
        ErrorCode.NONE,
        {
            topic: [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            "no-such-topic": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        },
    )
    assert committed(prompt, group, topic, 0) == (ErrorCode.NONE, -1)
    assert committed(prompt, group, topic, 1) == (ErrorCode.NONE, 5)


def test_a_group_keeps_the_offsets_of_topics_that_it_reads(prompt: Asker, topic: str) -> None:
    group, other = new_group(), prompt.new_topic()
    for each in (topic, other):
        commit(prompt, group, each)
    only_member(prompt, group, protocols={"range": subscription(topic)})

    assert forget(prompt, group, {topic: [0], other: [0]}) == (
        ErrorCode.NONE,
        {topic: [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC], other: [ErrorCode.NONE]},
    )


def test_offsets_of_groups_that_are_no_groups_or_not_of_consumers_cannot_be_forgotten(
    prompt: Asker, topic: str
) -> None:
    connect = new_group()
    only_member(prompt, connect, protocol_type="connect")

    assert forget(prompt, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
    assert forget(prompt, "no-such-group", {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert forget(prompt, connect, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})
