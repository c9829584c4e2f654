"""Assignors: every partition has one owner, shares are as even as can be, and nothing moves without need."""

import time
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.groups.machine.assignors import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    NewAssignment,
    assign_range,
    assign_uniform,
)
from kompat.groups.records import Assignment

T = [UUID(int=number) for number in range(1, 9)]


def a_group(members: Mapping[str, tuple[frozenset[UUID], Assignment]], partitions: Mapping[UUID, int]) -> GroupSpec:
    return GroupSpec({name: MemberSpec(None, *each) for name, each in members.items()}, partitions)


def same_topics(count: int, *partitions: int, last: NewAssignment | None = None) -> GroupSpec:
    topics = frozenset(T[: len(partitions)])
    members = {f"m{number}": (topics, (last or {}).get(f"m{number}", {})) for number in range(count)}
    return a_group(members, dict(zip(T, partitions, strict=False)))


def sizes(target: NewAssignment) -> dict[str, int]:
    return {member: sum(map(len, each.values())) for member, each in target.items()}


def owners(target: NewAssignment) -> dict[tuple[UUID, int], str]:
    found: dict[tuple[UUID, int], str] = {}
    for member, assignment in target.items():
        for topic, part in assignment.items():
            assert part, "no empty parts"
            for number in part:
                assert (topic, number) not in found, "two owners"
                found[topic, number] = member
    return found


def test_range_gives_each_member_the_same_run_of_every_topic() -> None:
    target = assign_range(same_topics(2, 4, 4))

    assert target == {
        "m0": {T[0]: frozenset({0, 1}), T[1]: frozenset({0, 1})},
        "m1": {T[0]: frozenset({2, 3}), T[1]: frozenset({2, 3})},
    }


def test_range_gives_the_rest_to_the_first() -> None:
    assert sizes(assign_range(same_topics(3, 7))) == {"m0": 3, "m1": 2, "m2": 2}


def test_range_puts_static_members_first() -> None:
    topics = frozenset(T[:1])
    members = {"a": MemberSpec(None, topics, {}), "z": MemberSpec("instance", topics, {})}

    assert assign_range(GroupSpec(members, {T[0]: 1})) == {"a": {}, "z": {T[0]: frozenset({0})}}


def test_range_with_more_members_than_partitions_leaves_some_without() -> None:
    assert sizes(assign_range(same_topics(3, 2))) == {"m0": 1, "m1": 1, "m2": 0}


def test_uniform_takes_from_those_who_have_most() -> None:
    before = assign_uniform(same_topics(2, 4))
    after = assign_uniform(same_topics(3, 4, last=before))

    assert sorted(sizes(after).values()) == [1, 1, 2]
    moved = [place for place, owner in owners(before).items() if owners(after)[place] != owner]
    assert len(moved) == 1


def test_uniform_leaves_a_balanced_group_alone() -> None:
    before = assign_uniform(same_topics(3, 5, 4))

    assert assign_uniform(same_topics(3, 5, 4, last=before)) == before


def test_uniform_gives_new_partitions_to_those_who_have_least() -> None:
    before = assign_uniform(same_topics(2, 3))
    after = assign_uniform(same_topics(2, 4, last=before))

    assert sizes(after) == {"m0": 2, "m1": 2}
    assert all(owners(after)[place] == owner for place, owner in owners(before).items())


def test_uniform_repairs_what_an_upgraded_group_may_bring() -> None:
    twice_and_beyond = {
        "m0": {T[0]: frozenset({0, 1, 9})},
        "m1": {T[0]: frozenset({1, 2})},
        "m2": {T[5]: frozenset({0})},
    }

    target = assign_uniform(same_topics(3, 3, last=twice_and_beyond))  # type: ignore[arg-type]

    assert len(owners(target)) == 3


def test_a_group_without_members_needs_no_assignment() -> None:
    assert assign_uniform(GroupSpec({}, {})) == {}
    assert assign_range(GroupSpec({}, {})) == {}


SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]), st.frozensets(st.sampled_from(T), max_size=5), min_size=1
)
PARTITIONS = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in T})


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(steps=st.lists(st.tuples(SUBSCRIPTIONS, PARTITIONS), min_size=1, max_size=4))
def test_every_partition_that_somebody_wants_has_exactly_one_owner_who_wants_it(assignor, steps) -> None:  # type: ignore[no-untyped-def]
    last: NewAssignment = {}
    counts = dict.fromkeys(T, 1)
    for subscriptions, partitions in steps:
        counts = {topic: max(counts[topic], partitions[topic]) for topic in T}  # topics only grow
        spec = a_group({name: (topics, last.get(name, {})) for name, topics in subscriptions.items()}, counts)
        last = assignor(spec)

        found = owners(last)
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        assert set(found) == {(topic, number) for topic in wanted for number in range(counts[topic])}
        assert all(topic in subscriptions[owner] for (topic, _), owner in found.items())
        assert last.keys() == subscriptions.keys()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), PARTITIONS)
def test_with_equal_subscriptions_shares_differ_by_one_and_only_the_surplus_moves(
    counts: list[int], partitions: dict[UUID, int]
) -> None:
    topics, last = frozenset(T), {}  # type: tuple[frozenset[UUID], NewAssignment]
    for count in counts:
        members = {f"m{number}": (topics, last.get(f"m{number}", {})) for number in range(count)}
        target = assign_uniform(a_group(members, partitions))

        shares = sizes(target)
        assert max(shares.values()) - min(shares.values()) <= 1
        before, after = owners({name: each for name, each in last.items() if name in members}), owners(target)
        moved = sum(after[place] != owner for place, owner in before.items())
        surplus = sum(max(0, len([1 for o in before.values() if o == name]) - shares[name]) for name in members)
        assert moved == surplus
        last = target


@given(SUBSCRIPTIONS, PARTITIONS)
def test_with_unequal_subscriptions_nobody_could_be_relieved_by_a_single_move(
    subscriptions: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    target = assign_uniform(a_group({name: (topics, {}) for name, topics in subscriptions.items()}, partitions))

    shares = sizes(target)
    for (topic, _), owner in owners(target).items():
        for name, topics in subscriptions.items():
            assert topic not in topics or shares[owner] - shares[name] <= 1


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("is_uneven", [False, True])
def test_a_thousand_members_are_assigned_quickly(assignor, is_uneven: bool) -> None:  # type: ignore[no-untyped-def]
    topics = T[:4]
    partitions = dict.fromkeys(topics, 1_000)
    members: dict[str, tuple[frozenset[UUID], Assignment]] = {
        f"m{number}": (frozenset(topics[: 3 + (number % 2)] if is_uneven else topics), {}) for number in range(1_000)
    }
    started = time.process_time()

    assignor(a_group(members, partitions))

    assert time.process_time() - started < 0.5
