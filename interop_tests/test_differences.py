"""The same requests to kompat and to Apache Kafka: the answers may differ in nothing that a client can act on.

Runs where KOMPAT_TEST_ORACLE=host:port names a fresh single-node Apache Kafka 4.3.
"""

# ruff: noqa: B023 - a request made in a loop is sent before the loop goes on

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from interop_tests.support.broker import Broker
from interop_tests.support.pair import Pair, differences
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wire import Wire, batch, fetch_request, produce_request

ORACLE = os.environ.get("KOMPAT_TEST_ORACLE")
pytestmark = pytest.mark.skipif(not ORACLE, reason="KOMPAT_TEST_ORACLE names no Apache Kafka to compare with")

# Settings that a test cluster's file gives Kafka; as their source shows in answers, kompat is given them too.
GIVEN = ("default.replication.factor", "group.initial.rebalance.delay.ms")
TOPIC, BROKER = 2, 4
DEFAULT_CONFIG = 5
# Kafka 4 has no more use for it, but tools still read it.
KEPT = {"inter.broker.protocol.version"}
PLACES = {"log.dir", "metadata.log.dir"}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    assert ORACLE
    theirs = Topics(ORACLE).broker_configs()
    broker = Broker(tmp_path_factory.mktemp("kompat"), {name: theirs[name] for name in GIVEN})
    broker.options = ("--node-id", theirs["node.id"])
    try:
        broker.start()
        yield Pair(broker.bootstrap, ORACLE)
    finally:
        broker.close()


@pytest.fixture
def pair(both: Pair) -> Pair:
    both.found = []
    return both


def test_the_apis_they_share_have_the_same_versions(pair: Pair) -> None:
    ours, theirs = pair.answers(
        lambda _: ApiVersionsRequest(client_software_name="diff", client_software_version="1"), 4
    )

    apis = {api["api_key"]: (api["min_version"], api["max_version"]) for api in ours["api_keys"]}
    kafkas = {api["api_key"]: (api["min_version"], api["max_version"]) for api in theirs["api_keys"]}
    different = {key: (versions, kafkas.get(key)) for key, versions in apis.items() if versions != kafkas.get(key)}
    assert different == {}


CREATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no partitions": {"num_partitions": 0},
    "too many replicas": {"replication_factor": 3},
    "no replicas": {"replication_factor": 0},
    "assigned": {"assignments": [(0, [1]), (1, [1])]},
    "assigned to a stranger": {"assignments": [(0, [9])]},
    "assigned twice": {"assignments": [(0, [1, 1])]},
    "assigned with a hole": {"assignments": [(0, [1]), (2, [1])]},
    "assigned to nobody": {"assignments": [(0, [])]},
    "assigned and counted": {"assignments": [(0, [1])], "num_partitions": 1},
    "unknown config": {"configs": [("a.b", "1")]},
    "invalid config": {"configs": [("retention.ms", "x")]},
    "null config": {"configs": [("retention.ms", None)]},
    "configs": {"configs": [("retention.ms", "5"), ("cleanup.policy", "compact, delete"), ("preallocate", "TRUE")]},
    "invalid pair": {"configs": [("retention.ms", "5"), ("local.retention.ms", "6")]},
}


def test_topics_are_created_alike(pair: Pair) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    for title, wanted in CREATIONS.items():
        name = fresh_name("diff")
        assignments = [
            topic.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in wanted.get("assignments", [])
        ]
        configs = [topic.CreatableTopicConfig(name=key, value=value) for key, value in wanted.get("configs", [])]
        usual = {"name": name, "num_partitions": -1, "replication_factor": -1}
        asked = topic(**{**usual, **wanted, "assignments": assignments, "configs": configs})
        for validate_only in (True, False):
            pair.ask(
                title,
                lambda _: CreateTopicsRequest(topics=[asked], timeout_ms=10_000, validate_only=validate_only),
                7,
                5,
                4,
            )
    pair.agree()


def describe(kind: int, name: str, keys: list[str] | None = None, *, synonyms: bool = True) -> Callable[[Wire], Any]:
    return lambda _: DescribeConfigsRequest(
        resources=[(kind, name, keys)], include_synonyms=synonyms, include_documentation=False
    )


def test_topic_configs_are_described_alike(pair: Pair) -> None:
    name = pair.topic(retention_ms="5", cleanup_policy="compact")
    for kind, resource in (
        (TOPIC, name),
        (TOPIC, "no-such-topic"),
        (TOPIC, ""),
        (77, name),
        (BROKER, "9"),
        (BROKER, "x"),
    ):
        pair.ask(f"{kind} {resource!r}", describe(kind, resource), 1, 4)
    pair.ask("some", describe(TOPIC, name, ["retention.ms", "nonsense"], synonyms=False), 1, 4)
    pair.ask("none", describe(TOPIC, name, []), 1, 4)
    pair.agree()


def test_broker_configs_that_nobody_set_are_described_alike(pair: Pair) -> None:
    ours, theirs = pair.answers(describe(BROKER, "1", synonyms=False), 4)

    kompats = {config["name"]: config for config in ours["results"][0]["configs"]}
    kafkas = {config["name"]: config for config in theirs["results"][0]["configs"]}
    own = {name for name in kompats.keys() - kafkas.keys() - KEPT if not name.startswith("kompat.")}
    for name, config in kafkas.items():
        if name in kompats and config["config_source"] == DEFAULT_CONFIG and name not in PLACES:
            pair.found += differences(kompats[name] | {"config_source": DEFAULT_CONFIG}, config, name)
    pair.agree()
    assert own == set()


ALTERATIONS: dict[str, list[tuple[str, int, str | None]]] = {
    "set": [("retention.ms", SET, "5")],
    "set twice": [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
    "set null": [("retention.ms", SET, None)],
    "set unknown": [("a.b", SET, "1")],
    "set invalid": [("retention.ms", SET, "x")],
    "delete unset": [("segment.ms", DELETE, None)],
    "delete unknown": [("a.b", DELETE, None)],
    "append": [("cleanup.policy", APPEND, "compact")],
    "append again": [("cleanup.policy", APPEND, "compact")],
    "append to a number": [("retention.ms", APPEND, "7")],
    "subtract": [("cleanup.policy", SUBTRACT, "delete")],
    "subtract absent": [("cleanup.policy", SUBTRACT, "nothing")],
    "nothing": [],
}


def alter(name: str, operations: list[tuple[str, int, str | None]]) -> Callable[[Wire], Any]:
    return lambda _: IncrementalAlterConfigsRequest(resources=[(TOPIC, name, operations)], validate_only=False)


def replace(name: str) -> Callable[[Wire], Any]:
    return lambda _: AlterConfigsRequest(resources=[(TOPIC, name, [("segment.ms", "9")])], validate_only=False)


def test_configs_are_altered_alike(pair: Pair) -> None:
    name = pair.topic()
    for title, operations in ALTERATIONS.items():
        pair.ask(title, alter(name, operations), 0, 1)
        configs_agree(pair, name, title)
    pair.ask("replace", replace(name), 0, 2)
    configs_agree(pair, name, "replace")
    pair.ask("replace in no topic", replace("no-such-topic"), 2)
    pair.ask("set in no topic", alter("no-such-topic", ALTERATIONS["set"]), 1)
    pair.agree()


def configs_agree(pair: Pair, name: str, title: str) -> None:
    """Kafka shows a change a moment after it has confirmed it."""
    deadline = time.monotonic() + 5
    while (
        found := list(differences(*pair.answers(describe(TOPIC, name), 4), f"after {title}"))
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    pair.found += found


def test_partitions_are_added_alike(pair: Pair) -> None:
    name = pair.topic(partitions=2)
    for title, topic, count, assignments in (
        ("as many", name, 2, None),
        ("fewer", name, 1, None),
        ("one more", name, 3, [([1],)]),
        ("too few assignments", name, 5, [([1],)]),
        ("a stranger", name, 4, [([9],)]),
        ("twice the same", name, 4, [([1, 1],)]),
        ("no topic", "no-such-topic", 3, None),
        ("far too many", name, 100_000_000, [([1],)]),
    ):
        asked = (topic, count, assignments)
        pair.ask(title, lambda _: CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=False), 0, 3)
    pair.agree()


def test_produce_is_answered_alike(pair: Pair) -> None:
    name = pair.topic()
    compacted = pair.topic(cleanup_policy="compact")
    good = batch([b"a"], timestamp=1000)
    damaged = bytearray(good)
    damaged[-2] ^= 1
    for title, topic, records, partition, acks in (
        ("good", name, good, 0, -1),
        ("no such partition", name, good, 7, -1),
        ("negative partition", name, good, -1, -1),
        ("no such topic", "no-such-topic", good, 0, -1),
        ("bad name", "a b", good, 0, -1),
        ("damaged", name, bytes(damaged), 0, -1),
        ("cut off", name, good[:-3], 0, -1),
        ("two batches", name, good * 2, 0, -1),
        ("empty", name, b"", 0, -1),
        ("no key", compacted, good, 0, -1),
        ("acks of two", name, good, 0, 2),
        ("old format", name, good[:16] + b"\x01" + good[17:], 0, -1),
        ("sequence without producer", name, batch([b"a"], timestamp=1000, sequence=0), 0, -1),
    ):
        pair.ask(title, lambda _: produce_request(topic, records, partition=partition, acks=acks), 3, 8, 12)
    pair.agree()


def test_fetch_is_answered_alike(pair: Pair) -> None:
    name = pair.topic()
    for wire in pair.wires.values():
        for at in range(3):
            wire.produce(name, batch([b"a", b"b"], timestamp=1000 + at))
    for topic, offset, partition in (
        (name, 0, 0),
        (name, 3, 0),
        (name, 6, 0),
        (name, 7, 0),
        (name, -1, 0),
        (name, 0, 5),
        ("no-such-topic", 0, 0),
    ):
        pair.ask(
            f"{topic}-{partition} at {offset}",
            lambda _: fetch_request(topic, offset, partition=partition),
            4,
            7,
            10,
            11,
            12,
        )
    for isolation in (0, 1):
        pair.ask("little", lambda _: fetch_request(name, 1, isolation=isolation, partition_max_bytes=1), 11)
    pair.agree()


def test_offsets_are_listed_alike(pair: Pair) -> None:
    name = pair.topic(partitions=2)
    for wire in pair.wires.values():
        wire.produce(name, batch([b"a"], timestamp=5000))
        wire.produce(name, batch([b"b"], timestamp=3000))
    topic = ListOffsetsRequest.ListOffsetsTopic
    for partition, when in itertools.product((0, 1, 9), (-1, -2, -3, -4, -5, -6, 0, 3000, 4000, 5000, 5001)):
        wanted = topic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=when)
        asked = topic(name=name, partitions=[wanted])
        pair.ask(
            f"partition {partition} at {when}",
            lambda _: ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked], timeout_ms=1000),
            *(1, 5, 7, 9, 10, 11),
        )
    pair.agree()


def test_records_are_deleted_alike(pair: Pair) -> None:
    name = pair.topic()
    for wire in pair.wires.values():
        wire.produce(name, batch([b"a"] * 10, timestamp=1000))
    for partition, offset in ((0, 3), (0, 2), (0, 11), (0, -2), (0, -1), (9, 0)):
        asked = (name, [(partition, offset)])
        pair.ask(f"{partition} before {offset}", lambda _: DeleteRecordsRequest(topics=[asked], timeout_ms=5000), 0, 2)
    pair.ask("no topic", lambda _: DeleteRecordsRequest(topics=[("no-such-topic", [(0, 0)])], timeout_ms=5000), 2)
    pair.agree()


def test_metadata_is_answered_alike(pair: Pair) -> None:
    name = pair.topic(partitions=3)
    known = MetadataRequest.MetadataRequestTopic
    for topic in (name, "no-such-topic", "a b", ""):
        # The oldest versions cannot say that nothing is to be created.
        pair.ask(
            repr(topic),
            lambda _: MetadataRequest(topics=[known(name=topic)], allow_auto_topic_creation=False),
            4,
            8,
            10,
            12,
            13,
        )
    pair.ask("known, old", lambda _: MetadataRequest(topics=[known(name=name)]), 0, 1, 2, 3)
    pair.ask("no topics", lambda _: MetadataRequest(topics=[]), 1, 5, 9)
    stranger = uuid.UUID(int=77)
    pair.ask(
        "by id",
        lambda _: MetadataRequest(topics=[known(name=None, topic_id=stranger)], allow_auto_topic_creation=False),
        12,
        13,
    )
    pair.agree()


def test_the_rest_is_answered_alike(pair: Pair) -> None:
    name = pair.topic(partitions=2)
    for wire in pair.wires.values():
        wire.produce(name, batch([b"a"] * 3, timestamp=1000))
    epochs = [(name, [(0, -1, 0), (1, -1, 0), (9, -1, 0), (0, -1, 5)])]
    elections = [(name, [0, 9]), ("no-such-topic", [0])]

    pair.ask("epochs", lambda _: OffsetForLeaderEpochRequest(replica_id=-2, topics=epochs), 2, 3, 4)
    pair.ask("producers", lambda _: DescribeProducersRequest(topics=[(name, [0, 9]), ("no-such-topic", [0])]), 0)
    pair.ask("log dirs", lambda _: DescribeLogDirsRequest(topics=[(name, [0, 1])]), 1, 3, 4)
    pair.ask(
        "preferred",
        lambda _: ElectLeadersRequest(election_type=0, topic_partitions=elections, timeout_ms=5000),
        0,
        1,
        2,
    )
    pair.ask(
        "unclean", lambda _: ElectLeadersRequest(election_type=1, topic_partitions=[(name, [0])], timeout_ms=5000), 1, 2
    )
    pair.ask("moves", lambda _: ListPartitionReassignmentsRequest(timeout_ms=5000, topics=None), 0)
    pair.ask("its moves", lambda _: ListPartitionReassignmentsRequest(timeout_ms=5000, topics=[(name, [0])]), 0)
    pair.ask(
        "cluster",
        lambda _: DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=1),
        0,
        1,
        2,
    )
    pair.ask("no such resource", lambda _: ListConfigResourcesRequest(resource_types=[77]), 1)
    described = DescribeTopicPartitionsRequest.TopicRequest
    asked = [described(name=name), described(name="no-such-topic")]
    pair.ask(
        "partitions",
        lambda _: DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2000, cursor=None),
        0,
    )
    pair.agree()


def test_moves_are_refused_alike(pair: Pair) -> None:
    name = pair.topic()
    for replicas in ([1], [9], [1, 1], [], None):
        asked = [(name, [(0, replicas), (9, replicas)]), ("no-such-topic", [(0, replicas)])]
        pair.ask(f"to {replicas}", lambda _: AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=asked), 0)
    pair.agree()


def test_unknown_topics_are_deleted_alike(pair: Pair) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    for title, topic in (("name", state(name="no-such-topic")), ("id", state(name=None, topic_id=uuid.UUID(int=77)))):
        pair.ask(title, lambda _: DeleteTopicsRequest(topics=[topic], timeout_ms=5000), 6)
    pair.ask("names", lambda _: DeleteTopicsRequest(topic_names=["no-such-topic"], timeout_ms=5000), 1, 3, 5)
    pair.agree()
