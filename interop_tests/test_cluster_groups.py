"""Groups and transactions on three brokers: whoever coordinates them is killed, and they go on where they stood."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop_tests.support.broker import external
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.groups import FAST, FAST_GROUPS, coverage, fresh_group
from interop_tests.support.members.host import Host, Member
from interop_tests.support.members.kinds import COPIERS, KINDS, Kind
from interop_tests.support.partitions import read_all
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import despite, until
from interop_tests.support.worker import Worker
from interop_tests.test_cluster import reassign, tool_on
from kompat.coordination.shards import partition_for

PARTITIONS = 3
HOMES = 4  # partitions of each internal topic
INTERVAL = 0.005
PROGRESS = 100
# librdkafka adds partitions to its transactions itself, for Java's producer the brokers do.
COPYING = {"confluent": ["confluent-range", "confluent-consumer"], "java": ["java-consumer"]}
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SETTINGS = (
    FAST_GROUPS
    | {
        "transaction.state.log.min.isr": "1",  # they are to be moved to a single broker; what is acknowledged, a majority has
        "default.replication.factor": "3",
        "offsets.topic.num.partitions": str(HOMES),
        "transaction.state.log.num.partitions": str(HOMES),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
)

pytestmark = [
    pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to make a cluster of"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(tmp_path_factory.mktemp("groups"), 3, SETTINGS) as started:
        yield started


class Group:
    """How far a group has come, by its committed offsets; they must never fall."""

    def __init__(self, cluster: Cluster, source: str) -> None:
        self.name = fresh_group()
        self._source = source
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": self.name, "log_level": 0}
        # Else it would wait until no transaction is under way, which is never for long.
        self._asker = Consumer(settings | {"isolation.level": "read_uncommitted"})
        self._highest: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def done(self) -> int:
        wanted = [TopicPartition(self._source, index) for index in range(PARTITIONS)]
        try:
            found = self._asker.committed(wanted, timeout=5)
        except KafkaException:  # its coordinator was killed just now
            return -1
        for each in found:
            assert each.error is None, each.error
            offset = max(each.offset, 0)
            assert offset >= self._highest[each.partition], f"{self.name} fell back in {each}"
            self._highest[each.partition] = offset
        return sum(self._highest.values())

    def close(self) -> None:
        self._asker.close()


class Copy:
    """Two copiers in one group, in transactions, to a topic of their own."""

    def __init__(self, kind: Kind, cluster: Cluster, source: str) -> None:
        self.kind = kind
        self.target = cluster.create("out", PARTITIONS)
        self.group = Group(cluster, source)
        self.ids = [f"{self.group.name}-{number}" for number in range(2)]
        self.members: list[Member] = []
        self._cluster = cluster
        self._source = source

    def join(self, host: Host) -> None:
        for transactional_id in self.ids:
            settings = self.kind.settings(FAST)
            settings |= {"copy.output": self.target, "copy.transactional.id": transactional_id}
            self.members.append(host.join(self._cluster.bootstrap, self.group.name, self._source, config=settings))


class Scene:
    """A topic that is written to, groups that copy it exactly once, and a group that only reads it."""

    def __init__(self, cluster: Cluster, logs: Path) -> None:
        self.cluster = cluster
        self.source = cluster.create("in", PARTITIONS)
        self.copies: list[Copy] = []
        self.readers = Group(cluster, self.source)
        self.hosts: list[Host] = []
        for language, kinds in COPYING.items():
            self.hosts.append(Host(COPIERS[language].command(), logs / language))
            for kind in kinds:
                self.copies.append(Copy(KINDS[kind], cluster, self.source))
                self.copies[-1].join(self.hosts[-1])
        reader = KINDS["confluent-consumer"]
        assert reader.command is not None
        self.hosts.append(Host(reader.command(), logs / "readers"))
        joined = (self.readers.name, self.source)
        settings = reader.settings(FAST)
        self.read_by = [self.hosts[-1].join(cluster.bootstrap, *joined, config=settings) for _ in range(2)]

    @property
    def groups(self) -> list[Group]:
        return [self.readers, *(copy.group for copy in self.copies)]

    def go_on(self, more: int = PROGRESS) -> None:
        for group, goal in [(group, group.done() + more) for group in self.groups]:
            self._until(group, goal)

    def finish(self, records: int) -> None:
        for group in self.groups:
            self._until(group, records)

    def _until(self, group: Group, goal: int) -> None:
        try:
            until(lambda: group.done() >= goal, f"{group.name} has come to {goal}", seconds=60)
        except AssertionError as error:
            members = [*self.read_by, *(member for copy in self.copies for member in copy.members)]
            raise AssertionError("\n".join([str(error), *(member.summary() for member in members)])) from None

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        for group in self.groups:
            group.close()


def test_copies_are_exact_while_the_leaders_of_data_offsets_and_transactions_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    scene = Scene(cluster, tmp_path)
    first = scene.copies[0]
    victims = [
        (scene.source, 0),
        (OFFSETS, partition_for(first.group.name, HOMES)),
        (TRANSACTIONS, partition_for(first.ids[0], HOMES)),
    ]
    chance = random.Random(4)
    try:
        with Trickle(cluster.bootstrap, scene.source, PARTITIONS, interval=INTERVAL) as trickle:
            for topic, partition in victims:
                scene.go_on()
                # The moment of death is drawn, so that it falls into every part of a transaction.
                time.sleep(chance.uniform(0, 0.1))
                victim = cluster.leader(topic, partition)
                cluster.brokers[victim].kill()
                scene.go_on()
                cluster.start(victim)
                for each in (scene.source, OFFSETS, TRANSACTIONS):
                    cluster.wait_in_sync(each)
            scene.go_on()
            sent = trickle.finish()
        scene.finish(len(sent))
    finally:
        scene.close()

    check(scene, sent)


def check(scene: Scene, sent: dict[tuple[str, int, int], str]) -> None:
    """Nothing is lost, and nothing is doubled in the copies."""
    bootstrap = scene.cluster.bootstrap
    wanted: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
    for (_, index, _), value in sorted(sent.items()):
        wanted[index].append(value)
    assert read_all(bootstrap, scene.source, PARTITIONS) == wanted
    for copy in scene.copies:
        assert read_all(bootstrap, copy.target, PARTITIONS) == wanted, copy.kind.name
    assert coverage(sent, scene.read_by).lost == []


def test_copies_are_exact_while_offsets_and_transactions_move_to_other_brokers(
    cluster: Cluster, java: Worker, tmp_path: Path
) -> None:
    """To one broker alone, to another one, and to all of them again."""
    scene, tool = Scene(cluster, tmp_path), tool_on(java, cluster)
    try:
        with Trickle(cluster.bootstrap, scene.source, PARTITIONS, interval=INTERVAL) as trickle:
            for replicas in ([1], [2], [3, 1, 2]):
                scene.go_on()
                for topic in (OFFSETS, TRANSACTIONS):
                    reassign(tool, tmp_path / "moves", topic, *[replicas] * HOMES)
            scene.go_on()
            sent = trickle.finish()
        scene.finish(len(sent))
    finally:
        scene.close()
    check(scene, sent)


def test_internal_topics_have_all_their_replicas_however_early_they_are_asked_for(tmp_path: Path) -> None:
    """Also where the first broker is ready before the others have registered."""
    with cluster_of(tmp_path, 0, {"offsets.topic.num.partitions": "2"}) as young:
        for _ in range(2):  # each is told of all
            for number in (1, 2, 3):
                young.add(number)

        def ask(number: int) -> None:
            young.start(number)
            # The first that it does: whoever leads the offsets.
            asker = Consumer({"bootstrap.servers": young.brokers[number].bootstrap, "group.id": "g", "log_level": 0})
            despite(
                KafkaException, lambda: asker.committed([TopicPartition("t", 0)], timeout=30), "somebody leads them"
            )
            asker.close()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(ask, (1, 2, 3)))
        assert [sorted(replicas) for _, replicas, _ in young.partitions(OFFSETS)] == [[1, 2, 3]] * 2
