"""Groups that change their protocol while they have members."""

from typing import Any

import pytest

from kompat.errors import ErrorCode
from kompat.groups.config import GroupSettings, MigrationPolicy, ModernGroupSettings
from kompat.groups.consumer_protocol import encode_assignment, parse_assignment
from kompat.groups.machine.messages import LeavingMember
from kompat.groups.machine.migration import version_of
from kompat.groups.records import GroupMetadata
from tests.groups.harness import Groups, code_of, replicated, subscription, topic_id_of

ORDERS = topic_id_of("orders")
CONSUMER = ModernGroupSettings(assignment_interval_ms=0)
DELAY = GroupSettings().initial_rebalance_delay_ms


def a_broker(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **settings: Any) -> Groups:
    return Groups(GroupSettings(consumer=CONSUMER, migration_policy=policy, **settings))


def a_classic_group(groups: Groups, *shares: tuple[int, ...], **options: Any) -> list[str]:
    """A stable classic group whose members have these partitions of orders."""
    pairs = [groups.join_with_id(**options) for _ in shares]
    groups.advance(2 * DELAY)
    members = [member_id for member_id, _ in pairs]
    generation = groups.joined(pairs[0][1]).generation_id
    assignments = {
        member_id: encode_assignment({"orders": share}, 1) for member_id, share in zip(members, shares, strict=True)
    }
    groups.sync(members[0], generation, assignments)
    for member_id in members[1:]:
        groups.sync(member_id, generation)
    return members


def assigned(groups: Groups, token: object) -> dict[str, tuple[int, ...]]:
    reply = groups.replies[token]
    assert reply.error is ErrorCode.NONE
    return dict(parse_assignment(reply.assignment).partitions)  # type: ignore[union-attr]


def rejoin(groups: Groups, member_id: str, owned: tuple[int, ...] = ()) -> tuple[int, dict[str, tuple[int, ...]]]:
    """A classic member goes through join and sync: its epoch and what it has afterwards."""
    reply = groups.joined(groups.join(member_id=member_id, owned={"orders": owned}))
    assert reply.error is ErrorCode.NONE
    return reply.generation_id, assigned(groups, groups.sync(member_id, reply.generation_id))


# --- upgrade


def test_the_first_consumer_member_turns_the_group_and_takes_nothing_before_it_is_let_go() -> None:
    groups = a_broker()
    one, two = a_classic_group(groups, (0, 1), (2, 3))

    reply = groups.enter("new")

    group = groups.consumer()
    assert set(group.members) == {one, two, "new"}
    assert reply.assignment == {}
    assert group.members[one].assigned == {ORDERS: {0: 1, 1: 1}}
    assert group.members[one].classic is not None
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_classic_members_hand_over_in_steps_of_their_own() -> None:
    groups = a_broker()
    one, two = a_classic_group(groups, (0, 1), (2, 3))
    groups.enter("new")

    assert groups.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    (kept,) = groups.consumer().target[two][ORDERS]
    assert rejoin(groups, two, owned=(2, 3)) == (1, {"orders": (kept,)})  # it still has to let go of the other
    assert groups.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(groups, two, owned=(kept,)) == (2, {"orders": (kept,)})
    assert groups.heartbeat(two, 2) is ErrorCode.NONE

    assert rejoin(groups, one, owned=(0, 1)) == (2, {"orders": (0, 1)})
    reply = groups.beat("new", 2)
    assert reply.assignment is not None
    held = [set(member.assigned.get(ORDERS, ())) for member in groups.consumer().members.values()]
    assert sorted(number for part in held for number in part) == [0, 1, 2, 3]
    assert groups.consumer().state == "Stable"


def test_an_eager_member_owns_nothing_when_it_rejoins() -> None:
    groups = a_broker()
    (one,) = a_classic_group(groups, (0, 1, 2, 3))
    groups.enter("new")

    epoch, share = rejoin(groups, one)

    assert epoch == 2
    assert len(share["orders"]) == 2


def test_whoever_waits_for_the_old_group_is_asked_to_come_again() -> None:
    groups = a_broker()
    one, two = a_classic_group(groups, (0, 1), (2, 3))
    waiting = groups.join(member_id=one)

    groups.enter("new")

    assert groups.joined(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(groups.consumer().members) == {one, two, "new"}
    assert rejoin(groups, one)[0] == 2


def test_a_refused_upgrade_leaves_everything_as_it_was() -> None:
    groups = a_broker(consumer_max_size=2)
    members = a_classic_group(groups, (0, 1), (2, 3))
    waiting = groups.join(member_id=members[0])

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_MAX_SIZE_REACHED

    assert waiting not in groups.replies
    rejoined = groups.join(member_id=members[1])
    assert groups.joined(waiting).generation_id == groups.joined(rejoined).generation_id == 2


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_without_permission_there_is_no_upgrade(policy: MigrationPolicy) -> None:
    groups = a_broker(policy)
    a_classic_group(groups, (0, 1, 2, 3))

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_too_large_for_a_consumer_group_is_not_upgraded() -> None:
    groups = a_broker(consumer_max_size=1)
    a_classic_group(groups, (0, 1), (2, 3))

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_whose_protocol_cannot_be_read_gets_the_oldest_format() -> None:
    assert version_of(b"") == 0
    assert version_of(subscription(["orders"], version=3)) == 3


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_an_empty_classic_group_may_always_become_a_consumer_group(policy: MigrationPolicy) -> None:
    groups = a_broker(policy)
    (member,) = a_classic_group(groups, (0, 1, 2, 3))
    groups.leave(member)
    groups.commit(5)

    assert groups.enter("new").member_epoch == 2

    assert GroupMetadata(group_id="g", value=None) in groups.log
    assert groups.fetch().offset == 5
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_group_that_is_no_group_of_consumers_cannot_be_upgraded() -> None:
    groups = a_broker()
    groups.stable(1, protocol_type="connect")

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "protocols", [[("range", b"\xff")], [("range", subscription(["orders"]))]], ids=["subscription", "assignment"]
)
def test_what_cannot_be_read_cannot_be_upgraded(protocols: list[tuple[str, bytes]]) -> None:
    groups = a_broker()
    groups.stable(1, protocols=protocols)  # with an assignment that is no assignment

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.classic().state == "Stable"


def test_user_data_of_a_custom_assignor_stands_in_the_way() -> None:
    groups = a_broker()
    member, token = groups.join_with_id()
    groups.advance(DELAY)
    data = encode_assignment({"orders": (0,)}, 1)[:-4] + b"\x00\x00\x00\x01x"
    groups.sync(member, groups.joined(token).generation_id, {member: data})

    assert code_of(lambda: groups.enter("new")) is ErrorCode.GROUP_ID_NOT_FOUND


# --- classic members of a consumer group


def test_a_classic_member_joins_a_consumer_group() -> None:
    groups = a_broker()
    groups.enter("a")

    member, token = groups.join_with_id()

    reply = groups.joined(token)
    assert (reply.generation_id, reply.protocol_type, reply.protocol_name, reply.members) == (
        3,
        "consumer",
        "range",
        (),
    )
    assert reply.leader == ""
    assert assigned(groups, groups.sync(member, 3)) == {}
    groups.beat("a", 2)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})
    assert groups.heartbeat(member, 3) is ErrorCode.REBALANCE_IN_PROGRESS  # what it waits for is free now
    assert rejoin(groups, member) == (3, {"orders": (2, 3)})


def test_a_disabled_migration_keeps_classic_members_out() -> None:
    groups = a_broker(MigrationPolicy.DISABLED)
    groups.enter("a")

    assert groups.joined(groups.join()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "options", [{"protocol_type": "connect"}, {"protocols": []}, {"protocols": [("range", b"\xff")]}]
)
def test_a_classic_member_has_to_be_a_consumer_that_can_be_understood(options: dict[str, Any]) -> None:
    groups = a_broker()
    groups.enter("a")

    assert groups.joined(groups.join(**options)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_need_a_protocol_in_common() -> None:
    groups = a_broker()
    groups.enter("a")
    groups.join_with_id(protocols=[("range", subscription(["orders"]))])

    refused = groups.join(protocols=[("sticky", subscription(["orders"]))])

    assert groups.joined(refused).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_is_checked_like_in_a_classic_group() -> None:
    groups = a_broker()
    groups.enter("a")
    member, _ = groups.join_with_id()

    assert groups.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert groups.heartbeat("nobody", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID  # it speaks the other protocol
    assert groups.heartbeat(member, 3, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.synced(groups.sync(member, 2)).error is ErrorCode.ILLEGAL_GENERATION
    assert groups.synced(groups.sync(member, 3, protocol_name="x")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.commit(5, member_id=member, generation_id=4) is ErrorCode.ILLEGAL_GENERATION
    assert groups.commit(5, member_id=member, generation_id=3, api_version=8) is ErrorCode.NONE


def test_a_sync_of_a_classic_member_that_was_overtaken_is_told_to_rejoin() -> None:
    groups = a_broker()
    groups.enter("a")
    member, token = groups.join_with_id()
    groups.enter("b")

    sync = groups.sync(member, groups.joined(token).generation_id)

    assert groups.synced(sync).error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("step", ["session", "rejoin", "sync"])
def test_a_classic_member_that_falls_silent_is_fenced(step: str) -> None:
    groups = a_broker()
    groups.enter("a")
    member, token = groups.join_with_id(session_ms=10_000, rebalance_ms=30_000)
    generation = groups.joined(token).generation_id
    if step != "sync":
        groups.sync(member, generation)
    if step == "rejoin":
        groups.enter("b")
    for _ in range(5):
        groups.advance(9_000)
        if step != "session":
            groups.heartbeat(member, generation)
        groups.beat("a", groups.consumer().members["a"].epoch, topic_partitions={ORDERS: (0, 1)})

    assert member not in groups.consumer().members


def test_classic_members_leave_a_consumer_group() -> None:
    groups = a_broker()
    groups.enter("a")
    groups.enter("b")
    member, _ = groups.join_with_id()
    groups.join(instance_id="one")

    left = groups.leave(
        member,
        "nobody",
        LeavingMember(member_id="", group_instance_id="one"),
        LeavingMember(member_id="", group_instance_id="x"),
    )

    assert [each.error for each in left] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert set(groups.consumer().members) == {"a", "b"}


def test_a_stranger_that_leaves_changes_nothing() -> None:
    groups = a_broker()
    groups.enter("a")
    written = len(groups.log)

    assert groups.leave("nobody")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(groups.log) == written


def test_a_static_classic_member_is_replaced_by_itself_with_the_consumer_protocol() -> None:
    groups = a_broker()
    groups.enter("a")
    token = groups.join(instance_id="one")
    old = groups.joined(token).member_id
    groups.beat("a", 2)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})
    rejoined = groups.join(member_id=old, instance_id="one")
    assert groups.joined(rejoined).error is ErrorCode.NONE

    reply = groups.enter("new", instance_id="one")

    assert reply.assignment == {ORDERS: {2: 3, 3: 3}}
    assert set(groups.consumer().members) == {"a", "new"}
    assert groups.heartbeat(old, 3, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert groups.consumer().classic_members == 0


# --- downgrade


def test_when_the_last_consumer_member_leaves_the_group_is_classic_again() -> None:
    groups = a_broker()
    groups.enter("a")
    member, _ = groups.join_with_id()
    epoch = groups.consumer().epoch

    groups.beat("a", -1)

    group = groups.classic()
    assert (group.state, group.generation_id, list(group.members)) == ("PreparingRebalance", epoch, [member])
    assert groups.heartbeat(member, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    token = groups.join(member_id=member)
    assert groups.joined(token).leader == member
    assert groups.joined(token).generation_id == epoch + 1
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_after_a_downgrade_members_keep_their_partitions_until_the_next_assignment() -> None:
    groups = a_broker()
    one, two = a_classic_group(groups, (0, 1), (2, 3))
    groups.enter("new")
    groups.beat("new", -1)

    groups.restart()

    shares = {
        each.member_id: parse_assignment(each.assignment).partitions for each in groups.classic().members.values()
    }
    assert shares.keys() == {one, two}
    everything = [number for part in shares.values() for number in part["orders"]]
    assert len(everything) == len(set(everything))


def test_an_expired_consumer_member_makes_the_group_classic_too() -> None:
    groups = a_broker()
    groups.enter("a")
    member, token = groups.join_with_id(session_ms=60_000)
    groups.sync(member, groups.joined(token).generation_id)
    groups.advance(44_000)
    groups.heartbeat(member, 3)

    groups.advance(1_000)

    assert list(groups.classic().members) == [member]


@pytest.mark.parametrize(
    "broker",
    [
        {"policy": MigrationPolicy.UPGRADE},
        {"max_size": 1},
    ],
)
def test_a_group_that_may_not_be_downgraded_stays_a_consumer_group(broker: dict[str, Any]) -> None:
    groups = a_broker(**broker)
    groups.enter("a")
    groups.join_with_id()
    groups.join_with_id()

    groups.beat("a", -1)

    assert len(groups.consumer().members) == 2


def test_a_static_member_that_returns_to_the_classic_protocol_takes_the_group_along() -> None:
    groups = a_broker()
    groups.enter("a", instance_id="one")
    other, _ = groups.join_with_id()
    groups.beat("a", 2, instance_id="one")
    groups.beat("a", 2, instance_id="one", topic_partitions={ORDERS: (0, 1)})
    assert rejoin(groups, other) == (3, {"orders": (2, 3)})

    reply = groups.joined(groups.join(instance_id="one"))

    group = groups.classic()
    assert group.state == "Stable"
    assert reply.generation_id == group.generation_id == 3
    assert set(group.members) == {other, reply.member_id}
    assert assigned(groups, groups.sync(reply.member_id, 3, instance_id="one")) == {"orders": (0, 1)}
    assert groups.heartbeat(other, 3) is ErrorCode.NONE
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_static_member_that_returns_with_another_subscription_starts_a_rebalance() -> None:
    groups = a_broker()
    groups.enter("a", instance_id="one")
    groups.join_with_id()

    token = groups.join(instance_id="one", topics=["payments"])

    assert groups.joined(token).error is ErrorCode.NONE
    assert groups.classic().state == "PreparingRebalance"


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_an_empty_consumer_group_may_always_become_a_classic_group(policy: MigrationPolicy) -> None:
    groups = a_broker(policy)
    groups.enter("a")
    groups.beat("a", -1)

    assert groups.joined(groups.join(member_id="old")).error is ErrorCode.UNKNOWN_MEMBER_ID
    member, token = groups.join_with_id()
    groups.advance(DELAY)

    assert groups.joined(token).leader == member
    assert not groups.machine._state.followers._groups
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_a_group_goes_back_and_forth_and_its_epoch_only_grows() -> None:
    groups = a_broker()
    (member,) = a_classic_group(groups, (0, 1, 2, 3))
    epochs = [groups.classic().generation_id]
    for turn in range(3):
        name = f"new{turn}"
        groups.enter(name)
        epochs.append(groups.consumer().epoch)
        groups.beat(name, -1)
        token = groups.join(member_id=member)
        epochs.append(groups.joined(token).generation_id)
        groups.sync(member, epochs[-1], {member: encode_assignment({"orders": (0, 1, 2, 3)}, 1)})

    assert epochs == sorted(set(epochs))
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)
