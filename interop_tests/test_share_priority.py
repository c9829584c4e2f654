"""Priorities and times to live in share groups: whoever is a member gets the most urgent first, and nothing is lost."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import AnyBroker, running
from interop_tests.support.group_settings import set_group
from interop_tests.support.groups import fresh_group
from interop_tests.support.members.host import Member, Seen
from interop_tests.support.members.sharers import COMMANDS, EXPLICIT, Hosts
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until

SETTINGS = {"group.share.assignment.interval.ms": "0"}
AT_ONCE = 20
FEW = {**EXPLICIT, "max.poll.records": AT_ONCE}
CLASSES = ("0", "", "critical", "6", "")  # of the backlog, over and over; "": none is given
RANK = {"0": 0, "": 4, "6": 6, "critical": 9}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with running(tmp_path_factory.mktemp("priorities"), SETTINGS) as started:
        yield started


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    started = Hosts(tmp_path)
    yield started
    started.close()


@pytest.fixture(params=COMMANDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def earliest(bootstrap: str) -> str:
    """A group that reads what was there before it."""
    group = fresh_group()
    set_group(bootstrap, group, {"share.auto.offset.reset": "earliest"})
    return group


def produce_backlog(bootstrap: str, topic: str, count: int) -> list[str]:
    """Records whose values tell their class."""
    names = [CLASSES[index % len(CLASSES)] for index in range(count)]
    values = [f"{name}-{index}" for index, name in enumerate(names)]
    send(
        bootstrap,
        topic,
        [(value, {"kompat-priority": name} if name else {}) for value, name in zip(values, names, strict=True)],
    )
    return values


def send(bootstrap: str, topic: str, records: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 20})
    for value, headers in records:
        producer.produce(topic, value.encode(), partition=0, headers=dict(headers))
    assert producer.flush(30) == 0


def rank(record: Seen) -> int:
    return RANK[record.value.split("-")[0]]


def check_urgent_first(records: Sequence[Seen]) -> None:
    """Members get a few at a time, each time the best; only where one class ends, another is among them."""
    ranks = [rank(record) for record in records]
    for place, each in enumerate(ranks):
        more_urgent = sum(other > each for other in ranks)
        assert place >= more_urgent - AT_ONCE, f"{records[place]} came as number {place}, before more urgent ones"


def values(*members: Member) -> list[str]:
    return [record.value for member in members for record in member.records]


def wait_count(member: Member, count: int) -> None:
    until(lambda: member.count() >= count, f"{count} records are read", seconds=60)


def test_the_most_urgent_of_a_backlog_come_first(kind: str, hosts: Hosts, topics: Topics, bootstrap: str) -> None:
    topic = topics.create("urgent")
    sent = produce_backlog(bootstrap, topic, 600)

    member = hosts.start(kind).join(bootstrap, earliest(bootstrap), topic, config=FEW)
    until(lambda: member.acknowledged >= len(sent), "all are acknowledged", seconds=60)

    assert sorted(values(member)) == sorted(sent)
    check_urgent_first(member.records)
    assert member.problems == []


def test_what_comes_later_and_is_more_urgent_overtakes(kind: str, hosts: Hosts, topics: Topics, bootstrap: str) -> None:
    topic, group = topics.create("urgent"), earliest(bootstrap)
    host = hosts.start(kind)
    send(bootstrap, topic, [("early", {})])
    first = host.join(bootstrap, group, topic, config=FEW)
    until(lambda: first.acknowledged, "the group has begun", seconds=60)
    host.leave(first)  # a Java member asks for more while it works: it would hold some of what comes now
    send(bootstrap, topic, [(f"later-{index}", {}) for index in range(AT_ONCE)])
    send(bootstrap, topic, [("now", {"x-priority": "high"})])
    second = host.join(bootstrap, group, topic, config={**EXPLICIT, "max.poll.records": 1})
    wait_count(second, AT_ONCE + 1)

    assert values(second) == ["now", *(f"later-{index}" for index in range(AT_ONCE))]


@pytest.mark.parametrize("kind", ["java"])
def test_nothing_is_lost_and_the_order_holds_when_the_broker_dies(
    kind: str, hosts: Hosts, start_broker: StartBroker
) -> None:
    own = start_broker(SETTINGS)
    group = earliest(own.bootstrap)
    topic = Topics(own.bootstrap).create("urgent")
    sent = produce_backlog(own.bootstrap, topic, 1000)
    first = hosts.start(kind).join(own.bootstrap, group, topic, config=FEW)
    until(lambda: first.acknowledged >= 100, "some are acknowledged", seconds=60)

    own.kill()
    before = len(first.records)
    own.start()
    second = hosts.start("confluent").join(own.bootstrap, group, topic, config=FEW)

    until(lambda: set(values(first, second)) == set(sent), "all are read", seconds=60)
    until(lambda: first.acknowledged + second.acknowledged >= len(sent), "all are acknowledged", seconds=60)
    again = len(values(first, second)) - len(sent)
    assert again <= 2 * AT_ONCE, "only what was in flight comes again"
    check_urgent_first(first.records[:before])


def test_what_is_past_its_time_is_for_plain_consumers_only(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str
) -> None:
    topic = topics.create("mortal")
    group = earliest(bootstrap)
    send(
        bootstrap,
        topic,
        [
            ("a", {}),
            ("late", {"kompat-ttl-ms": "1"}),
            ("b", {"kompat-ttl-ms": "3600000"}),
            ("late and urgent", {"kompat-ttl-ms": "1", "kompat-priority": "9"}),
            ("late after a delay", {"kompat-ttl-ms": "1", "kompat-delay-ms": "1"}),
        ],
    )
    until(lambda: len(read_all(bootstrap, topic)) == 5, "the delayed record is in the log", seconds=30)

    member = hosts.start(kind).join(bootstrap, group, topic, config=EXPLICIT)
    wait_count(member, 2)
    send(bootstrap, topic, [("c", {})])
    wait_count(member, 3)

    assert values(member) == ["a", "b", "c"]


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    """As a plain consumer does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": fresh_group(), "log_level": 0})
    try:
        place = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        found: list[bytes] = []
        while message := consumer.poll(5):
            found.append(message.value() or b"")
            if message.offset() == end - 1:
                break
    finally:
        consumer.close()
    return found
