"""Groups whose members, topics or protocol change while they consume."""

from collections.abc import Iterator

import pytest

from interop_tests.conftest import HostOf
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.groups import FAST_GROUPS, Groups, coverage, fresh_group, pace_of
from interop_tests.support.members.host import Member
from interop_tests.support.members.kinds import KINDS, Kind, Pace
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker

PARTITIONS = 4
HALF = PARTITIONS // 2
SOME = 6
BOTH_PROTOCOLS = ("confluent-range", "confluent-consumer", "java-classic", "java-consumer")
# Long enough that a member's process may be started anew before the group misses it.
PATIENT = Pace(session_ms=20_000, heartbeat_ms=200)
# Kafka matches regular expressions again at most every ten seconds.
REGEX_SECONDS = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("changes"), FAST_GROUPS) as started:
        yield started


@pytest.fixture(scope="module")
def groups(bootstrap: str) -> Groups:
    return Groups(bootstrap)


@pytest.fixture(params=BOTH_PROTOCOLS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def be_patient(java: Worker, bootstrap: str, group: str) -> None:
    """A consumer group's session time-out is a setting of the group."""
    op = ["SET", "consumer.session.timeout.ms", str(max(PATIENT.session_ms, 45_000))]
    java.call("alter_configs", bootstrap, type="GROUP", name=group, ops=[op])


def wait_all_seen(trickle: Trickle, *members: Member) -> None:
    sent = trickle.finish()
    until(lambda: not coverage(sent, members).lost, "all records are seen", seconds=30)


def test_a_static_member_that_is_away_for_a_while_finds_its_partitions_again_and_disturbs_nobody(
    kind: Kind, host_of: HostOf, topics: Topics, groups: Groups, broker: AnyBroker, java: Worker
) -> None:
    topic, group = topics.create(partitions=PARTITIONS), fresh_group()
    be_patient(java, broker.bootstrap, group)

    def join(host: object, instance: str) -> Member:
        settings = kind.settings(PATIENT, group_instance_id=instance)
        return host.join(broker.bootstrap, group, topic, config=settings)  # type: ignore[attr-defined, no-any-return]

    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        doomed = host_of(kind, own=True)
        staying, away = join(host_of(kind), "one"), join(doomed, "two")
        staying.wait_assigned(HALF)
        away.wait_assigned(HALF)
        away.wait_records(SOME)
        # A classic member may have to give up partitions while the group comes together.
        given_up, owned, left = list(staying.given_up), staying.assignment, away.assignment

        if kind.protocol == "classic":
            doomed.kill()
        else:
            doomed.leave(away)  # who does not say good-bye there has to wait for the session's end
        kept = groups.committed(group)
        back = join(host_of(kind), "two")
        back.wait_assigned(HALF)
        wait_all_seen(trickle, staying, away, back)

        assert back.assignment == left
        assert (staying.assignment, staying.given_up) == (owned, given_up)
        resumed = back.first_after(0)
        assert resumed == {place: kept.get(place, 0) for place in resumed}


@pytest.mark.parametrize(
    ("name", "older_stays", "problem"),
    [
        ("confluent-range", False, "fenced"),
        ("java-classic", False, "FencedInstanceIdException"),
        ("confluent-consumer", True, "instance ID is still used"),
        ("java-consumer", True, "UnreleasedInstanceIdException"),
    ],
)
def test_of_two_members_with_one_instance_id_only_one_may_stay(
    name: str, older_stays: bool, problem: str, host_of: HostOf, topics: Topics, broker: AnyBroker
) -> None:
    kind, topic, group = KINDS[name], topics.create(partitions=PARTITIONS), fresh_group()
    settings = kind.settings(pace_of(broker), group_instance_id="the-one")
    host = host_of(kind)

    older = host.join(broker.bootstrap, group, topic, config=settings)
    older.wait_assigned(PARTITIONS)
    newer = host.join(broker.bootstrap, group, topic, config=settings)
    stays, goes = (older, newer) if older_stays else (newer, older)
    goes.wait(lambda: goes.has_left, "been turned away", 30)
    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        wait_all_seen(trickle, stays)

    assert any(problem.lower() in text.lower() for text in goes.problems), goes.problems
    assert len(stays.assignment) == PARTITIONS


def test_partitions_that_a_topic_gets_are_read_from_their_start(
    kind: Kind, host_of: HostOf, topics: Topics, broker: AnyBroker, java: Worker
) -> None:
    topic, group = topics.create(partitions=2), fresh_group()
    settings = kind.settings(pace_of(broker))
    host = host_of(kind)
    members = [host.join(broker.bootstrap, group, topic, config=settings) for _ in range(2)]
    for member in members:
        member.wait_assigned(1)

    java.call("create_partitions", broker.bootstrap, topic=topic, count=PARTITIONS)
    topics.wait(topic, PARTITIONS)
    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        for member in members:
            member.wait_assigned(HALF)
            member.wait_records(SOME)
        wait_all_seen(trickle, *members)

    assert coverage(trickle.acknowledged, members).repeated == []


def test_a_regular_expression_takes_in_topics_that_come_later(
    kind: Kind, host_of: HostOf, topics: Topics, broker: AnyBroker
) -> None:
    prefix, group = fresh_name("re"), fresh_group()
    early, late, other = f"{prefix}.early", f"{prefix}.late", f"{prefix}-other"
    for name in (early, other):
        topics.create_named(name, 2)
        topics.wait(name, 2)
    settings = kind.settings(pace_of(broker))
    host = host_of(kind)
    pattern = f"^{prefix}\\..*"

    members = [host.join(broker.bootstrap, group, pattern=pattern, config=settings) for _ in range(2)]
    for member in members:
        member.wait_assigned(1, seconds=REGEX_SECONDS)
    topics.create_named(late, 2)
    topics.wait(late, 2)
    with Trickle(broker.bootstrap, late, 2) as trickle:
        for member in members:
            member.wait_assigned(2, seconds=REGEX_SECONDS)
        wait_all_seen(trickle, *members)

    assert {topic for member in members for topic, _ in member.assignment} == {early, late}


@pytest.mark.parametrize(
    ("classic", "consumer"),
    [
        ("java-classic", "java-consumer"),
        ("java-cooperative", "java-consumer"),
        ("confluent-range", "confluent-consumer"),
    ],
)
def test_a_group_moves_to_the_consumer_protocol_and_back_while_it_consumes(
    classic: str, consumer: str, host_of: HostOf, topics: Topics, groups: Groups, broker: AnyBroker
) -> None:
    topic, group = topics.create(partitions=PARTITIONS), fresh_group()
    old, new = host_of(KINDS[classic]), host_of(KINDS[consumer])

    def join_old() -> Member:
        return old.join(broker.bootstrap, group, topic, config=KINDS[classic].settings(pace_of(broker)))

    def join_new() -> Member:
        return new.join(broker.bootstrap, group, topic, config=KINDS[consumer].settings(pace_of(broker)))

    def wait_halves(*members: Member) -> None:
        for member in members:
            member.wait_assigned(HALF)
            member.wait_records(SOME)

    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        first, second = join_old(), join_old()
        wait_halves(first, second)
        kinds = [groups.kind(group)]

        old.leave(first)
        third = join_new()
        wait_halves(second, third)
        kinds.append(groups.kind(group))
        old.leave(second)
        fourth = join_new()
        wait_halves(third, fourth)

        new.leave(third)
        fifth = join_old()
        wait_halves(fourth, fifth)
        kinds.append(groups.kind(group))
        new.leave(fourth)
        sixth = join_old()
        wait_halves(fifth, sixth)
        kinds.append(groups.kind(group))
        wait_all_seen(trickle, first, second, third, fourth, fifth, sixth)

    assert kinds == ["CLASSIC", "CONSUMER", "CONSUMER", "CLASSIC"]


def test_a_group_with_an_assignor_of_its_own_stays_classic(host_of: HostOf, topics: Topics, broker: AnyBroker) -> None:
    """librdkafka's cooperative-sticky has data of its own in the group's state once partitions have moved."""
    topic, group = topics.create(partitions=PARTITIONS), fresh_group()
    classic, consumer = KINDS["confluent-cooperative"], KINDS["java-consumer"]
    host, settings = host_of(classic), classic.settings(pace_of(broker))

    staying, guest = (host.join(broker.bootstrap, group, topic, config=settings) for _ in range(2))
    staying.wait_assigned(HALF)
    guest.wait_assigned(HALF)
    host.leave(guest)
    staying.wait_assigned(PARTITIONS)
    refused = host_of(consumer).join(broker.bootstrap, group, topic, config=consumer.settings(pace_of(broker)))
    refused.wait(lambda: refused.has_left, "been refused", 30)
    with Trickle(broker.bootstrap, topic, PARTITIONS) as trickle:
        wait_all_seen(trickle, staying)

    assert "an unsupported custom assignor is in use" in refused.problems[0]
