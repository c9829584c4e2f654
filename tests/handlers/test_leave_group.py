"""LeaveGroup: one member, and from version 3 on many at once."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import new_group, only_member


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves_and_its_error_is_the_requests(prompt: Asker, version: int) -> None:
    group = new_group()
    member = only_member(prompt, group)

    def leave(group_id: str, member_id: str) -> ErrorCode:
        return ErrorCode(prompt("LeaveGroup", version, group_id=group_id, member_id=member_id).error_code)

    assert leave("", member.member_id) is ErrorCode.INVALID_GROUP_ID
    assert leave("no-such-group", member.member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(group, member.member_id) is ErrorCode.NONE
    assert leave(group, member.member_id) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_many_leave_at_once_and_each_is_answered(prompt: Asker, version: int) -> None:
    group = new_group()
    member = only_member(prompt, group, group_instance_id="one")
    leaving: list[tuple[str, str | None, ErrorCode]] = [
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", "one", ErrorCode.FENCED_INSTANCE_ID),
        ("", "two", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "one", ErrorCode.NONE),
        (member.member_id, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    members = [{"member_id": member_id, "group_instance_id": instance} for member_id, instance, _ in leaving]

    answer = prompt("LeaveGroup", version, group_id=group, members=members)

    assert answer.error_code == ErrorCode.NONE
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == leaving


def test_who_leaves_a_group_without_a_name_is_told_so_once(prompt: Asker) -> None:
    answer = prompt("LeaveGroup", 5, group_id="", members=[{"member_id": "somebody"}])

    assert (answer.error_code, answer.members) == (ErrorCode.INVALID_GROUP_ID, [])


@pytest.mark.parametrize("version", range(3, 6))
def test_members_that_leave_an_unknown_group_are_unknown(prompt: Asker, version: int) -> None:
    answer = prompt("LeaveGroup", version, group_id="no-such-group", members=[{"member_id": "somebody"}])

    assert answer.error_code == ErrorCode.NONE
    assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
