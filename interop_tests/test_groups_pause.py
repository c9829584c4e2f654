"""No stop-the-world: a member that keeps its partitions goes on reading while others come and go."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from interop_tests.conftest import HostOf
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.groups import FAST_GROUPS, coverage, fresh_group, pace_of
from interop_tests.support.members.host import Member, Place
from interop_tests.support.members.kinds import KINDS, Kind
from interop_tests.support.topics import Topics
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import until

PARTITIONS = 4
INTERVAL = 0.01  # each partition gets a record every 40 ms
LONGEST_GAP = 1.0
STAYING = ("confluent-cooperative", "confluent-consumer", "java-cooperative", "java-consumer", "franz")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("pause"), FAST_GROUPS) as started:
        yield started


@pytest.fixture(params=STAYING)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def longest_gaps(member: Member, start: int, places: frozenset[Place]) -> dict[Place, float]:
    """The longest time between two records of a partition, by the clock of the member's process."""
    gaps: dict[Place, float] = {}
    for place in places:
        times = [record.at for record in member.records[start:] if record.place == place]
        gaps[place] = max(later - earlier for earlier, later in pairwise(times))
    return gaps


def test_a_member_that_keeps_its_partitions_reads_on_while_another_joins_and_leaves(
    kind: Kind, host_of: HostOf, topics: Topics, broker: AnyBroker
) -> None:
    topic, group = topics.create(partitions=PARTITIONS), fresh_group()
    settings = kind.settings(pace_of(broker))
    host = host_of(kind)

    with Trickle(broker.bootstrap, topic, PARTITIONS, interval=INTERVAL) as trickle:
        staying = host.join(broker.bootstrap, group, topic, config=settings)
        staying.wait_assigned(PARTITIONS)
        staying.wait_records(4 * PARTITIONS)

        start = staying.count()
        guest = host.join(broker.bootstrap, group, topic, config=settings)
        staying.wait_assigned(PARTITIONS // 2)
        guest.wait_assigned(PARTITIONS // 2)
        kept = staying.assignment
        guest.wait_records(20)
        host.leave(guest)
        staying.wait_assigned(PARTITIONS)
        staying.wait_records(20)
        sent = trickle.finish()
        until(lambda: not coverage(sent, [staying, guest]).lost, "all records are seen", seconds=30)
        given_up = set(staying.given_up)
        host.leave(staying)

    gaps = longest_gaps(staying, start, kept)
    assert given_up.isdisjoint(kept)
    assert max(gaps.values()) < LONGEST_GAP, gaps
    assert coverage(sent, [staying, guest]).repeated == []
