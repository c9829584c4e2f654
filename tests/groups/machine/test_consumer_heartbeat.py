"""ConsumerGroupHeartbeat: joining, reconciling, fencing, leaving (KIP-848)."""

from dataclasses import replace
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings, ModernGroupSettings
from kompat.groups.records import ConsumerGroupMetadata, ConsumerGroupPartitionMetadata, MemberState
from tests.groups.harness import Groups, code_of, replicated, table, topic_id_of

ORDERS = topic_id_of("orders")
AT_ONCE = GroupSettings(consumer=ModernGroupSettings(assignment_interval_ms=0))


def partitions(assignment: Any) -> dict[str, set[int]] | None:
    """An assignment by names of topics."""
    if assignment is None:
        return None
    names = {topic_id_of(name): name for name in ("orders", "payments", "orders-eu", "other")}
    return {names[topic_id]: set(part) for topic_id, part in assignment.items()}


def two_members(groups: Groups) -> None:
    """`a` and `b` share the four partitions of orders, at epoch 3."""
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})
    groups.beat("b", 3)
    assert groups.consumer().state == "Stable"


# --- joining


def test_the_first_member_gets_everything_with_its_first_heartbeat() -> None:
    groups = Groups()

    reply = groups.enter("a")

    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert partitions(reply.assignment) == {"orders": {0, 1, 2, 3}}
    assert groups.consumer().state == "Stable"


def test_a_member_without_an_id_gets_one_from_a_version_0_heartbeat() -> None:
    groups = Groups()

    reply = groups.enter("", fresh_id="fresh", api_version=0)

    assert reply.member_id == "fresh"


def test_a_member_of_a_group_that_nothing_is_known_of_is_refused() -> None:
    groups = Groups()

    assert code_of(lambda: groups.beat("a", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
    groups.enter("a")
    assert code_of(lambda: groups.beat("b", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "change",
    [
        {"member_id": ""},
        {"group_id": ""},
        {"instance_id": " "},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": {ORDERS: (1,)}},
        {"subscribed_topic_names": None},
        {"epoch": -3},
        {"epoch": -2},
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(change: dict[str, Any]) -> None:
    groups = Groups()
    sane = {"rebalance_timeout_ms": 1000, "topic_partitions": {}, "subscribed_topic_names": ("orders",)}
    request = {"member_id": "a", "epoch": 0, **sane, **change}

    assert code_of(lambda: groups.beat(**request)) is ErrorCode.INVALID_REQUEST
    assert not groups.log


def test_an_assignor_that_the_broker_does_not_have_is_refused() -> None:
    groups = Groups()

    assert code_of(lambda: groups.enter("a", server_assignor="mine")) is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_no_more_members_than_the_group_may_have() -> None:
    groups = Groups(GroupSettings(consumer_max_size=1))
    groups.enter("a")

    assert code_of(lambda: groups.enter("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.enter("a").member_epoch == 2


def test_a_heartbeat_without_news_is_answered_without_an_assignment_and_written_nowhere() -> None:
    groups = Groups()
    groups.enter("a")
    written = len(groups.log)

    reply = groups.beat("a", 2)

    assert reply.assignment is None
    assert len(groups.log) == written


def test_a_member_that_says_everything_is_told_everything() -> None:
    groups = Groups()
    groups.enter("a")

    reply = groups.beat(
        "a", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions={ORDERS: (0, 1, 2, 3)}
    )

    assert partitions(reply.assignment) == {"orders": {0, 1, 2, 3}}


# --- reconciliation


def test_a_partition_changes_hands_only_after_its_owner_has_let_go() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")

    newcomer = groups.enter("b")
    assert (newcomer.member_epoch, partitions(newcomer.assignment)) == (3, {})
    assert groups.consumer().members["b"].state is MemberState.UNRELEASED_PARTITIONS

    asked = groups.beat("a", 2)
    assert (asked.member_epoch, partitions(asked.assignment)) == (2, {"orders": {0, 1}})
    assert groups.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert groups.beat("b", 3).assignment is None

    assert groups.beat("a", 2, topic_partitions={ORDERS: (0, 1, 2, 3)}).member_epoch == 2  # still revoking
    released = groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})
    assert (released.member_epoch, released.assignment) == (3, None)

    got = groups.beat("b", 3)
    assert partitions(got.assignment) == {"orders": {2, 3}}
    assert groups.consumer().state == "Stable"


def test_partitions_that_stay_keep_the_epoch_they_were_assigned_at() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)

    assert groups.consumer().members["a"].assigned == {ORDERS: {0: 2, 1: 2}}
    assert groups.consumer().members["b"].assigned == {ORDERS: {2: 3, 3: 3}}


def test_a_member_that_keeps_its_partitions_never_stops() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)

    groups.enter("c")

    assert groups.consumer().target["c"] != {}
    kept = {member: set(groups.consumer().target[member].get(ORDERS, ())) for member in "ab"}
    assert kept["a"] <= {0, 1}
    assert kept["b"] <= {2, 3}


def test_members_that_come_in_quick_succession_share_an_assignment() -> None:
    groups = Groups()
    groups.enter("a")

    early = groups.enter("b")
    groups.advance(999)
    assert (early.member_epoch, partitions(early.assignment)) == (2, {})
    assert groups.consumer().state == "Assigning"
    groups.beat("a", 2)
    assert groups.consumer().target_epoch == 2
    groups.advance(1)
    groups.beat("a", 2)

    assert groups.consumer().target_epoch == 3


def test_a_group_may_have_an_assignment_interval_of_its_own() -> None:
    groups = Groups(GroupSettings(consumer_overrides={"g": ModernGroupSettings(assignment_interval_ms=0)}))
    groups.enter("a")

    groups.enter("b")

    assert groups.consumer().target_epoch == 3


def test_a_lost_answer_does_no_harm() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)
    groups.enter("c")
    groups.beat("b", 3)
    advanced = groups.beat("b", 3, topic_partitions={ORDERS: (2,)})
    assert advanced.member_epoch == 4

    again = groups.beat("b", 3, topic_partitions={ORDERS: (2,)})

    assert again.member_epoch == 4


def test_an_older_epoch_with_more_than_it_may_own_is_fenced() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)
    groups.enter("c")
    groups.beat("b", 3)
    groups.beat("b", 3, topic_partitions={ORDERS: (2,)})

    assert code_of(lambda: groups.beat("b", 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    stale = {ORDERS: (2, 3)}
    assert code_of(lambda: groups.beat("b", 3, topic_partitions=stale)) is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [1, 4])
def test_an_epoch_that_is_not_the_members_is_fenced(epoch: int) -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)

    with pytest.raises(KafkaError, match="must abandon all its partitions") as raised:
        groups.beat("a", epoch)

    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_may_join_anew_with_its_old_id() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)

    reply = groups.enter("a")

    assert partitions(reply.assignment) == {"orders": {0, 1}}
    assert groups.consumer().state == "Stable"


def test_a_state_of_a_newer_broker_means_starting_over() -> None:
    groups = Groups()
    groups.enter("a")
    group = groups.consumer()
    known = group.members["a"].current_record("g")
    assert known.value is not None
    unknown = type(known.value)(
        member_epoch=2,
        previous_member_epoch=1,
        state=MemberState.UNKNOWN,
        assigned_partitions=known.value.assigned_partitions,
        partitions_pending_revocation={},
    )
    groups.machine.apply(type(known)(group_id="g", member_id="a", value=unknown))

    assert code_of(lambda: groups.beat("a", 2)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert partitions(groups.enter("a").assignment) == {"orders": {0, 1, 2, 3}}


# --- subscriptions and topics


def test_a_change_of_subscription_moves_the_group_on() -> None:
    groups = Groups(AT_ONCE, table(orders=2, payments=2))
    groups.enter("a")

    reply = groups.beat("a", 2, subscribed_topic_names=("orders", "payments"))

    assert reply.member_epoch == 3
    assert partitions(reply.assignment) == {"orders": {0, 1}, "payments": {0, 1}}


def test_topics_that_are_no_longer_wanted_are_revoked_even_before_the_next_assignment() -> None:
    groups = Groups(topics=table(orders=2, payments=2))
    groups.enter("a", ("orders", "payments"))

    reply = groups.beat("a", 2, subscribed_topic_names=("orders",))

    assert partitions(reply.assignment) == {"orders": {0, 1}}
    assert groups.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS


def test_what_is_no_longer_wanted_is_free_at_once_if_the_member_says_that_it_has_let_go() -> None:
    groups = Groups(topics=table(orders=2, payments=2))
    groups.enter("a", ("orders", "payments"))

    groups.beat("a", 2, subscribed_topic_names=("orders",), topic_partitions={ORDERS: (0, 1)})

    member = groups.consumer().members["a"]
    assert (member.state, partitions(member.assigned)) == (MemberState.STABLE, {"orders": {0, 1}})


def test_a_topic_that_grows_is_assigned_with_the_next_heartbeat() -> None:
    groups = Groups(AT_ONCE, table(orders=2))
    groups.enter("a")

    groups.set_topics(table(2, orders=3), "orders")
    reply = groups.beat("a", 2)

    assert reply.member_epoch == 3
    assert partitions(reply.assignment) == {"orders": {0, 1, 2}}


def test_a_topic_that_comes_into_being_is_assigned_to_those_who_wait_for_it() -> None:
    groups = Groups(AT_ONCE, table(orders=1))
    assert partitions(groups.enter("a", ("other",)).assignment) == {}

    groups.set_topics(table(2, orders=1, other=1), "other")

    assert partitions(groups.beat("a", 2).assignment) == {"other": {0}}


def test_a_topic_that_is_deleted_is_taken_away() -> None:
    groups = Groups(AT_ONCE, table(orders=1, other=1))
    groups.enter("a", ("orders", "other"))

    groups.set_topics(table(2, orders=1), "other")
    reply = groups.beat("a", 2)

    assert partitions(reply.assignment) == {"orders": {0}}


def test_a_topic_that_nobody_wants_moves_nobody() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    written = len(groups.log)

    groups.set_topics(table(2, orders=4, other=1), "other")

    assert groups.beat("a", 2).member_epoch == 2
    assert len(groups.log) == written


def test_the_epoch_record_has_the_hash_of_the_topics() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")

    hashes = [each.value.metadata_hash for each in groups.log if isinstance(each, ConsumerGroupMetadata) and each.value]

    assert len(hashes) == 1
    assert hashes[0] != 0


def test_what_brokers_before_4_1_wrote_of_topics_gets_its_tombstone() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.machine.apply(ConsumerGroupPartitionMetadata(group_id="g", value=b"\x00\x00\x01\x00"))

    groups.beat("a", 2, subscribed_topic_names=())

    assert ConsumerGroupPartitionMetadata(group_id="g", value=None) in groups.log
    assert not groups.consumer().has_partition_metadata


# --- assignors


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    groups = Groups(AT_ONCE, table(orders=3, payments=3))
    both = ("orders", "payments")
    groups.enter("a", both, server_assignor="range")
    groups.enter("b", both, server_assignor="range")
    groups.enter("c", both, server_assignor="uniform")

    target = groups.consumer().target

    assert partitions(target["a"]) == {"orders": {0}, "payments": {0}}
    assert partitions(target["b"]) == {"orders": {1}, "payments": {1}}
    (described,) = groups.run(lambda machine: machine.describe_consumer_groups(["g"]))
    assert described.assignor == "range"


# --- time-outs, leaving, fencing


def test_a_member_that_is_not_heard_of_is_gone() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)
    groups.advance(44_999)
    groups.beat("a", 3)
    groups.advance(1)

    assert list(groups.consumer().members) == ["a"]
    assert partitions(groups.beat("a", 3).assignment) == {"orders": {0, 1, 2, 3}}


def test_a_group_may_have_a_session_time_out_of_its_own() -> None:
    own = ModernGroupSettings(session_timeout_ms=1_000, heartbeat_interval_ms=100)
    groups = Groups(GroupSettings(consumer_overrides={"g": own}))

    assert groups.enter("a").heartbeat_interval_ms == 100
    groups.advance(1_000)

    assert groups.consumer().is_empty


def test_a_member_that_does_not_let_go_in_time_is_fenced() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", rebalance_timeout_ms=10_000)
    groups.enter("b")
    groups.beat("a", 2)

    groups.advance(9_999)
    assert groups.beat("a", 2).member_epoch == 2
    groups.advance(1)

    assert code_of(lambda: groups.beat("a", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert partitions(groups.beat("b", 3).assignment) == {"orders": {0, 1, 2, 3}}


def test_a_member_that_let_go_in_time_is_not_fenced() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", rebalance_timeout_ms=10_000)
    groups.enter("b")
    groups.beat("a", 2)
    groups.advance(9_999)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})

    groups.advance(20_000)

    assert "a" in groups.consumer().members


def test_time_outs_of_one_group_see_each_other_and_those_of_different_groups_are_done_together() -> None:
    groups = Groups(AT_ONCE)
    for group_id in ("one", "two"):
        groups.enter("a", group_id=group_id, rebalance_timeout_ms=45_000)
        groups.enter("b", group_id=group_id)
        groups.beat("a", 2, group_id=group_id)  # has to let go within the same time as its session lasts
    written = len(groups.log)

    groups.now += 45_000  # type: ignore[assignment]
    groups.run(lambda machine: machine.tick(groups.now))

    epochs = [each for each in groups.log[written:] if isinstance(each, ConsumerGroupMetadata)]
    assert {each.group_id for each in epochs} == {"one", "two"}
    groups.advance(0)
    assert all(groups.consumer(group_id).is_empty for group_id in ("one", "two"))
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_who_leaves_frees_its_partitions_at_once() -> None:
    groups = Groups(AT_ONCE)
    two_members(groups)

    reply = groups.beat("b", -1)

    assert (reply.member_id, reply.member_epoch) == ("b", -1)
    assert partitions(groups.beat("a", 3).assignment) == {"orders": {0, 1, 2, 3}}


def test_the_last_one_to_leave_leaves_an_empty_group_that_may_be_deleted() -> None:
    groups = Groups()
    groups.enter("a")
    assert groups.run(lambda machine: machine.delete_groups(["g"], groups.now)) == (("g", ErrorCode.NON_EMPTY_GROUP),)

    groups.beat("a", -1)

    assert groups.consumer().state == "Empty"
    assert groups.run(lambda machine: machine.delete_groups(["g"], groups.now)) == (("g", ErrorCode.NONE),)
    assert not groups.group_ids()
    assert not groups.machine._state.followers._groups
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_stranger_cannot_leave() -> None:
    groups = Groups()
    groups.enter("a")

    assert code_of(lambda: groups.beat("b", -1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: groups.beat("b", -1, group_id="nowhere")) is ErrorCode.GROUP_ID_NOT_FOUND


# --- static members


def test_a_static_member_that_comes_back_gets_what_it_had() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", instance_id="one")
    groups.enter("b", instance_id="two")
    groups.beat("a", 2, instance_id="one")
    groups.beat("a", 2, instance_id="one", topic_partitions={ORDERS: (0, 1)})
    groups.beat("b", 3, instance_id="two")

    assert groups.beat("a", -2, instance_id="one").member_epoch == -2
    assert groups.beat("b", 3, instance_id="two").member_epoch == 3
    reply = groups.enter("a2", instance_id="one")

    assert (reply.member_epoch, partitions(reply.assignment)) == (3, {"orders": {0, 1}})
    assert set(groups.consumer().members) == {"a2", "b"}
    assert groups.consumer().state == "Stable"
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_static_member_may_come_back_with_another_subscription() -> None:
    groups = Groups(AT_ONCE, table(orders=2, payments=2))
    groups.enter("a", instance_id="one")
    groups.beat("a", -2, instance_id="one")

    reply = groups.enter("b", ("payments",), instance_id="one")

    assert partitions(reply.assignment) == {"payments": {0, 1}}
    assert set(groups.consumer().target) == {"b"}
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_static_member_may_come_back_with_the_same_id() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", instance_id="one")
    groups.beat("a", -2, instance_id="one")

    reply = groups.enter("a", instance_id="one")

    assert (reply.member_epoch, partitions(reply.assignment)) == (2, {"orders": {0, 1, 2, 3}})


def test_an_instance_that_is_in_use_is_not_given_away() -> None:
    groups = Groups()
    groups.enter("a", instance_id="one")

    assert code_of(lambda: groups.enter("b", instance_id="one")) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_predecessor_of_a_static_member_is_fenced() -> None:
    groups = Groups()
    groups.enter("a", instance_id="one")
    groups.beat("a", -2, instance_id="one")
    groups.enter("b", instance_id="one")

    assert code_of(lambda: groups.beat("a", 2, instance_id="one")) is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(lambda: groups.beat("a", -1, instance_id="one")) is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(lambda: groups.beat("x", 2, instance_id="nobody")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_loses_its_place_when_its_session_ends() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", instance_id="one")
    groups.beat("a", -2, instance_id="one")

    groups.advance(45_000)

    assert groups.consumer().is_empty


def test_a_static_member_that_leaves_for_good_is_gone() -> None:
    groups = Groups()
    groups.enter("a", instance_id="one")

    groups.beat("a", -1, instance_id="one")

    assert groups.consumer().is_empty
    assert groups.enter("b", instance_id="one").member_id == "b"


# --- regular expressions


def test_an_expression_subscribes_to_what_matches_it() -> None:
    groups = Groups(AT_ONCE, table(orders=1, payments=1))

    reply = groups.enter("a", (), subscribed_topic_regex="ord.*")

    assert partitions(reply.assignment) == {"orders": {0}}


def test_names_and_an_expression_add_up() -> None:
    groups = Groups(AT_ONCE, table(orders=1, payments=1, other=1))

    reply = groups.enter("a", ("payments",), subscribed_topic_regex="ord.*")

    assert partitions(reply.assignment) == {"orders": {0}, "payments": {0}}


def test_an_expression_that_is_none_is_refused() -> None:
    groups = Groups()

    with pytest.raises(KafkaError, match="not a valid regular expression") as raised:
        groups.enter("a", (), subscribed_topic_regex="(")

    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not groups.log


def test_a_new_topic_that_matches_is_found_after_a_while() -> None:
    groups = Groups(AT_ONCE, table(orders=1))
    groups.enter("a", (), subscribed_topic_regex="orders.*")
    groups.set_topics(table(2, **{"orders": 1, "orders-eu": 1}), "orders-eu")

    groups.advance(10_000)
    assert groups.beat("a", 2).assignment is None
    groups.advance(1)

    assert partitions(groups.beat("a", 2).assignment) == {"orders": {0}, "orders-eu": {0}}


def test_expressions_are_looked_at_again_from_time_to_time() -> None:
    groups = Groups(AT_ONCE, table(orders=1))
    groups.enter("a", (), subscribed_topic_regex="orders.*")
    groups.set_topics(table(1, **{"orders": 1, "orders-eu": 1}))  # as if nobody had told
    for _ in range(60):
        groups.advance(10_000)
        groups.beat("a", 2)

    groups.advance(1)

    assert partitions(groups.beat("a", 2).assignment) == {"orders": {0}, "orders-eu": {0}}


def test_a_member_sees_only_topics_that_it_may_see() -> None:
    groups = Groups(AT_ONCE, table(orders=1, other=1))

    reply = groups.enter("a", (), subscribed_topic_regex="o.*", may_see=lambda name: name != "other")

    assert partitions(reply.assignment) == {"orders": {0}}


def test_an_expression_that_only_another_broker_understood_matches_nothing() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    known = groups.consumer().members["a"].metadata_record("g")
    assert known.value is not None
    groups.machine.apply(replace(known, value=replace(known.value, subscribed_topic_regex="(")))

    assert groups.beat("a", 2).member_epoch == 3
    assert groups.consumer().resolved["("].topics == ()


def test_an_expression_is_forgotten_with_its_last_member() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", (), subscribed_topic_regex="ord.*")
    groups.enter("b", (), subscribed_topic_regex="ord.*")
    groups.beat("b", -1)
    assert set(groups.consumer().resolved) == {"ord.*"}

    groups.beat("a", 2, subscribed_topic_regex="")

    assert not groups.consumer().resolved
    assert not groups.consumer().subscriptions.topics
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_members_with_an_expression_and_members_with_names_share_fairly() -> None:
    groups = Groups(AT_ONCE, table(orders=4, payments=4))
    groups.enter("a", (), subscribed_topic_regex=".*")
    groups.enter("b", ("orders",))

    sizes = {member: sum(map(len, part.values())) for member, part in groups.consumer().target.items()}

    assert sizes == {"a": 4, "b": 4}


# --- restarts and describing


def test_after_a_restart_members_go_on_where_they_were() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)

    groups.restart()

    assert groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)}).member_epoch == 3
    assert partitions(groups.beat("b", 3).assignment) == {"orders": {2, 3}}


def test_after_a_restart_a_member_still_has_to_let_go_in_time() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", rebalance_timeout_ms=10_000)
    groups.enter("b")
    groups.beat("a", 2)
    groups.restart()

    groups.advance(10_000)

    assert list(groups.consumer().members) == ["b"]


def test_a_group_is_described_with_what_its_members_have_and_should_have() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a", instance_id="one", rack_id="r1")
    groups.enter("b")
    groups.beat("a", 2)

    (described,) = groups.run(lambda machine: machine.describe_consumer_groups(["g"]))

    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor == "uniform"
    a, b = described.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch, a.is_classic) == ("a", "one", "r1", 2, False)
    assert [each.partitions for each in a.assignment] == [(0, 1, 2, 3)]  # it has not let go yet
    assert [each.partitions for each in a.target_assignment] == [(0, 1)]
    assert [(each.topic_name, each.partitions) for each in b.target_assignment] == [("orders", (2, 3))]
    assert a.subscribed_topic_names == ("orders",)


def test_a_group_that_is_no_consumer_group_is_not_described() -> None:
    groups = Groups()
    groups.stable(1)

    found = groups.run(lambda machine: machine.describe_consumer_groups(["g", "nowhere"]))

    assert [each.error for each in found] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    groups.enter("m", group_id="modern")
    (described,) = groups.run(lambda machine: machine.describe_groups(["modern"], 6))
    assert described.error is ErrorCode.GROUP_ID_NOT_FOUND
