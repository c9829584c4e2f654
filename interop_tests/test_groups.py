"""Members of one group share a topic's partitions, keep their place, and take over from each other."""

import contextlib
from collections.abc import Iterator

import pytest

from interop_tests.conftest import HostOf
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.groups import FAST_GROUPS, Groups, coverage, fresh_group, pace_of
from interop_tests.support.members.host import Member, Place
from interop_tests.support.members.kinds import KINDS, Kind
from interop_tests.support.topics import Topics
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import until

PARTITIONS = 4
HALF = PARTITIONS // 2
SOME = 6
KILLED = (
    "confluent-range",
    "confluent-cooperative",
    "confluent-consumer",
    "kafka-python",
    "aiokafka",
    "java-classic",
    "java-consumer",
    "kcat",
    "franz",
)

Record = tuple[str, int, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("groups"), FAST_GROUPS) as started:
        yield started


@pytest.fixture(scope="module")
def groups(bootstrap: str) -> Groups:
    return Groups(bootstrap)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of member in turn."""
    return KINDS[request.param]


def wait_shared(*members: Member) -> None:
    """Until each has its even share, and no partition has two owners."""
    for member in members:
        member.wait_assigned(PARTITIONS // len(members))
    owned = [place for member in members for place in member.assignment]
    assert len(set(owned)) == PARTITIONS, f"not one owner each: {sorted(owned)}"


def wait_all_seen(trickle: Trickle, members: list[Member], *, forgiven: frozenset[Record] = frozenset()) -> None:
    sent = trickle.finish().keys() - forgiven
    with contextlib.suppress(AssertionError):
        until(lambda: not coverage(sent, members).lost, "all records are seen", seconds=30)
    assert coverage(sent, members).lost == []


def last_of(committed: dict[Place, int]) -> frozenset[Record]:
    return frozenset((topic, index, offset - 1) for (topic, index), offset in committed.items())


def check_resumed(member: Member, start: int, places: frozenset[Place], committed: dict[Place, int]) -> None:
    """After record number `start` the member reads those partitions from where the last commit points, or all of them."""
    until(lambda: places <= member.first_after(start).keys(), f"{member.name} reads {sorted(places)}")
    resumed = member.first_after(start)
    assert {place: resumed[place] for place in places} == {place: committed.get(place, 0) for place in places}


def test_members_share_leave_and_continue_where_they_left(
    kind: Kind, host_of: HostOf, topics: Topics, groups: Groups, broker: AnyBroker
) -> None:
    topic, group = topics.create(partitions=PARTITIONS), fresh_group()
    settings = kind.settings(pace_of(broker))
    host = host_of(kind)

    def join() -> Member:
        return host.join(broker.bootstrap, group, topic, config=settings)

    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        first = join()
        wait_shared(first)
        first.wait_records(SOME)
        second = join()
        wait_shared(first, second)
        first.wait_records(SOME)
        second.wait_records(SOME)

        inherited = first.assignment
        host.leave(first)
        kept = groups.committed(group)
        forgiven = last_of({place: kept[place] for place in inherited if place in kept})
        wait_shared(second)
        check_resumed(second, 0, inherited, kept)

        third = join()
        wait_shared(second, third)
        third.wait_records(SOME)
        host.leave(second)
        host.leave(third)
        kept = groups.committed(group)
        forgiven |= last_of(kept)
        last = join()
        wait_shared(last)
        check_resumed(last, 0, last.assignment, kept)
        members = [first, second, third, last]
        wait_all_seen(trickle, members, forgiven=forgiven if kind.drops_when_stopped else frozenset())
        host.leave(last)

    assert coverage(trickle.acknowledged, members).repeated == []
    assert groups.committed(group) == {
        (topic, index): max(offset for _, where, offset in trickle.acknowledged if where == index) + 1
        for index in range(PARTITIONS)
    }


@pytest.mark.parametrize("name", KILLED)
def test_partitions_of_a_killed_member_move_on_from_its_last_commit(
    name: str, host_of: HostOf, topics: Topics, groups: Groups, broker: AnyBroker
) -> None:
    kind, topic, group = KINDS[name], topics.create(partitions=PARTITIONS), fresh_group()
    settings = kind.settings(pace_of(broker))
    doomed = host_of(kind, own=True)

    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        survivor = host_of(kind).join(broker.bootstrap, group, topic, config=settings)
        survivor.wait_assigned(PARTITIONS)
        victim = doomed.join(broker.bootstrap, group, topic, config=settings)
        wait_shared(survivor, victim)
        victim.wait_records(SOME)
        survivor.wait_records(SOME)

        orphaned = victim.assignment
        seen = survivor.count()
        doomed.kill()
        kept = groups.committed(group)
        wait_shared(survivor)
        check_resumed(survivor, seen, orphaned, kept)
        wait_all_seen(trickle, [survivor, victim])

    assert all(kept[place] >= offset for place, offset in victim.committed.items())
