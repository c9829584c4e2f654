"""The simple assignor of share groups."""

from math import ceil
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kompat.groups.records import Assignment
from kompat.share.groups.machine.assignor import ShareMemberSpec, assign

A, B, C = (UUID(int=number) for number in (1, 2, 3))
Assigned = dict[str, Assignment]


def spec(*topic_ids: UUID, **assigned: set[int]) -> ShareMemberSpec:
    held = {UUID(int=" abc".index(name)): frozenset(numbers) for name, numbers in assigned.items()}
    return ShareMemberSpec(frozenset(topic_ids), held)


def partitions(**counts: int) -> Assignment:
    return {UUID(int=" abc".index(name)): frozenset(range(count)) for name, count in counts.items()}


def holders(assigned: Assigned, topic_id: UUID, partition: int) -> set[str]:
    return {member for member, topics in assigned.items() if partition in topics.get(topic_id, ())}


def sizes(assigned: Assigned) -> list[int]:
    return sorted(sum(len(numbers) for numbers in topics.values()) for topics in assigned.values())


def test_one_member_has_everything() -> None:
    assert assign({"m": spec(A, B)}, partitions(a=2, b=1)) == {"m": {A: {0, 1}, B: {0}}}


def test_members_divide_partitions_evenly() -> None:
    assigned = assign({"m1": spec(A), "m2": spec(A), "m3": spec(A)}, partitions(a=7))

    assert sizes(assigned) == [2, 2, 3]
    assert all(len(holders(assigned, A, number)) == 1 for number in range(7))


def test_members_share_partitions_where_there_are_not_enough_of_them() -> None:
    assigned = assign({f"m{i}": spec(A) for i in range(7)}, partitions(a=3))

    assert {len(holders(assigned, A, number)) for number in range(3)} == {3}
    assert sizes(assigned) == [1, 1, 1, 1, 1, 2, 2]


def test_who_has_a_partition_keeps_it_when_others_come() -> None:
    assigned = assign({"m1": spec(A, a={0, 1, 2}), "m2": spec(A)}, partitions(a=3))

    assert assigned == {"m1": {A: {0, 1}}, "m2": {A: {2}}}


def test_the_others_take_over_what_somebody_left() -> None:
    assigned = assign({"m1": spec(A, a={0}), "m3": spec(A, a={2})}, partitions(a=3))

    assert assigned == {"m1": {A: {0, 1}}, "m3": {A: {2}}}


def test_a_partition_that_too_many_share_is_left_by_some() -> None:
    assigned = assign({name: spec(A, a={0}) for name in ("m1", "m2", "m3")}, partitions(a=3))

    assert all(len(holders(assigned, A, number)) == 1 for number in range(3))


def test_topics_that_not_all_members_have_are_shared_by_those_who_do() -> None:
    assigned = assign({"m1": spec(A), "m2": spec(A, B), "m3": spec(B)}, partitions(a=2, b=2))

    assert [holders(assigned, A, number) for number in (0, 1)] in ([{"m1"}, {"m2"}], [{"m2"}, {"m1"}])
    assert [holders(assigned, B, number) for number in (0, 1)] in ([{"m2"}, {"m3"}], [{"m3"}, {"m2"}])


def test_what_a_member_is_no_longer_subscribed_to_is_not_its_any_more() -> None:
    assert assign({"m": spec(B, a={0}, b={0})}, partitions(a=1, b=1)) == {"m": {B: {0}}}


def test_only_what_can_be_assigned_is() -> None:
    assert assign({"m": spec(A, C, a={0, 9})}, partitions(a=1)) == {"m": {A: {0}}}
    assert assign({"m": spec(), "n": spec()}, partitions(a=1)) == {"m": {}, "n": {}}


@given(
    st.lists(st.tuples(st.sets(st.sampled_from((A, B, C))), st.booleans()), min_size=1, max_size=12),
    st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9), "c": st.integers(0, 3)}),
    st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9), "c": st.integers(0, 3)}),
)
def test_every_partition_has_somebody_and_nobody_has_more_than_others(
    wishes: list[tuple[set[UUID], bool]], before: dict[str, int], after: dict[str, int]
) -> None:
    first = {f"m{i}": spec(*topics) for i, (topics, _) in enumerate(wishes)}
    old = assign(first, partitions(**before))
    # Some leave, the others keep what they have.
    members = {
        name: ShareMemberSpec(each.topic_ids, old[name])
        for (name, each), (_, stays) in zip(first.items(), wishes, strict=True)
        if stays
    } or {"m": spec(A)}
    parts = partitions(**after)

    assigned = assign(members, parts)

    assert set(assigned) == set(members)
    for topic_id, numbers in parts.items():
        sharers = [name for name, each in members.items() if topic_id in each.topic_ids]
        for number in numbers:
            found = holders(assigned, topic_id, number)
            assert found <= set(sharers)
            assert bool(found) == bool(sharers)
    if len({each.topic_ids for each in members.values()}) == 1:
        total = sum(
            len(numbers) for topic_id, numbers in parts.items() if topic_id in next(iter(members.values())).topic_ids
        )
        wanted = ceil(len(members) / total) if total else 0
        assert sum(sizes(assigned)) <= wanted * total
        assert max(sizes(assigned)) <= ceil(wanted * total / len(members))


@given(st.integers(1, 10), st.integers(1, 20))
def test_an_assignment_that_is_even_stays(members: int, count: int) -> None:
    names = [f"m{i}" for i in range(members)]
    first = assign({name: spec(A) for name in names}, partitions(a=count))

    assert assign({name: ShareMemberSpec(frozenset({A}), first[name]) for name in names}, partitions(a=count)) == first
