"""Groups outlive their broker's process: members of all clients go on when it is back."""

import time

import pytest
from confluent_kafka import TopicPartition

from interop_tests.conftest import HostOf, StartBroker
from interop_tests.support.clients.confluent import consumer
from interop_tests.support.groups import FAST, FAST_GROUPS, Groups, coverage, fresh_group
from interop_tests.support.members.host import Member, Place
from interop_tests.support.members.kinds import KINDS
from interop_tests.support.topics import Topics
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import until

PARTITIONS = 4
SOME = 8
RESTARTED = (
    "confluent-range",
    "confluent-cooperative",
    "confluent-consumer",
    "kafka-python",
    "aiokafka",
    "java-classic",
    "java-consumer",
    "kcat",
    "franz",
    "sarama",
)

Pairs = dict[str, tuple[str, list[Member]]]


def join_pairs(bootstrap: str, topic: str, host_of: HostOf) -> Pairs:
    """A group of two members of each kind, all on the same topic."""
    pairs: Pairs = {}
    for name in RESTARTED:
        kind, group = KINDS[name], fresh_group()
        host = host_of(kind)
        pairs[name] = (group, [host.join(bootstrap, group, topic, config=kind.settings(FAST)) for _ in range(2)])
    for _, members in pairs.values():
        for member in members:
            member.wait_assigned(PARTITIONS // 2)
    return pairs


def told(pairs: Pairs) -> dict[str, dict[Place, int]]:
    """Every group's commits that the broker has confirmed to a member."""
    return {name: members[0].committed | members[1].committed for name, (_, members) in pairs.items()}


def wait_progress(pairs: Pairs) -> None:
    """Until every group has gone on in every partition."""
    starts = {name: [member.count() for member in members] for name, (_, members) in pairs.items()}
    waiting = set(pairs)

    def is_done() -> bool:
        for name in tuple(waiting):
            found: list[Place] = []
            for member, start in zip(pairs[name][1], starts[name], strict=True):
                found += [record.place for record in member.records[start:]]
            if len(set(found)) == PARTITIONS and len(found) >= SOME:
                waiting.discard(name)
        return not waiting

    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline, "\n".join(member.summary() for name in waiting for member in pairs[name][1])
        time.sleep(0.05)


@pytest.mark.timeout(240)
def test_members_of_all_clients_continue_after_the_broker_is_killed_and_after_it_is_stopped(
    start_broker: StartBroker, host_of: HostOf
) -> None:
    broker = start_broker(FAST_GROUPS)
    topic = Topics(broker.bootstrap).create(partitions=PARTITIONS)

    with Trickle(broker.bootstrap, topic, PARTITIONS, interval=0.02) as trickle:
        pairs = join_pairs(broker.bootstrap, topic, host_of)
        wait_progress(pairs)
        for end in (broker.kill, broker.stop):
            before = told(pairs)
            end()
            broker.start()
            wait_progress(pairs)
            check_kept(broker.bootstrap, pairs, before)
        sent = trickle.finish()

        for name, (_, members) in pairs.items():
            until(
                lambda members=members: not coverage(sent, members).lost,  # type: ignore[misc]
                f"{name} has seen all records: {coverage(sent, members).lost}",
                seconds=30,
            )


def check_kept(bootstrap: str, pairs: Pairs, before: dict[str, dict[Place, int]]) -> None:
    groups = Groups(bootstrap)
    for name, (group, _) in pairs.items():
        now = groups.committed(group)
        lost = {place: offset for place, offset in before[name].items() if now.get(place, -1) < offset}
        assert lost == {}, f"{name}: commits that were confirmed are gone: {lost}, now {now}"


def commit(bootstrap: str, group: str, offsets: dict[Place, tuple[int, str | None]]) -> None:
    keeper = consumer(bootstrap, **{"group.id": group})
    wanted = [TopicPartition(*place, offset=offset, metadata=note) for place, (offset, note) in offsets.items()]
    for answer in keeper.commit(offsets=wanted, asynchronous=False):
        assert answer.error is None
    keeper.close()


def committed_with_metadata(bootstrap: str, group: str, *places: Place) -> dict[Place, tuple[int, str | None]]:
    keeper = consumer(bootstrap, **{"group.id": group})
    found = keeper.committed([TopicPartition(*place) for place in places], 20)
    keeper.close()
    return {(answer.topic, answer.partition): (answer.offset, answer.metadata) for answer in found}


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_offsets_and_their_metadata_stay_when_nobody_is_there(start_broker: StartBroker, end: str) -> None:
    broker = start_broker(FAST_GROUPS)
    topic, group = Topics(broker.bootstrap).create(partitions=2), fresh_group()
    kept: dict[Place, tuple[int, str | None]] = {(topic, 0): (17, "left here"), (topic, 1): (4, "")}
    commit(broker.bootstrap, group, kept)

    getattr(broker, end)()
    broker.start()

    assert committed_with_metadata(broker.bootstrap, group, *kept) == kept
