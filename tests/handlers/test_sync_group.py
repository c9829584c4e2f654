"""SyncGroup: the leader hands the assignment in, and members get their part."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import heartbeat, join, new_group, only_member, sync, waiting


@pytest.mark.parametrize("version", range(6))
def test_members_get_their_part_when_the_leader_has_handed_in_the_assignment(prompt: Asker, version: int) -> None:
    group = new_group()
    leader = only_member(prompt, group)
    other_id = join(prompt, group).member_id
    with waiting(join, prompt, group, other_id) as joining:
        while heartbeat(prompt, group, leader) is not ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        leader = join(prompt, group, leader.member_id)
    follower = joining.result()

    with waiting(sync, prompt, follower, group, version) as syncing:
        parts = {leader.member_id: b"mine", follower.member_id: b"yours"}
        assignments = [{"member_id": member_id, "assignment": part} for member_id, part in parts.items()]
        mine = sync(prompt, leader, group, version, assignments=assignments)
    yours = syncing.result()

    assert [(each.error_code, each.assignment) for each in (mine, yours)] == [(0, b"mine"), (0, b"yours")]
    assert version < 5 or (yours.protocol_type, yours.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "no-such-group"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_that_does_not_fit_the_generation_is_refused(
    prompt: Asker, fields: dict[str, Any], code: ErrorCode
) -> None:
    group = new_group()
    member = only_member(prompt, group)

    answer = sync(prompt, member, group, **{"group_id": group, **fields})

    assert (answer.error_code, answer.assignment) == (code, b"")


def test_before_version_5_a_sync_need_not_name_the_protocol(prompt: Asker) -> None:
    group = new_group()
    member = only_member(prompt, group)

    assert sync(prompt, member, group, 4).assignment == b"all"
