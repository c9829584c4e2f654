"""ShareGroupHeartbeat, ShareGroupDescribe and the offsets of share groups as a client sees them (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode

from .conftest import Asker
from .members import new_group
from .share import beat

ON_GROUP, NOT_ASKED = 3400, -(2**31)


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


# -- ShareGroupHeartbeat -----------------------------------------------------------------------------------------------
def test_who_joins_has_its_partitions_with_the_first_answer(ask: Asker, group: str, topic: str) -> None:
    answer = beat(ask, group, "m1", 0, topic)

    assert (answer.error_code, answer.error_message, answer.member_id) == (ErrorCode.NONE, None, "m1")
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 5000)
    assert assigned(answer) == {0, 1, 2}
    assert assigned(beat(ask, group, "m1", 2)) is None


def test_members_that_come_at_once_all_have_partitions(ask: Asker, group: str, topic: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda name: beat(ask, group, name, 0, topic), ("m1", "m2", "m3")))

    assert all(assigned(answer) for answer in answers)
    told = [beat(ask, group, name, 0, topic) for name in ("m1", "m2", "m3")]
    assert sorted(number for answer in told for number in assigned(answer) or ()) == [0, 1, 2]
    assert beat(ask, group, "m4", 0, topic).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_leaves_and_another_has_its_partitions(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    assert assigned(beat(ask, group, "m2", 0, topic)) == {2}

    left = beat(ask, group, "m1", -1)

    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "m1", -1)
    assert assigned(beat(ask, group, "m2", 3)) == {0, 1, 2}


def test_partitions_that_a_topic_gets_are_assigned(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    ask("CreatePartitions", 3, topics=[{"name": topic, "count": 4}], timeout_ms=1000)

    epoch = 2
    deadline = time.monotonic() + 5
    while assigned(answer := beat(ask, group, "m1", epoch)) != {0, 1, 2, 3}:
        epoch = answer.member_epoch
        assert time.monotonic() < deadline


def test_refusals_have_kafkas_words(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    def refusal(*args: Any, **fields: Any) -> tuple[int, str | None]:
        answer = beat(ask, *args, **fields)
        assert (answer.member_id, answer.assignment) == (None, None)
        return answer.error_code, answer.error_message

    assert refusal(group, "", 0, topic) == (ErrorCode.INVALID_REQUEST, None)
    assert refusal(group, "m", 0) == (
        ErrorCode.INVALID_REQUEST,
        "SubscribedTopicNames must be set in first request.",
    )
    assert refusal(group, "m2", 5) == (ErrorCode.UNKNOWN_MEMBER_ID, f"Member m2 is not a member of group {group}.")
    assert refusal("nobody", "m2", 5) == (ErrorCode.GROUP_ID_NOT_FOUND, "Share group nobody not found.")
    assert refusal("nobody", "m2", -1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert refusal(group, "m1", 9) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a greater member epoch (9) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin.",
    )
    assert refusal(group, "m1", 1) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (2), and it "
        "does not match the previous member epoch (0). The member must abandon all its partitions and rejoin.",
    )


def test_a_group_has_intervals_of_its_own(ask: Asker, group: str, topic: str) -> None:
    configs = [{"name": "share.heartbeat.interval.ms", "config_operation": 0, "value": "6000"}]
    resources = [{"resource_type": 32, "resource_name": group, "configs": configs}]
    ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)

    assert beat(ask, group, "m1", 0, topic).heartbeat_interval_ms == 6000


# -- ShareGroupDescribe, ListGroups, DeleteGroups ----------------------------------------------------------------------
def test_groups_are_described(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic, rack_id="r1")

    answer = ask("ShareGroupDescribe", 1, group_ids=[group, "nobody", ""], include_authorized_operations=True)

    found, unknown, empty = answer.groups
    assert (found.error_code, found.group_state, found.group_epoch) == (ErrorCode.NONE, "Stable", 2)
    assert (found.assignment_epoch, found.assignor_name, found.authorized_operations) == (2, "simple", ON_GROUP)
    [member] = found.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m1", "r1", 2)
    assert (member.client_id, member.client_host) == ("tests", "/127.0.0.1")
    assert member.subscribed_topic_names == [topic]
    [part] = member.assignment.topic_partitions
    assert (part.topic_name, part.partitions) == (topic, [0, 1, 2])
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert unknown.authorized_operations == NOT_ASKED
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID


def test_groups_of_other_kinds_are_not_described(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    [classic] = ask("DescribeGroups", 6, groups=[group]).groups
    [consumer] = ask("ConsumerGroupDescribe", 1, group_ids=[group]).groups

    assert (classic.error_code, classic.error_message, classic.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group} is not a classic group.",
        "Dead",
    )
    assert (consumer.error_code, consumer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group} is not a consumer group.",
    )


def test_groups_are_listed_by_their_type(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    listed = ask("ListGroups", 5, types_filter=["share"], states_filter=["stable"]).groups

    assert (group, "share", "Stable", "share") in [
        (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed
    ]


def test_a_group_is_deleted_with_where_it_stood(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    [busy] = ask("DeleteGroups", 2, groups_names=[group]).results
    assert busy.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(ask, group, "m1", -1)
    assert offsets(ask, group) == [(0, -1), (1, -1), (2, -1)]

    [deleted] = ask("DeleteGroups", 2, groups_names=[group]).results

    assert deleted.error_code == ErrorCode.NONE
    assert offsets(ask, group) == []
    assert group not in [each.group_id for each in ask("ListGroups", 5, types_filter=[], states_filter=[]).groups]


# -- offsets -----------------------------------------------------------------------------------------------------------
def test_offsets_can_be_set_before_the_group_exists(ask: Asker, group: str, topic: str) -> None:
    answer = alter(ask, group, topic, 5, 6, 7, 8)

    [answered] = answer.responses
    assert [(each.partition_index, each.error_code) for each in answered.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (2, ErrorCode.NONE),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert offsets(ask, group) == offsets(ask, group, topic) == [(0, 5), (1, 6), (2, 7)]
    assert assigned(beat(ask, group, "m1", 0, topic)) == {0, 1, 2}
    assert offsets(ask, group) == [(0, 5), (1, 6), (2, 7)]


def test_offsets_of_a_group_with_members_stay(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    for answer in (alter(ask, group, topic, 5), forget(ask, group, topic)):
        assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert answer.responses == []


def test_offsets_are_forgotten(ask: Asker, group: str, topic: str) -> None:
    alter(ask, group, topic, 5)

    answer = forget(ask, group, topic, "absent")

    assert [(each.topic_name, each.error_code) for each in answer.responses] == [
        (topic, ErrorCode.NONE),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert offsets(ask, group) == []
    [again] = forget(ask, group, topic).responses
    assert again.error_message == "There is no offset information to delete."
    assert forget(ask, "nobody", topic).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_are_only_those_of_share_groups(ask: Asker, topic: str) -> None:
    group = new_group()
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    ask("OffsetCommit", 9, group_id=group, topics=[{"name": topic, "partitions": partitions}])

    message = f"Group {group} is not a share group."
    assert (alter(ask, group, topic, 5).error_message, forget(ask, group, topic).error_message) == (message, message)


# -- restart -----------------------------------------------------------------------------------------------------------
def test_a_group_survives_a_restart(tmp_path: Any, group: str) -> None:
    settings = {"data": str(tmp_path), "group.share.assignment.interval.ms": "0"}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)
        topic = ask.new_topic(2)
        assert assigned(beat(ask, group, "m1", 0, topic)) == {0, 1}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)

        answer = beat(ask, group, "m1", 2, topic)

        assert (answer.error_code, answer.member_epoch, assigned(answer)) == (ErrorCode.NONE, 2, {0, 1})
