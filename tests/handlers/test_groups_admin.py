"""DescribeGroups, ListGroups, DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode

from .conftest import Asker
from .members import NO_TOPICS, a_consumer, commit, committed, join, leave, new_group, only_member

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALLOWED = {READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}


def an_empty_group(ask: Asker) -> str:
    group = new_group()
    leave(ask, group, only_member(ask, group).member_id)
    return group


# -- DescribeGroups ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(prompt: Asker, version: int) -> None:
    group = new_group()
    member = only_member(prompt, group, group_instance_id="one")

    [described] = prompt("DescribeGroups", version, groups=[group]).groups

    assert (described.error_code, described.group_id, described.group_state) == (ErrorCode.NONE, group, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    [shown] = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member.member_id, "tests", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (NO_TOPICS, b"all")
    assert version < 4 or shown.group_instance_id == "one"


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_not_found(prompt: Asker, version: int) -> None:
    [described] = prompt("DescribeGroups", version, groups=["no-such-group"]).groups

    assert (described.group_id, described.group_state, described.members) == ("no-such-group", "Dead", [])
    assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert version < 6 or described.error_message == "Group no-such-group not found."


def test_a_consumer_group_is_no_classic_one(prompt: Asker) -> None:
    consumer = a_consumer(prompt)
    consumer.join(prompt.new_topic())

    [described] = prompt("DescribeGroups", 6, groups=[consumer.group]).groups

    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == f"Group {consumer.group} is not a classic group."


@pytest.mark.parametrize("version", range(3, 7))
def test_what_may_be_done_is_told_when_asked_and_the_group_is_there(prompt: Asker, version: int) -> None:
    group = an_empty_group(prompt)

    def operations(name: str, **asked: bool) -> Any:
        [described] = prompt("DescribeGroups", version, groups=[name], **asked).groups
        return described.authorized_operations

    assert operations(group) is None
    assert operations(group, include_authorized_operations=True) == ALLOWED
    dead = operations("no-such-group", include_authorized_operations=True)
    assert dead is None if version >= 6 else dead == ALLOWED


def test_groups_are_described_in_the_order_they_are_asked_for(prompt: Asker) -> None:
    groups = [an_empty_group(prompt) for _ in range(3)]
    asked = [*reversed(groups), groups[0]]

    assert [each.group_id for each in prompt("DescribeGroups", 6, groups=asked).groups] == asked
    assert prompt("DescribeGroups", 6, groups=[]).groups == []


def test_a_group_is_empty_until_its_first_member_comes_back_with_its_id(prompt: Asker) -> None:
    group = new_group()
    assert join(prompt, group).error_code == ErrorCode.MEMBER_ID_REQUIRED

    [described] = prompt("DescribeGroups", 6, groups=[group]).groups

    assert (described.error_code, described.group_state, described.members) == (ErrorCode.NONE, "Empty", [])


# -- ListGroups --------------------------------------------------------------------------------------------------------
@pytest.fixture
def groups(prompt: Asker) -> dict[str, str]:
    """One group of every kind, by what it is."""
    topic = prompt.new_topic()
    consumer, simple, connect = a_consumer(prompt), new_group(), new_group()
    consumer.join(topic)
    commit(prompt, simple, topic)
    only_member(prompt, connect, protocol_type="connect")
    return {"consumer": consumer.group, "empty": an_empty_group(prompt), "simple": simple, "connect": connect}


def listed(ask: Asker, groups: dict[str, str], version: int = 5, **filters: list[str]) -> dict[str, Any]:
    """Those of the groups that are listed, by what they are."""
    found = {each.group_id: each for each in ask("ListGroups", version, **filters).groups}
    return {kind: found[group] for kind, group in groups.items() if group in found}


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(prompt: Asker, groups: dict[str, str], version: int) -> None:
    found = listed(prompt, groups, version)

    assert {kind: each.protocol_type for kind, each in found.items()} == {
        "consumer": "consumer",
        "empty": "consumer",
        "simple": "",
        "connect": "connect",
    }
    assert version < 4 or {kind: each.group_state for kind, each in found.items()} == {
        "consumer": "Stable",
        "empty": "Empty",
        "simple": "Empty",
        "connect": "Stable",
    }
    assert version < 5 or {kind: each.group_type for kind, each in found.items()} == {
        "consumer": "consumer",
        "empty": "classic",
        "simple": "classic",
        "connect": "classic",
    }


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        ({"states_filter": ["Stable"]}, {"consumer", "connect"}),
        ({"states_filter": ["stable", "EMPTY"]}, {"consumer", "connect", "empty", "simple"}),
        ({"states_filter": ["PreparingRebalance"]}, set()),
        ({"states_filter": ["no such state"]}, set()),
        ({"types_filter": ["Consumer"]}, {"consumer"}),
        ({"types_filter": ["classic", "consumer"]}, {"consumer", "connect", "empty", "simple"}),
        ({"types_filter": ["no such type"]}, set()),
        ({"types_filter": ["classic"], "states_filter": ["Stable"]}, {"connect"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    prompt: Asker, groups: dict[str, str], filters: dict[str, Any], kinds: set[str]
) -> None:
    assert listed(prompt, groups, **filters).keys() == kinds


def test_a_broker_without_groups_lists_none() -> None:
    with kompat.testing.broker() as fresh:
        answer = Asker(fresh)("ListGroups", 5)

    assert (answer.error_code, answer.groups) == (ErrorCode.NONE, [])


# -- DeleteGroups ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted_with_their_offsets(prompt: Asker, version: int) -> None:
    topic = prompt.new_topic()
    full, empty = new_group(), an_empty_group(prompt)
    only_member(prompt, full)
    commit(prompt, empty, topic)

    answer = prompt("DeleteGroups", version, groups_names=[full, empty, "no-such-group", empty])

    assert [(each.group_id, each.error_code) for each in answer.results] == [
        (full, ErrorCode.NON_EMPTY_GROUP),
        (empty, ErrorCode.NONE),
        ("no-such-group", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert committed(prompt, empty, topic) == (ErrorCode.NONE, -1)


def test_a_consumer_group_is_deleted_when_its_members_have_left(prompt: Asker) -> None:
    consumer = a_consumer(prompt)
    consumer.join(prompt.new_topic())

    def delete() -> ErrorCode:
        return ErrorCode(prompt("DeleteGroups", 2, groups_names=[consumer.group]).results[0].error_code)

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    consumer.leave()
    assert delete() is ErrorCode.NONE
    assert delete() is ErrorCode.GROUP_ID_NOT_FOUND


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
