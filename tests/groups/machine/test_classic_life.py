"""Heartbeats, leaving, time-outs, restarts and deletion of classic groups."""

import pytest

from kompat.errors import ErrorCode
from kompat.groups.config import GroupSettings
from kompat.groups.machine.messages import LeavingMember
from kompat.groups.records import GroupMetadata, GroupMetadataValue
from tests.groups.harness import Groups, code_of, replicated, subscription

DELAY = GroupSettings().initial_rebalance_delay_ms


def test_heartbeat_from_an_older_generation_is_fenced() -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    assert groups.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert groups.heartbeat(member, 1) is ErrorCode.NONE


def test_heartbeat_of_a_stranger_is_refused() -> None:
    groups = Groups()
    groups.stable(1)

    assert groups.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat("nobody", 1, group_id="nowhere") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_alive_and_silence_ends_its_session() -> None:
    groups = Groups()
    loud, silent = groups.stable(2)
    for _ in range(3):
        groups.advance(9_000)
        groups.heartbeat(loud, 1)

    assert list(groups.classic().members) == [loud]
    assert groups.heartbeat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat(loud, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_for_its_join_does_not_have_to_heartbeat() -> None:
    groups = Groups()
    leader, other = groups.stable(2, session_ms=10_000, rebalance_ms=60_000)
    waiting = groups.join(member_id=leader)
    for _ in range(5):
        groups.advance(8_000)
        assert groups.heartbeat(other, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    groups.join(member_id=other)

    assert len(groups.joined(waiting).members) == 2


def test_the_last_member_that_expires_leaves_an_empty_group_behind() -> None:
    groups = Groups()
    groups.stable(1)

    groups.advance(11_000)

    assert groups.classic().is_empty
    record = groups.log[-1]
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.value.generation, record.value.members, record.value.protocol_type) == (2, (), "consumer")


def test_leaving_frees_the_place_at_once() -> None:
    groups = Groups()
    first, second = groups.stable(2)

    (left,) = groups.leave(second)

    assert left.error is ErrorCode.NONE
    assert groups.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.joined(groups.join(member_id=first)).generation_id == 2


def test_the_last_one_to_leave_empties_the_group() -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    groups.leave(member)

    assert groups.classic().is_empty
    assert groups.classic().generation_id == 2


def test_a_batch_of_members_leaves_and_each_gets_its_own_answer() -> None:
    groups = Groups()
    members = groups.stable(3)

    left = groups.leave(members[0], "nobody", members[1], LeavingMember(member_id="", group_instance_id="nobody"))

    assert [each.error for each in left] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(groups.classic().members) == [members[2]]


def test_leaving_a_group_that_does_not_exist_is_leaving_as_a_stranger() -> None:
    assert Groups().leave("m")[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_leaves_a_group_without_a_name() -> None:
    assert code_of(lambda: Groups().leave("m", group_id="")) is ErrorCode.INVALID_GROUP_ID


def test_a_static_member_is_removed_by_its_instance_id() -> None:
    groups = Groups()
    groups.join(instance_id="one")
    groups.advance(DELAY)

    (left,) = groups.leave(LeavingMember(member_id="", group_instance_id="one"))

    assert left.error is ErrorCode.NONE
    assert groups.classic().is_empty


def test_whoever_waits_and_leaves_is_answered() -> None:
    groups = Groups()
    groups.stable(1)
    member, token = groups.join_with_id()

    groups.leave(member)

    assert groups.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_was_only_given_an_id_may_leave() -> None:
    groups = Groups()
    old = groups.stable(1)[0]
    pending = groups.joined(groups.join()).member_id
    _, token = groups.join_with_id()
    groups.join(member_id=old)
    assert token not in groups.replies

    (left,) = groups.leave(pending)

    assert left.error is ErrorCode.NONE
    assert groups.joined(token).error is ErrorCode.NONE


# --- restarts


def test_after_a_restart_the_generation_goes_on() -> None:
    groups = Groups()
    members = groups.stable(2)

    groups.restart()

    assert groups.classic().state == "Stable"
    assert [groups.heartbeat(each, 1) for each in members] == [ErrorCode.NONE] * 2
    assert groups.synced(groups.sync(members[1], 1)).assignment == members[1].encode()


def test_after_a_restart_members_get_a_full_session_to_make_themselves_heard() -> None:
    groups = Groups()
    alive, dead = groups.stable(2)
    groups.advance(9_999)
    groups.heartbeat(alive, 1)
    groups.restart()

    groups.advance(9_999)
    assert dead in groups.classic().members
    groups.heartbeat(alive, 1)
    groups.advance(2)

    assert list(groups.classic().members) == [alive]


def test_a_rebalance_under_way_is_forgotten_by_a_restart() -> None:
    groups = Groups()
    old = groups.stable(1)[0]
    newcomer, _ = groups.join_with_id()

    groups.restart()

    assert groups.heartbeat(old, 1) is ErrorCode.NONE
    assert groups.joined(groups.join(member_id=newcomer)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_too_large_for_the_settings_of_today_is_rebalanced_after_a_restart() -> None:
    groups = Groups()
    members = groups.stable(3)
    groups.settings = GroupSettings(max_size=2)

    groups.restart()

    assert groups.heartbeat(members[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_waits_when_leadership_is_lost_is_sent_to_the_new_leader() -> None:
    groups = Groups()
    members = groups.stable(2)
    waiting = groups.join(member_id=members[0])

    completions = groups.machine.resign(groups.now)

    assert [(each.token, each.reply.error) for each in completions] == [(waiting, ErrorCode.NOT_COORDINATOR)]
    assert groups.classic().state == "Stable"
    assert replicated(groups.machine) == replicated(groups.replayed(groups.log))


def test_a_follower_follows_and_takes_over() -> None:
    groups = Groups()
    follower = groups.replayed([])
    members = groups.stable(2)
    for record in groups.log:
        follower.apply(record)

    groups.machine = follower

    assert [groups.heartbeat(each, 1) for each in members] == [ErrorCode.NONE] * 2


def test_of_two_kinds_of_records_in_a_foreign_log_the_classic_one_wins() -> None:
    """No broker writes that; whatever does, the machine holds one group by that name."""
    groups = Groups()
    groups.enter("a")
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol=None, leader=None, current_state_timestamp=0, members=()
    )
    groups.machine.apply(GroupMetadata(group_id="g", value=value))

    assert groups.classic().state == "Empty"
    assert not groups.machine._state.followers._groups
    groups.machine.apply(groups.log[0])
    assert groups.classic().state == "Empty"


# --- describing, listing, deleting


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    (described,) = groups.run(lambda machine: machine.describe_groups(["g"], 6))

    assert (described.state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (only,) = described.members
    assert (only.member_id, only.metadata, only.assignment) == (member, subscription(["orders"]), member.encode())
    assert (only.client_id, only.client_host) == ("client", "/127.0.0.1")


def test_during_a_rebalance_the_members_metadata_is_not_shown() -> None:
    groups = Groups()
    groups.stable(1)
    groups.join_with_id()

    (described,) = groups.run(lambda machine: machine.describe_groups(["g"], 6))

    assert (described.state, described.protocol_data) == ("PreparingRebalance", "")
    assert {each.metadata for each in described.members} == {b""}


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_does_not_exist_is_dead(version: int, error: ErrorCode) -> None:
    (described,) = Groups().run(lambda machine: machine.describe_groups(["nowhere"], version))

    assert (described.state, described.error) == ("Dead", error)


def test_groups_are_listed_by_state_and_type() -> None:
    groups = Groups()
    groups.stable(1, "stable")
    groups.join("empty")
    groups.enter("m", group_id="modern")
    groups.commit(1, group_id="simple")

    def listed(states: list[str], types: list[str]) -> set[str]:
        found = groups.run(lambda machine: machine.list_groups(states, types))
        return {each.group_id for each in found}

    assert listed([], []) == {"stable", "empty", "modern", "simple"}
    assert listed(["Empty"], []) == {"empty", "simple"}
    assert listed(["stable"], []) == {"stable", "modern"}
    assert listed([], ["Consumer"]) == {"modern"}
    assert listed(["stable"], ["classic"]) == {"stable"}
    assert listed([], ["nonsense"]) == set()


def test_a_listed_group_has_its_protocol_type() -> None:
    groups = Groups()
    groups.stable(1)
    groups.commit(1, group_id="simple")

    types = {each.group_id: each.protocol_type for each in groups.run(lambda machine: machine.list_groups())}

    assert types == {"g": "consumer", "simple": ""}


def test_only_an_empty_group_may_be_deleted() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.commit(5, member_id=member, generation_id=1)

    def delete() -> tuple[tuple[str, ErrorCode], ...]:
        return groups.run(lambda machine: machine.delete_groups(["g", "nowhere"], groups.now))

    assert delete() == (("g", ErrorCode.NON_EMPTY_GROUP), ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND))
    groups.leave(member)
    assert delete() == (("g", ErrorCode.NONE), ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND))

    assert not groups.group_ids()
    assert groups.fetch().offset == -1
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)
