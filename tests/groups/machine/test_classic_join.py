"""JoinGroup and SyncGroup of classic groups."""

import pytest

from kompat.errors import ErrorCode
from kompat.groups.config import GroupSettings
from kompat.groups.machine.messages import LeavingMember
from kompat.groups.records import GroupMetadata
from tests.groups.harness import Groups, replicated, subscription

DELAY = GroupSettings().initial_rebalance_delay_ms


def test_a_new_dynamic_member_has_to_come_back_with_the_id_it_is_given() -> None:
    groups = Groups()

    refused = groups.joined(groups.join())

    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id == "client-id1"
    assert groups.classic().is_empty


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_is_added_at_once(version: int) -> None:
    groups = Groups()

    groups.join(version=version)

    assert list(groups.classic().members) == ["client-id1"]


def test_a_new_group_is_written_down_empty_before_anybody_is_answered() -> None:
    groups = Groups()

    groups.join()

    (record,) = groups.log
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.value.generation, record.value.members, record.value.protocol_type) == (0, (), "")


def test_the_first_rebalance_waits_for_the_initial_delay() -> None:
    groups = Groups()
    _, token = groups.join_with_id()

    groups.advance(DELAY - 1)
    assert token not in groups.replies
    groups.advance(1)

    assert groups.joined(token).generation_id == 1


def test_without_a_delay_the_first_rebalance_is_due_at_once() -> None:
    groups = Groups(GroupSettings(initial_rebalance_delay_ms=0))
    _, token = groups.join_with_id()

    groups.advance(0)

    assert groups.joined(token).error is ErrorCode.NONE


def test_members_that_come_during_the_delay_prolong_it_up_to_the_rebalance_time_out() -> None:
    groups = Groups()
    _, first = groups.join_with_id(rebalance_ms=7_000)
    for _ in range(3):
        groups.advance(2_000)
        groups.join_with_id(rebalance_ms=7_000)
        assert first not in groups.replies

    groups.advance(1_000)

    assert groups.joined(first).generation_id == 1
    assert len(groups.joined(first).members) == 4


def test_the_leader_gets_all_members_and_their_metadata_and_the_others_none() -> None:
    groups = Groups()
    first, leading = groups.join_with_id(topics=["orders"])
    second, following = groups.join_with_id(topics=["payments"])
    groups.advance(2 * DELAY)

    reply, other = groups.joined(leading), groups.joined(following)

    assert reply.leader == other.leader == first
    assert {each.member_id: each.metadata for each in reply.members} == {
        first: subscription(["orders"]),
        second: subscription(["payments"]),
    }
    assert other.members == ()
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")


def test_the_protocol_that_all_support_and_most_prefer_is_chosen() -> None:
    groups = Groups()
    a, b, c = (("a", b"1"), ("b", b"2"), ("c", b"3"))
    _, token = groups.join_with_id(protocols=[a, b, c])
    groups.join_with_id(protocols=[c, b])
    groups.join_with_id(protocols=[c, b])
    groups.advance(2 * DELAY)

    assert groups.joined(token).protocol_name == "c"
    assert [each.metadata for each in groups.joined(token).members] == [b"3"] * 3


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", [("b", b"")]), ("connect", [("a", b"")]), ("consumer", []), ("", [("a", b"")])],
)
def test_a_member_without_a_protocol_in_common_is_refused(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    groups = Groups()
    groups.stable(1, protocols=[("a", b"")])

    refused = groups.joined(groups.join(protocol_type=protocol_type, protocols=protocols))

    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_without_a_protocol_type_is_not_created() -> None:
    groups = Groups()

    assert groups.joined(groups.join(protocol_type="")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not groups.group_ids()


@pytest.mark.parametrize("protocol_type", ["connect", "sr", "stream"])
def test_any_protocol_type_goes_and_its_bytes_are_opaque(protocol_type: str) -> None:
    groups = Groups()
    (member,) = groups.stable(1, protocol_type=protocol_type, protocols=[("v1", b"\xff\xff\xff")])

    (described,) = groups.run(lambda machine: machine.describe_groups(["g"], 6))

    assert (described.protocol_type, described.members[0].metadata) == (protocol_type, b"\xff\xff\xff")
    assert described.members[0].assignment == member.encode()


@pytest.mark.parametrize(("session_ms", "error"), [(5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26)])
def test_the_session_time_out_has_its_limits(session_ms: int, error: int) -> None:
    groups = Groups()

    assert groups.joined(groups.join(session_ms=session_ms)).error == ErrorCode(error)


def test_a_group_needs_a_name() -> None:
    groups = Groups()

    assert groups.joined(groups.join("")).error is ErrorCode.INVALID_GROUP_ID
    assert groups.synced(groups.sync("m", 1, group_id="")).error is ErrorCode.INVALID_GROUP_ID
    assert groups.heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_an_unknown_member_id_is_refused_whether_the_group_exists_or_not() -> None:
    groups = Groups()

    assert groups.joined(groups.join(member_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    groups.stable(1)
    assert groups.joined(groups.join(member_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID


# --- rebalances


def test_a_newcomer_makes_the_others_rejoin() -> None:
    groups = Groups()
    old, new_token = groups.stable(1)[0], None
    _, new_token = groups.join_with_id()

    assert groups.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert new_token not in groups.replies
    old_token = groups.join(member_id=old)

    assert groups.joined(old_token).generation_id == groups.joined(new_token).generation_id == 2
    assert len(groups.joined(old_token).members) == 2


def test_members_that_do_not_rejoin_in_time_are_gone() -> None:
    groups = Groups()
    slow = groups.stable(1, rebalance_ms=20_000, session_ms=60_000)[0]
    member, token = groups.join_with_id(rebalance_ms=20_000)

    groups.advance(19_999)
    assert token not in groups.replies
    groups.advance(1)

    assert groups.joined(token).leader == member
    assert [each.member_id for each in groups.joined(token).members] == [member]
    assert groups.heartbeat(slow, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_that_was_given_its_id() -> None:
    groups = Groups()
    old = groups.stable(1)[0]
    pending = groups.joined(groups.join()).member_id
    groups.join_with_id()
    token = groups.join(member_id=old)

    assert token not in groups.replies
    groups.join(member_id=pending)

    assert len(groups.joined(token).members) == 3


def test_a_pending_member_that_never_comes_back_holds_nobody_up_for_ever() -> None:
    groups = Groups()
    old = groups.stable(1, session_ms=30_000)[0]
    groups.join(session_ms=6_000)
    _, token = groups.join_with_id()
    rejoin = groups.join(member_id=old, session_ms=30_000)

    groups.advance(6_000)

    assert groups.joined(token).generation_id == groups.joined(rejoin).generation_id == 2


def test_a_follower_that_rejoins_unchanged_is_answered_without_a_rebalance() -> None:
    groups = Groups()
    _, follower = groups.stable(2)

    reply = groups.joined(groups.join(member_id=follower))

    assert (reply.error, reply.generation_id, reply.members) == (ErrorCode.NONE, 1, ())
    assert groups.classic().state == "Stable"


def test_the_leader_may_ask_for_a_rebalance_by_rejoining() -> None:
    groups = Groups()
    leader, _ = groups.stable(2)

    groups.join(member_id=leader)

    assert groups.classic().state == "PreparingRebalance"


def test_a_member_with_new_metadata_causes_a_rebalance() -> None:
    groups = Groups()
    _, follower = groups.stable(2)

    groups.join(member_id=follower, topics=["payments"])

    assert groups.classic().state == "PreparingRebalance"


def test_a_member_that_missed_its_answer_gets_it_again_while_the_others_sync() -> None:
    groups = Groups()
    leader, token = groups.join_with_id()
    groups.advance(DELAY)

    again = groups.joined(groups.join(member_id=leader))

    assert again == groups.joined(token)


def test_a_join_that_is_repeated_takes_the_place_of_the_first() -> None:
    groups = Groups()
    member, first = groups.join_with_id()
    second = groups.join(member_id=member)
    groups.advance(2 * DELAY)

    assert groups.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.joined(second).error is ErrorCode.NONE


def test_a_newcomer_does_not_wait_for_ever() -> None:
    groups = Groups(GroupSettings(max_session_timeout_ms=10_000_000))
    old = groups.stable(1, session_ms=10_000_000, rebalance_ms=10_000_000)[0]
    _, token = groups.join_with_id(rebalance_ms=10_000_000)

    groups.advance(300_000)

    assert groups.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(groups.classic().members) == [old]


def test_no_more_members_than_the_group_may_have() -> None:
    groups = Groups(GroupSettings(max_size=2))
    groups.stable(2)

    assert groups.joined(groups.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_rebalance_accepts_only_as_many_as_there_is_room_for() -> None:
    groups = Groups(GroupSettings(max_size=2))
    pairs = [groups.join() for _ in range(3)]
    ids = [groups.joined(token).member_id for token in pairs]

    tokens = [groups.join(member_id=each) for each in ids]
    groups.advance(3 * DELAY)

    errors = [groups.joined(token).error for token in tokens]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


# --- sync


def test_the_assignment_reaches_everybody_when_the_leader_has_sent_it() -> None:
    groups = Groups()
    leader, token = groups.join_with_id()
    follower, _ = groups.join_with_id()
    groups.advance(2 * DELAY)
    generation = groups.joined(token).generation_id
    waiting = groups.sync(follower, generation)
    assert waiting not in groups.replies

    done = groups.sync(leader, generation, {leader: b"1", follower: b"2"})

    assert groups.synced(done).assignment == b"1"
    assert groups.synced(waiting).assignment == b"2"
    assert groups.synced(waiting).protocol_name == "range"
    assert groups.classic().state == "Stable"


def test_the_assignment_is_written_down_with_the_whole_group() -> None:
    groups = Groups()
    members = groups.stable(2)

    record = groups.log[-1]

    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert (record.value.generation, record.value.leader, record.value.protocol) == (1, members[0], "range")
    assert {each.member_id: each.assignment for each in record.value.members} == {
        each: each.encode() for each in members
    }


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    groups = Groups()
    leader, _ = groups.join_with_id()
    follower, _ = groups.join_with_id()
    groups.advance(2 * DELAY)
    waiting = groups.sync(follower, 1)

    groups.sync(leader, 1, {leader: b"1"})

    assert groups.synced(waiting).assignment == b""


def test_a_sync_to_a_stable_group_is_answered_at_once() -> None:
    groups = Groups()
    _, follower = groups.stable(2)

    assert groups.synced(groups.sync(follower, 1)).assignment == follower.encode()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_is_checked_against_the_generation(change: dict[str, str], error: ErrorCode) -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    reply = groups.synced(groups.sync(**{"member_id": member, "generation": 1, **change}))  # type: ignore[arg-type]

    assert reply.error is error


def test_a_sync_during_the_next_rebalance_is_told_to_rejoin() -> None:
    groups = Groups()
    member = groups.stable(1)[0]
    groups.join_with_id()

    assert groups.synced(groups.sync(member, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_those_who_wait_for_the_assignment_hear_of_a_new_rebalance() -> None:
    groups = Groups()
    groups.join_with_id()
    follower, _ = groups.join_with_id()
    groups.advance(2 * DELAY)
    waiting = groups.sync(follower, 1)

    groups.join_with_id()

    assert groups.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_sends_the_assignment_is_removed_and_the_rest_goes_on() -> None:
    groups = Groups()
    leader, _ = groups.join_with_id(rebalance_ms=8_000, session_ms=60_000)
    follower, _ = groups.join_with_id(rebalance_ms=8_000, session_ms=60_000)
    groups.advance(2 * DELAY)
    waiting = groups.sync(follower, 1)

    groups.advance(8_000)

    assert groups.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(groups.classic().members) == [follower]
    token = groups.join(member_id=follower)
    assert groups.joined(token).leader == follower
    assert leader not in groups.classic().members


def test_a_follower_that_never_syncs_is_removed_from_the_stable_group() -> None:
    groups = Groups()
    leader, _ = groups.join_with_id(rebalance_ms=8_000, session_ms=60_000)
    groups.join_with_id(rebalance_ms=8_000, session_ms=60_000)
    groups.advance(2 * DELAY)
    groups.sync(leader, 1, {})

    groups.advance(8_000)

    assert list(groups.classic().members) == [leader]
    assert groups.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# --- static members (KIP-345)


def stable_static(groups: Groups, *instances: str) -> dict[str, str]:
    """A stable group of static members: instance → member id; the first one leads."""
    tokens = {instance: groups.join(instance_id=instance) for instance in instances}
    groups.advance(2 * DELAY)
    members = {instance: groups.joined(token).member_id for instance, token in tokens.items()}
    generation = groups.joined(tokens[instances[0]]).generation_id
    assignments = {member_id: instance.encode() for instance, member_id in members.items()}
    groups.sync(members[instances[0]], generation, assignments, instance_id=instances[0])
    for instance in instances[1:]:
        groups.sync(members[instance], generation, instance_id=instance)
    return members


def test_a_static_member_joins_without_asking_for_an_id_first() -> None:
    groups = Groups()

    assert stable_static(groups, "one") == {"one": "one-id1"}


def test_a_static_follower_that_comes_back_changes_nothing_but_its_id() -> None:
    groups = Groups()
    members = stable_static(groups, "one", "two")

    reply = groups.joined(groups.join(instance_id="two"))

    assert (reply.generation_id, reply.leader, reply.members) == (1, members["one"], ())
    assert reply.member_id != members["two"]
    assert groups.synced(groups.sync(reply.member_id, 1, instance_id="two")).assignment == b"two"
    assert groups.classic().state == "Stable"
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    groups = Groups()
    stable_static(groups, "one", "two")

    reply = groups.joined(groups.join(instance_id="one"))

    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert len(reply.members) == 2


def test_an_older_static_leader_that_comes_back_is_not_told_that_it_leads() -> None:
    groups = Groups()
    members = stable_static(groups, "one", "two")

    reply = groups.joined(groups.join(instance_id="one", version=8))

    assert (reply.leader, reply.skip_assignment, reply.members) == (members["one"], False, ())


def test_the_predecessor_of_a_static_member_is_fenced() -> None:
    groups = Groups()
    old = stable_static(groups, "one", "two")["two"]
    groups.join(instance_id="two")

    assert groups.heartbeat(old, 1, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert groups.synced(groups.sync(old, 1, instance_id="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert groups.joined(groups.join(member_id=old, instance_id="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert groups.leave(LeavingMember(member_id=old, group_instance_id="two"))[0].error is ErrorCode.FENCED_INSTANCE_ID
    commit = groups.commit(5, member_id=old, group_instance_id="two", generation_id=1)
    assert commit is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_twice_during_a_rebalance_fences_its_first_request() -> None:
    groups = Groups()
    stable_static(groups, "one", "two")
    groups.join_with_id()
    first = groups.join(instance_id="two")

    groups.join(instance_id="two")

    assert groups.joined(first).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_syncs_is_fenced_by_its_successor_and_the_group_starts_over() -> None:
    groups = Groups()
    tokens = [groups.join(instance_id=each) for each in ("one", "two")]
    groups.advance(2 * DELAY)
    waiting = groups.sync(groups.joined(tokens[1]).member_id, 1, instance_id="two")

    groups.join(instance_id="two")

    assert groups.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert groups.classic().state == "PreparingRebalance"


def test_a_static_member_with_another_protocol_causes_a_rebalance() -> None:
    groups = Groups()
    both = [("range", b"r"), ("sticky", b"s")]
    tokens = [groups.join(instance_id=each, protocols=both) for each in ("one", "two")]
    groups.advance(2 * DELAY)
    groups.sync(groups.joined(tokens[0]).member_id, 1, {}, instance_id="one")

    token = groups.join(instance_id="two", protocols=[("sticky", b"s")])

    assert token not in groups.replies
    assert groups.classic().state == "PreparingRebalance"


def test_a_static_member_that_does_not_rejoin_keeps_its_place_until_its_session_ends() -> None:
    groups = Groups()
    members = stable_static(groups, "one")
    _, token = groups.join_with_id(rebalance_ms=5_000)

    groups.advance(9_000)
    groups.heartbeat(members["one"], 1, instance_id="one")
    groups.advance(51_000)

    assert groups.joined(token).error is ErrorCode.NONE
    assert members["one"] not in groups.classic().members  # its session has ended by then


def test_the_rebalance_goes_on_without_a_static_member_that_is_away() -> None:
    groups = Groups()
    tokens = [groups.join(instance_id=each, session_ms=100_000, rebalance_ms=10_000) for each in ("one", "two")]
    groups.advance(2 * DELAY)
    one, two = (groups.joined(token).member_id for token in tokens)
    groups.sync(one, 1, {}, instance_id="one")
    groups.sync(two, 1, instance_id="two")
    _, newcomer = groups.join_with_id(rebalance_ms=10_000)
    rejoin = groups.join(member_id=two, instance_id="two", session_ms=100_000, rebalance_ms=10_000)

    groups.advance(10_000)

    assert groups.joined(rejoin).leader == two  # the leader was away
    assert {each.member_id for each in groups.joined(rejoin).members} >= {one, two}
    assert groups.joined(newcomer).error is ErrorCode.NONE


def test_a_rebalance_that_nobody_joins_is_tried_again() -> None:
    groups = Groups()
    tokens = [groups.join(instance_id=each, session_ms=1_000_000, rebalance_ms=10_000) for each in ("one", "two")]
    groups.advance(2 * DELAY)
    one = groups.joined(tokens[0]).member_id
    groups.sync(one, 1, {}, instance_id="one")
    groups.sync(groups.joined(tokens[1]).member_id, 1, instance_id="two")
    groups.leave(LeavingMember(member_id="", group_instance_id="two"))

    groups.advance(10_000)
    assert groups.classic().state == "PreparingRebalance"
    token = groups.join(member_id=one, instance_id="one", session_ms=1_000_000, rebalance_ms=10_000)

    assert groups.joined(token).generation_id == 2
