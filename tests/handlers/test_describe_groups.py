"""DescribeGroups: classic groups as administrators see them."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import (
    NO_TOPICS,
    a_consumer,
    an_empty_group,
    join,
    new_group,
    only_member,
)

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALLOWED = {READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}


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
