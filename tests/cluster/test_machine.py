"""The machine against a model, and its records against replay: whatever happens in whatever order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kompat.cluster.machine import PRODUCER_ID_BLOCK, ClusterMachine
from kompat.cluster.records import ClusterCodec, ClusterRecord
from kompat.cluster.requests import ConfigOp, MorePartitions, NewTopic, Reassignment
from kompat.cluster.state import Broker, ClusterState, PartitionState, Topic
from kompat.errors import DamagedData, KafkaError
from kompat.types import NodeId
from tests.cluster.support import Cluster, broker, changing, group, replacing, topic

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c-d", "__offsets"])
SETTINGS = st.sampled_from(["retention.ms", "flush.ms", "segment.ms"])
CODEC = ClusterCodec()


@dataclass
class Model:
    """What users would expect, in the simplest terms."""

    topics: dict[str, int] = field(default_factory=dict)  # partitions
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=lambda: {1})
    producer_ids: list[range] = field(default_factory=list)

    def collides(self, name: str) -> bool:
        return any(other.replace(".", "_") == name.replace(".", "_") for other in self.topics)


def replayed(records: Iterable[ClusterRecord]) -> ClusterState:
    """A new machine that has read the records from their bytes."""
    machine = ClusterMachine()
    for record in records:
        machine.apply(CODEC.decode(*CODEC.encode(record)))
    return machine.state


class AnyOrder(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        self.model = Model()
        self.snapshot: tuple[list[ClusterRecord], int] = ([], 0)

    @rule(name=NAMES, partitions=st.integers(-1, 4), factor=st.integers(-1, 3), validate_only=st.booleans())
    def create(self, name: str, partitions: int, factor: int, validate_only: bool) -> None:
        outcome = self.cluster.create(NewTopic(name, partitions, factor), validate_only=validate_only)

        is_good = (
            partitions != 0 and factor != 0 and factor <= len(self.model.brokers) and not self.model.collides(name)
        )
        assert isinstance(outcome, Topic) == is_good
        if is_good and not validate_only:
            self.model.topics[name] = 1 if partitions == -1 else partitions
            self.model.configs[name] = {}

    @rule(name=NAMES, by_id=st.booleans())
    def delete(self, name: str, by_id: bool) -> None:
        known = self.cluster.machine.state.topics.get(name)
        key = known.id if known is not None and by_id else name
        found = self.cluster.do(self.cluster.machine.delete_topics([key], config=self.cluster.config))

        assert isinstance(found[key], Topic) == (name in self.model.topics)
        self.model.topics.pop(name, None)
        self.model.configs.pop(name, None)

    @rule(name=NAMES, count=st.integers(0, 6))
    def grow(self, name: str, count: int) -> None:
        known = self.cluster.machine.state.topics.get(name)
        factor = known.replication_factor if known is not None else 0
        found = self.cluster.do(self.cluster.machine.create_partitions([MorePartitions(name, count)], start=0))

        is_good = count > self.model.topics.get(name, 1 << 30) and factor <= len(self.model.brokers)
        assert (found[name] is None) == is_good
        if is_good:
            self.model.topics[name] = count

    @rule(name=NAMES, setting=SETTINGS, value=st.one_of(st.none(), st.integers(0, 3)))
    def change(self, name: str, setting: str, value: int | None) -> None:
        op = ConfigOp.DELETE if value is None else ConfigOp.SET
        outcome = self.cluster.alter(changing(topic(name), (setting, op, None if value is None else str(value))))

        is_good = name in self.model.topics and not (setting == "segment.ms" and value == 0)
        assert (outcome is None) == is_good
        if is_good:
            self.model.configs[name].pop(setting, None)
            self.model.configs[name] |= {setting: str(value)} if value is not None else {}

    @rule(name=NAMES, wanted=st.dictionaries(SETTINGS, st.integers(1, 3).map(str)))
    def replace(self, name: str, wanted: dict[str, str]) -> None:
        outcome = self.cluster.alter(replacing(topic(name), *wanted.items()))

        assert (outcome is None) == (name in self.model.topics)
        if outcome is None:
            self.model.configs[name] = wanted

    @rule(name=st.sampled_from(["g", "h"]), value=st.sampled_from(["44999", "45000", "60000", ""]))
    def change_group(self, name: str, value: str) -> None:
        wanted = {"consumer.session.timeout.ms": value} if value else {}
        outcome = self.cluster.alter(replacing(group(name), *wanted.items()))

        assert (outcome is None) == (value != "44999")
        if outcome is None:
            self.model.groups.pop(name, None)
            self.model.groups |= {name: wanted} if wanted else {}

    @rule(node=st.integers(1, 3))
    def join(self, node: int) -> None:
        self.cluster.do(self.cluster.machine.join(Broker(NodeId(node)), cluster_id="another", secret=b"s"))
        self.model.brokers.add(node)

    @rule(node=st.integers(1, 3))
    def leave(self, node: int) -> None:
        if node in self.model.brokers and len(self.model.brokers) > 1:
            self.cluster.do(self.cluster.machine.unregister(NodeId(node)))
            self.model.brokers.discard(node)

    @rule(
        name=NAMES,
        index=st.integers(0, 3),
        replicas=st.one_of(st.none(), st.permutations([1, 2, 3])),
        factor=st.integers(1, 3),
    )
    def move(self, name: str, index: int, replicas: list[int] | None, factor: int) -> None:
        wanted = None if replicas is None else replicas[:factor]
        before = self.partition(name, index)
        [outcome] = self.cluster.do(self.cluster.machine.reassign([Reassignment(name, index, wanted)]))

        after = self.partition(name, index)
        if before is None or after is None:
            assert outcome is not None
        elif wanted is None:
            assert (outcome is None) == before.is_moving
            assert set(after.target) == set(before.origin)
        else:
            assert (outcome is None) == (set(wanted) <= self.model.brokers)
            assert after.target == (tuple(wanted) if outcome is None else before.target)
        # Whoever may have a copy keeps it until the leader says that the move is done.
        if before is not None and after is not None:
            assert set(before.replicas) <= set(after.replicas)
            assert before.origin == after.origin or not before.is_moving

    @rule(name=NAMES, index=st.integers(0, 3))
    def arrive(self, name: str, index: int) -> None:
        partition = self.partition(name, index)
        if partition is not None:
            topic_id = self.cluster.machine.state.topics[name].id
            self.cluster.do(self.cluster.machine.arrived(topic_id, index, partition.origin))
            assert self.partition(name, index) == partition or set(partition.origin) == set(partition.target)
            self.cluster.do(self.cluster.machine.arrived(topic_id, index, partition.target))
            arrived = self.partition(name, index)
            assert arrived is not None
            assert (arrived.replicas, arrived.is_moving) == (partition.target, False)

    def partition(self, name: str, index: int) -> PartitionState | None:
        known = self.cluster.machine.state.topics.get(name)
        return known.partitions[index] if known is not None and index < len(known.partitions) else None

    @rule()
    def allocate(self) -> None:
        block = self.cluster.do(self.cluster.machine.allocate_producer_ids())

        assert len(block) == PRODUCER_ID_BLOCK
        assert all(set(block).isdisjoint(earlier) for earlier in self.model.producer_ids)
        self.model.producer_ids.append(block)

    @rule()
    def take_snapshot(self) -> None:
        self.snapshot = (list(self.cluster.machine.snapshot()), len(self.cluster.records))

    @invariant()
    def the_cluster_is_as_the_model_says(self) -> None:
        state = self.cluster.machine.state
        assert {name: len(found.partitions) for name, found in state.topics.items()} == self.model.topics
        assert {name: dict(found.configs) for name, found in state.topics.items()} == self.model.configs
        assert {each.name: dict(found) for each, found in state.configs.items()} == self.model.groups
        assert set(state.brokers) == self.model.brokers
        assert state.cluster_id == "cluster"
        assert {found.id: found for found in state.topics.values()} == state.topics_by_id
        for found in state.topics.values():
            assert [p.index for p in found.partitions] == list(range(len(found.partitions)))
            assert all(p.leader in p.target and set(p.target) <= set(p.replicas) for p in found.partitions)

    @invariant()
    def the_log_says_the_same(self) -> None:
        assert replayed(self.cluster.records) == self.cluster.machine.state

    @invariant()
    def so_does_a_snapshot_and_the_log_after_it(self) -> None:
        records, reached = self.snapshot
        assert replayed([*records, *self.cluster.records[reached:]]) == self.cluster.machine.state


AnyOrder.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_a_copy_does_not_follow_the_original() -> None:
    cluster = Cluster("a.b")
    copy = cluster.machine.state.copy()
    cluster.do(cluster.machine.delete_topics(["a.b"], config=cluster.config))
    cluster.alter(replacing(broker(), ("message.max.bytes", "5")))

    assert set(copy.topics) == {"a.b"}
    assert copy.colliding("a_b") == {"a.b"}
    assert not copy.configs


def test_a_cluster_is_founded_once() -> None:
    cluster = Cluster()
    records = len(cluster.records)
    cluster.do(cluster.machine.join(Broker(NodeId(1)), cluster_id="other", secret=b"s"))

    assert cluster.machine.state.cluster_id == "cluster"
    assert len(cluster.records) == records


def test_a_broker_that_moves_to_another_rack_registers_again() -> None:
    cluster = Cluster()
    cluster.do(cluster.machine.join(Broker(NodeId(1), "r1"), cluster_id="", secret=b"s"))

    assert cluster.machine.state.brokers[NodeId(1)].rack == "r1"


@given(st.binary(), st.one_of(st.none(), st.binary()))
def test_a_record_of_a_newer_version_is_not_misread(key: bytes, value: bytes | None) -> None:
    try:
        CODEC.decode(key, value)
    except (DamagedData, ValueError, KafkaError) as stopped:
        assert str(stopped)  # noqa: PT017 - bytes that happen to be a record are fine
