"""Share groups, dead letters, delays and queue topics on three brokers, one of which is killed in the middle."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition

from interop_tests.support.broker import external
from interop_tests.support.clients import kcat
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.group_settings import set_group
from interop_tests.support.groups import fresh_group
from interop_tests.support.wait import until

PARTITIONS = 6
SETTINGS = {"group.share.assignment.interval.ms": "0", "default.replication.factor": "3"}
SECONDS = 60.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if external() is not None:
        pytest.skip("the brokers under test are not ours to kill")
    with cluster_of(tmp_path_factory.mktemp("cluster"), 3, SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def three(whole: Cluster) -> Cluster:
    """All of them run, whatever the test before has done to them."""
    down = [number for number in whole.brokers if number not in whole.running]
    if down:
        whole.start(*down)
    return whole


def share_group(cluster: Cluster, **more: str) -> str:
    """One that reads what was there before it."""
    group = fresh_group()
    settings = {"share.auto.offset.reset": "earliest"} | {name.replace("_", "."): value for name, value in more.items()}
    set_group(cluster.bootstrap, group, settings)
    return group


def produce(cluster: Cluster, topic: str, values: list[str], partitions: int, *headers: tuple[str, bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "enable.idempotence": True})
    for place, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=place % partitions, headers=list(headers))
    assert producer.flush(30) == 0


class Sharer:
    """A member that says the same of every record, and remembers what was taken note of."""

    def __init__(self, cluster: Cluster, group: str, topic: str, kind: AcknowledgeType) -> None:
        config = {"group.id": group, "share.acknowledgement.mode": "explicit", "log_level": 0}
        self._consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap, **config})
        self._consumer.subscribe([topic])
        self._kind = kind
        self.settled: set[str] = set()
        self.came_again: list[str] = []  # though what became of them was taken note of

    def work(self) -> None:
        given = [message for message in self._consumer.poll(0.2) if message.error() is None]
        for message in given:
            self._consumer.acknowledge(message, self._kind)
        if given:
            refused = {place.partition for place, error in self._consumer.commit_sync().items() if error is not None}
            values = [(message.value() or b"").decode() for message in given if message.partition() not in refused]
            self.came_again += [value for value in values if value in self.settled]
            self.settled.update(values)

    def work_until(self, done: Callable[[], bool], what: str) -> None:
        def is_done() -> bool:
            self.work()
            return done()

        until(is_done, what, seconds=SECONDS)

    def close(self) -> None:
        self._consumer.close()


def read(cluster: Cluster, topic: str, partitions: int, enough: Callable[[Counter[str]], bool]) -> Counter[str]:
    """All values from the beginning, until there are enough of them and then up to the end."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": fresh_group(), "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: Counter[str] = Counter()

    def is_read() -> bool:
        messages = [each for each in consumer.consume(1000, 0.2) if each.error() is None]
        found.update((each.value() or b"").decode() for each in messages)
        return enough(found) and _is_at_end(consumer, topic, partitions)

    try:
        until(is_read, f"{topic} is read; so far {len(found)}", seconds=SECONDS)
    finally:
        consumer.close()
    return found


def _is_at_end(consumer: Consumer, topic: str, partitions: int) -> bool:
    places = consumer.position([TopicPartition(topic, partition) for partition in range(partitions)])
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, place.partition), timeout=10)[1] for place in places]
    return all(place.offset >= end or end == 0 for place, end in zip(places, ends, strict=True))


def test_what_was_acknowledged_never_comes_again_and_nothing_else_is_lost(three: Cluster) -> None:
    topic = three.create("jobs", PARTITIONS)
    assert len({leader for leader, _, _ in three.partitions(topic)}) == 3
    values = [str(number) for number in range(3000)]
    produce(three, topic, values, PARTITIONS)
    group = share_group(three)
    member = Sharer(three, group, topic, AcknowledgeType.ACCEPT)

    member.work_until(lambda: len(member.settled) > 300, "some are accepted")
    three.brokers[three.leader(topic)].kill()
    member.work_until(lambda: len(member.settled) == len(values), "all are accepted")
    member.close()
    second = Sharer(three, group, topic, AcknowledgeType.ACCEPT)
    produce(three, topic, ["last"], PARTITIONS)
    second.work_until(lambda: bool(second.settled), "the last is accepted")
    second.close()

    assert member.settled == set(values)
    assert member.came_again == []
    assert second.settled == {"last"}


def test_what_is_rejected_becomes_one_letter_whoever_leads_the_topic_for_them(three: Cluster) -> None:
    topic = three.create("poison", PARTITIONS)
    values = [str(number) for number in range(1200)]
    produce(three, topic, values, PARTITIONS)
    group = share_group(three, errors_deadletterqueue_topic_name="dlq.<topic>")
    member = Sharer(three, group, topic, AcknowledgeType.REJECT)

    member.work_until(lambda: len(member.settled) > 100, "some are rejected")
    three.brokers[three.leader(topic)].kill()
    member.work_until(lambda: len(member.settled) == len(values), "all are rejected")
    member.close()

    letters = f"dlq.{topic}"
    partitions = len(three.partitions(letters))
    found = read(three, letters, partitions, lambda found: len(found) == len(values))
    assert found == Counter(values)


def test_a_delayed_record_comes_once_though_its_leader_was_killed(three: Cluster) -> None:
    topic = three.create("reminders", PARTITIONS)
    values = [str(number) for number in range(60)]
    sent = time.monotonic()
    produce(three, topic, values, PARTITIONS, ("kompat-delay-ms", b"2500"))
    victim = three.leader(topic)
    three.brokers[victim].kill()

    found = read(three, topic, PARTITIONS, lambda found: len(found) == len(values))
    assert time.monotonic() - sent >= 2.5
    assert found == Counter(values)
    three.start(victim)
    three.wait_in_sync(topic)
    produce(three, topic, ["later"], PARTITIONS, ("kompat-delay-ms", b"100"))
    assert read(three, topic, PARTITIONS, lambda found: "later" in found) == Counter([*values, "later"])


def test_a_queue_delivers_what_other_brokers_lead_and_takes_acknowledgements_of_it(three: Cluster) -> None:
    orders = three.create("orders", 3)
    queue = three.create("queue", 1, kompat_queue_source=orders, kompat_queue_lock_ms="3000")
    assert len({leader for leader, _, _ in three.partitions(orders)}) == 3
    values = [f"order-{number}" for number in range(6)]
    produce(three, orders, values, 3)

    given = take(three, queue, 6)
    assert sorted(given) == values
    for value in values[:4]:
        assert say(three, queue, "accept", given[value]) == 0
    assert say(three, queue, "release", given[values[0]]) == 1  # it is done with
    three.brokers[three.leader(queue)].kill()
    left = take_until(three, queue, set(values[4:]))
    for value in values[4:]:
        assert say(three, queue, "accept", left[value]) == 0

    produce(three, orders, ["new"], 3)
    assert take_until(three, queue, {"new"}).keys() == {"new"}


def take(cluster: Cluster, queue: str, count: int) -> dict[str, str]:
    """Values, and the ids by which they are acknowledged."""
    options = ("-C", "-q", "-b", cluster.bootstrap, "-t", queue, "-o", "beginning", "-c", str(count))
    printed = kcat.run(*options, "-f", "%s %h\n", seconds=SECONDS).stdout.decode()
    rows = [line.split(" ", 1) for line in printed.splitlines()]
    return {value: dict(part.split("=", 1) for part in headers.split(","))["kompat-ack-id"] for value, headers in rows}


def take_until(cluster: Cluster, queue: str, wanted: set[str]) -> dict[str, str]:
    """The newest deliveries, when all that is wanted has come since."""
    found: dict[str, str] = {}

    def has_come() -> bool:
        found.update(take(cluster, queue, len(wanted)))
        return wanted <= found.keys()

    until(has_come, f"{wanted} are delivered", seconds=SECONDS)
    return {value: found[value] for value in found if value in wanted}


def say(cluster: Cluster, queue: str, kind: str, delivery: str) -> int:
    """The exit status of kcat."""
    headers = ("-H", f"kompat-ack={kind}", "-H", f"kompat-ack-id={delivery}")
    return kcat.run("-P", "-q", "-b", cluster.bootstrap, "-t", queue, *headers, stdin=b"x\n").returncode
