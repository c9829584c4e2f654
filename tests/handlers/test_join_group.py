"""JoinGroup: members of the classic protocol, static members among them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import NO_TOPICS, heartbeat, join, joined, new_group, only_member, sync, waiting

JOIN_VERSIONS = range(10)


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_a_member_joins_in_every_version(prompt: Asker, version: int) -> None:
    member = joined(prompt, new_group(), version=version)

    assert (member.error_code, member.generation_id, member.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert member.leader == member.member_id
    assert [(each.member_id, each.metadata) for each in member.members] == [(member.member_id, NO_TOPICS)]
    assert version < 7 or member.protocol_type == "consumer"


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_from_version_4_on_a_member_first_gets_an_id_to_come_back_with(prompt: Asker, version: int) -> None:
    answer = join(prompt, new_group(), version=version)

    assert answer.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)
    assert answer.member_id.startswith("tests-")
    assert len(answer.member_id) == len("tests-") + 36


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("version", [0, 4, 9])
def test_what_makes_no_sense_may_not_join(prompt: Asker, fields: dict[str, Any], code: ErrorCode, version: int) -> None:
    answer = join(prompt, version=version, **{"group": new_group(), **fields})

    assert answer.error_code == code
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
    assert answer.protocol_name == (None if version >= 7 else "")
    assert answer.member_id == fields.get("member_id", "")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"other": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_does_not_fit_the_group_may_not_join(prompt: Asker, fields: dict[str, Any], code: ErrorCode) -> None:
    group = new_group()
    only_member(prompt, group)

    assert join(prompt, group, **fields).error_code == code


def test_only_the_leader_is_told_the_members_and_all_get_the_protocol_that_all_have(prompt: Asker) -> None:
    group = new_group()
    leader = only_member(prompt, group, protocols={"range": b"l1", "sticky": b"l2"})
    other_id = join(prompt, group, protocols={"sticky": b"f"}).member_id

    with waiting(join, prompt, group, other_id, protocols={"sticky": b"f"}) as follower:
        while heartbeat(prompt, group, leader) is not ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        leader = join(prompt, group, leader.member_id, protocols={"range": b"l1", "sticky": b"l2"})

    assert {each.member_id: each.metadata for each in leader.members} == {leader.member_id: b"l2", other_id: b"f"}
    assert follower.result().members == []
    assert {(j.generation_id, j.protocol_name, j.leader) for j in (leader, follower.result())} == {
        (2, "sticky", leader.member_id)
    }


def test_a_static_member_that_comes_back_gets_its_old_part_and_fences_its_old_self(prompt: Asker) -> None:
    group = new_group()
    before = only_member(prompt, group, group_instance_id="one")
    after = join(prompt, group, group_instance_id="one")

    assert (after.error_code, after.generation_id, after.skip_assignment) == (ErrorCode.NONE, 1, True)
    assert after.member_id not in ("", before.member_id)
    assert [each.group_instance_id for each in after.members] == ["one"]
    assert sync(prompt, after, group, group_instance_id="one").assignment == b"all"
    assert heartbeat(prompt, group, before, group_instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert heartbeat(prompt, group, before) is ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(prompt, group, after, group_instance_id="one") is ErrorCode.NONE


def test_before_version_9_a_static_leader_that_comes_back_is_told_that_another_one_leads(prompt: Asker) -> None:
    group = new_group()
    before = only_member(prompt, group, group_instance_id="one")
    after = join(prompt, group, version=8, group_instance_id="one")

    assert after.leader == before.member_id
    assert after.members == []


def test_a_broker_that_stops_sends_waiting_members_away() -> None:
    with ThreadPoolExecutor(1) as thread:
        with kompat.testing.broker(group_initial_rebalance_delay_ms=60_000) as broker:
            ask, group = Asker(broker), new_group()
            joining = thread.submit(join, ask, group, version=0)
            while ask("DescribeGroups", 5, groups=[group]).groups[0].group_state != "PreparingRebalance":
                pass

        assert joining.result(timeout=1).error_code == ErrorCode.NOT_COORDINATOR
