"""Share groups: members, epochs, assignments, time-outs, and the states of their partitions."""

from uuid import UUID

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings, ModernGroupSettings
from kompat.groups.records import Assignment
from kompat.share.groups.machine.commands import ShareGroups
from kompat.share.groups.machine.heartbeat import MOST_ASSIGNED_AT_ONCE
from kompat.share.groups.machine.messages import ShareOffsetsDeletion
from tests.groups.harness import code_of, compacted, replicated, settled, table, topic_id_of
from tests.share.groups.harness import Sharing, named

ORDERS = topic_id_of("orders")
SESSION_MS = ModernGroupSettings().session_timeout_ms


@pytest.fixture
def groups() -> Sharing:
    return Sharing(topics=table(orders=4, bills=2))


def orders(*numbers: int) -> Assignment:
    return {ORDERS: frozenset(numbers)}


def initialized(groups: Sharing) -> set[UUID]:
    found = groups.run(lambda machine: ShareGroups(machine).partitions("g"))
    return set(found)


# --- joining


def test_a_member_that_joins_has_all_partitions_that_the_group_has_a_state_for(groups: Sharing) -> None:
    reply = groups.enter_share("m1")

    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m1", 2, 5_000)
    assert named(reply.assignment) == {"orders": {0, 1, 2, 3}}
    assert reply.uninitialized == {}


def test_partitions_without_a_state_are_asked_for_and_assigned_when_they_have_one(groups: Sharing) -> None:
    reply = groups.share_join("m1")
    assert (named(reply.assignment), reply.uninitialized) == ({}, orders(0, 1, 2, 3))
    assert groups.share_beat("m1", 2).uninitialized == {}  # it is under way

    groups.made(reply.uninitialized)
    groups.advance(1_000)
    following = groups.share_beat("m1", 2)

    assert (following.member_epoch, named(following.assignment)) == (3, {"orders": {0, 1, 2, 3}})


def test_states_that_could_not_be_made_are_asked_for_again(groups: Sharing) -> None:
    reply = groups.share_join("m1")
    groups.made(reply.uninitialized, ok=False)

    assert groups.share_beat("m1", 2).uninitialized == orders(0, 1, 2, 3)


def test_states_that_nobody_reports_are_asked_for_again_after_a_while(groups: Sharing) -> None:
    groups.share_join("m1")
    groups.advance(GroupSettings().share_initialize_retry_interval_ms)

    assert groups.share_beat("m1", 2).uninitialized == orders(0, 1, 2, 3)


def test_a_new_leader_does_not_wait_for_states_that_the_last_one_was_making(groups: Sharing) -> None:
    groups.share_join("m1")
    groups.restart()

    assert groups.share_beat("m1", 2).uninitialized == orders(0, 1, 2, 3)


def test_members_share_the_partitions(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.enter_share("m2")

    mine, yours = groups.assigned("m1", "m2")
    assert mine["orders"] | yours["orders"] == {0, 1, 2, 3}
    assert len(mine["orders"]) == len(yours["orders"]) == 2


def test_partitions_are_shared_where_members_are_many(groups: Sharing) -> None:
    names = [f"m{i}" for i in range(5)]
    for name in names:
        groups.enter_share(name, ["bills"])

    assert sorted(number for each in groups.assigned(*names) for number in each["bills"]) == [0, 0, 0, 1, 1, 1]


def test_a_newcomer_is_assigned_partitions_at_once(groups: Sharing) -> None:
    groups.enter_share("m1")
    epoch = groups.share().target_epoch

    assert len(named(groups.share_join("m2").assignment)["orders"]) == 2
    assert (groups.share().epoch, groups.share().target_epoch) == (epoch + 1, epoch + 1)


def test_newcomers_to_a_large_group_share_an_assignment(groups: Sharing) -> None:
    groups.enter_share("first")
    for number in range(1, MOST_ASSIGNED_AT_ONCE):
        groups.share_join(f"m{number}")
    epoch = groups.share().target_epoch

    assert named(groups.share_join("late").assignment) == {}
    assert (groups.share().epoch, groups.share().target_epoch) == (epoch + 1, epoch)
    groups.advance(1_000)
    assert len(groups.assigned("late")[0]["orders"]) == 1


def test_the_assignment_is_told_when_it_changes_or_when_everything_is_said(groups: Sharing) -> None:
    groups.enter_share("m1")

    assert groups.share_beat("m1", 2).assignment is None
    assert groups.share_beat("m1", 2, subscribed_topic_names=("orders",)).assignment is not None
    assert groups.share_join("m1").assignment is not None
    assert groups.share().epoch == 2


def test_a_member_that_changes_its_topics_has_the_old_ones_no_more(groups: Sharing) -> None:
    groups.enter_share("m1", ["orders", "bills"])

    reply = groups.share_beat("m1", 2, subscribed_topic_names=("bills",))

    assert named(reply.assignment) == {"bills": {0, 1}}
    assert reply.member_epoch == 2  # the next assignment is not due yet
    groups.advance(1_000)
    assert groups.share_beat("m1", 2).member_epoch == 3


def test_a_topic_that_is_made_later_is_assigned_then(groups: Sharing) -> None:
    groups.enter_share("m1", ["orders", "letters"])
    groups.set_topics(table(2, orders=4, bills=2, letters=1), "letters")
    groups.advance(1_000)

    reply = groups.share_beat("m1", 2)
    assert (reply.member_epoch, reply.uninitialized) == (3, {topic_id_of("letters"): frozenset({0})})
    groups.made(reply.uninitialized)
    groups.advance(1_000)
    assert named(groups.share_beat("m1", 3).assignment) == {"orders": {0, 1, 2, 3}, "letters": {0}}


def test_partitions_that_a_topic_gets_are_assigned(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.set_topics(table(2, orders=5), "orders")
    groups.advance(1_000)

    reply = groups.share_beat("m1", 2)
    assert reply.uninitialized == orders(4)
    groups.made(reply.uninitialized)
    groups.advance(1_000)
    assert named(groups.share_beat("m1", 3).assignment) == {"orders": {0, 1, 2, 3, 4}}


def test_a_topic_that_is_deleted_is_nobodys(groups: Sharing) -> None:
    groups.enter_share("m1", ["orders", "bills"])
    groups.set_topics(table(2, orders=4), "bills")
    groups.run(lambda machine: machine.topics_deleted([("bills", topic_id_of("bills"))], groups.now))
    groups.advance(1_000)

    assert named(groups.share_beat("m1", 2).assignment) == {"orders": {0, 1, 2, 3}}
    assert initialized(groups) == {ORDERS}


# --- epochs


def test_an_epoch_that_is_ahead_is_fenced(groups: Sharing) -> None:
    groups.enter_share("m1")

    assert code_of(lambda: groups.share_beat("m1", 3)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_epoch_one_step_behind_has_not_heard_the_last_answer(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.enter_share("m2")
    assert groups.share_beat("m1", 2).member_epoch == 3

    assert groups.share_beat("m1", 2).member_epoch == 3
    assert code_of(lambda: groups.share_beat("m1", 1)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_is_not_a_member_has_to_join(groups: Sharing) -> None:
    assert code_of(lambda: groups.share_beat("m1", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
    groups.enter_share("m1")

    assert code_of(lambda: groups.share_beat("m2", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: groups.share_beat("m2", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "options", "message"),
    [
        ("", 0, {}, ""),
        (" ", 0, {}, "MemberId can't be empty."),
        ("m", 0, {"group_id": ""}, "GroupId can't be empty."),
        ("m", 0, {"rack_id": " ", "subscribed_topic_names": ("orders",)}, "RackId can't be empty."),
        ("m", 0, {}, "SubscribedTopicNames must be set in first request."),
        ("m", 0, {"subscribed_topic_names": ()}, "SubscribedTopicNames must be set in first request."),
        ("m", -2, {}, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    groups: Sharing, member_id: str, epoch: int, options: dict[str, str], message: str
) -> None:
    with pytest.raises(KafkaError) as refusal:
        groups.share_beat(member_id, epoch, **options)

    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_group_that_is_full_takes_no_more_members() -> None:
    groups = Sharing(GroupSettings(share_max_size=1))
    groups.enter_share("m1")

    assert code_of(lambda: groups.prepare("m2")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code_of(lambda: groups.share_join("m2")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.share_join("m1").member_epoch == 2


# --- leaving


def test_the_others_have_what_a_member_had_that_left(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.enter_share("m2")

    left = groups.share_beat("m1", -1)
    assert (left.member_epoch, left.heartbeat_interval_ms, left.assignment) == (-1, 0, None)
    groups.advance(1_000)
    assert groups.assigned("m2") == [{"orders": {0, 1, 2, 3}}]


def test_a_member_that_is_not_heard_of_is_gone(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.enter_share("m2")
    groups.advance(SESSION_MS - 1)
    groups.share_beat("m2", 3)
    groups.advance(1)

    assert set(groups.share().members) == {"m2"}


def test_members_that_fall_silent_together_go_together(groups: Sharing) -> None:
    for name in ("m1", "m2", "m3"):
        groups.enter_share(name)
    for name in ("m1", "m2", "m3"):
        groups.share_beat(name, groups.share().members[name].epoch)
    epoch = groups.share().epoch
    groups.advance(SESSION_MS)

    assert (groups.share().members, groups.share().epoch, groups.share().state) == ({}, epoch + 1, "Empty")


def test_a_group_has_time_outs_of_its_own() -> None:
    own = ModernGroupSettings(session_timeout_ms=50_000, heartbeat_interval_ms=7_000)
    groups = Sharing(GroupSettings(share_overrides={"g": own}))

    assert groups.enter_share("m1").heartbeat_interval_ms == 7_000
    groups.advance(49_999)
    assert groups.share().members
    groups.advance(1)
    assert not groups.share().members


def test_a_new_leader_gives_members_a_full_session(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.advance(SESSION_MS - 1)
    groups.restart()
    groups.run(lambda machine: machine.tick(groups.now))
    groups.advance(SESSION_MS - 1)

    assert groups.share().members
    groups.advance(1)
    assert not groups.share().members


# --- groups as a whole


def test_groups_are_described(groups: Sharing) -> None:
    groups.enter_share("m1", rack_id="r")

    described = groups.describe_share()

    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor == "simple"
    [member] = described.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m1", "r", 2)
    assert (member.client_id, member.subscribed_topic_names) == ("client", ("orders",))
    assert [(part.topic_name, part.partitions) for part in member.assignment] == [("orders", (0, 1, 2, 3))]


def test_groups_are_listed_as_what_they_are(groups: Sharing) -> None:
    groups.enter_share("m1")

    [listed] = groups.run(lambda machine: machine.list_groups(types=["share"]))
    assert (listed.group_id, listed.protocol_type, listed.group_type, listed.state) == ("g", "share", "share", "Stable")


def test_a_group_with_members_is_not_deleted(groups: Sharing) -> None:
    groups.enter_share("m1")

    assert groups.run(lambda machine: ShareGroups(machine).begin_deletion(["g"], groups.now)) == ()
    assert groups.run(lambda machine: machine.delete_groups(["g"], groups.now)) == (("g", ErrorCode.NON_EMPTY_GROUP),)


def test_an_empty_group_is_deleted_after_its_states(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.share_beat("m1", -1)

    assert groups.run(lambda machine: ShareGroups(machine).begin_deletion(["g", "h"], groups.now)) == (
        ("g", orders(0, 1, 2, 3)),
    )
    # Should that have failed, it is tried again.
    assert groups.run(lambda machine: ShareGroups(machine).begin_deletion(["g"], groups.now)) == (
        ("g", orders(0, 1, 2, 3)),
    )
    assert groups.run(lambda machine: machine.delete_groups(["g"], groups.now)) == (("g", ErrorCode.NONE),)
    assert compacted(groups.log) == []
    assert replicated(groups.machine)["groups"] == {}
    assert replicated(groups.machine)["followers"] == {}


def test_an_empty_group_does_not_expire(groups: Sharing) -> None:
    groups.enter_share("m1")
    groups.share_beat("m1", -1)
    groups.advance(2 * GroupSettings().offsets_retention_ms)

    assert groups.group_ids() == {"g"}


# --- kinds of groups


def test_no_other_kind_of_member_gets_into_a_share_group(groups: Sharing) -> None:
    groups.enter_share("m1")

    assert groups.joined(groups.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.synced(groups.sync("m1", 2)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.heartbeat("m1", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.leave("m1")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: groups.enter("m2")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(lambda: groups.beat("m1", 2)) is ErrorCode.GROUP_ID_NOT_FOUND
    groups.share_beat("m1", -1)
    assert groups.joined(groups.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(lambda: groups.enter("m2")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_has_no_committed_offsets(groups: Sharing) -> None:
    groups.enter_share("m1")

    assert groups.commit(1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.fetch().offset == -1
    assert code_of(lambda: groups.run(lambda m: m.delete_offsets("g", [], groups.now))) is ErrorCode.GROUP_ID_NOT_FOUND


def test_no_share_member_gets_into_another_kind_of_group(groups: Sharing) -> None:
    groups.commit(1, group_id="simple")
    groups.enter("c1", group_id="consumer")

    for group_id in ("simple", "consumer"):
        for epoch in (0, 2, -1):
            options = {"subscribed_topic_names": ("orders",)}
            with pytest.raises(KafkaError, match=f"Group {group_id} is not a share group"):
                groups.share_beat("m1", epoch, group_id=group_id, **options)
        assert groups.describe_share(group_id).error is ErrorCode.GROUP_ID_NOT_FOUND


# --- offsets


def test_offsets_are_set_for_groups_without_members_only(groups: Sharing) -> None:
    groups.run(lambda machine: ShareGroups(machine).begin_offsets("g", orders(1), groups.now))
    groups.made(orders(1))
    assert (groups.describe_share().state, groups.describe_share().group_epoch) == ("Empty", 1)
    groups.share_join("m1")

    assert groups.assigned("m1") == [{"orders": {1}}]
    with pytest.raises(KafkaError, match="The group is not empty"):
        groups.run(lambda machine: ShareGroups(machine).begin_offsets("g", orders(1), groups.now))
    with pytest.raises(KafkaError, match="The group is not empty"):
        groups.run(lambda machine: ShareGroups(machine).begin_offsets_deletion("g", ["orders"], groups.now))


def test_offsets_of_a_topic_are_forgotten(groups: Sharing) -> None:
    groups.enter_share("m1", ["orders", "bills"])
    groups.share_beat("m1", -1)

    def begin() -> ShareOffsetsDeletion:
        names = ["orders", "letters"]
        return groups.run(lambda machine: ShareGroups(machine).begin_offsets_deletion("g", names, groups.now))

    begun = begin()
    assert begun.partitions == orders(0, 1, 2, 3)
    assert begun.unknown == {"letters": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert begin() == begun  # should it have failed, it is tried again
    groups.run(lambda machine: ShareGroups(machine).end_offsets_deletion("g", [ORDERS], groups.now))

    again = groups.run(lambda m: ShareGroups(m).begin_offsets_deletion("g", ["orders"], groups.now))
    assert again.unknown == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert initialized(groups) == {topic_id_of("bills")}
    assert named(groups.enter_share("m1").assignment) == {"orders": {0, 1, 2, 3}}


# --- the log


def test_a_machine_built_from_its_log_is_the_same_and_so_is_one_from_the_cleaned_log(groups: Sharing) -> None:
    for step in range(6):
        groups.enter_share(f"m{step}", ["orders", "bills"] if step % 2 else ["orders"])
    groups.share_beat("m2", -1)
    groups.advance(1_000)
    groups.assigned("m1", "m3", "m4")

    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)
    assert settled(groups.replayed(compacted(groups.log))) == settled(groups.machine)
