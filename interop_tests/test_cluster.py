"""Three brokers, one cluster: clients and Kafka's tools use it as they use Kafka's; brokers are killed, restarted, added and drained."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from interop_tests.support.broker import external
from interop_tests.support.clients.base import Client, Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.load import Load, check_promises, wait_for_progress
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
}
Tool = Callable[..., str]
PAUSE = 0.001  # seconds between two records: enough of them, and time left for the brokers' restarts

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to make a cluster of")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
        "leader.imbalance.check.interval.seconds": "2",
    }
    with cluster_of(tmp_path_factory.mktemp("cluster"), 3, settings) as started:
        yield started


def tool_on(java: Worker, cluster: Cluster) -> Tool:
    def run(name: str, *arguments: str) -> str:
        args = ("--bootstrap-server", cluster.bootstrap, *arguments)
        if name == "kafka-cluster":
            args = (*arguments, "--bootstrap-server", cluster.bootstrap)
        ran = java.call("tool", cluster.bootstrap, **{"class": TOOLS[name]}, args=args, stdin="")
        assert ran["status"] == 0, f"{name} ended with {ran['status']}\n{ran['out']}\n{ran['err']}"
        return str(ran["out"])

    return run


@pytest.fixture
def tool(java: Worker, cluster: Cluster) -> Tool:
    return tool_on(java, cluster)


def reassign(tool: Tool, file: Path, topic: str, *replicas: Sequence[int]) -> None:
    """Move a topic's partitions, and wait until they are there."""
    moves = [{"topic": topic, "partition": i, "replicas": list(nodes)} for i, nodes in enumerate(replicas)]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool("kafka-reassign-partitions", "--reassignment-json-file", str(file), "--execute")

    def is_done() -> bool:
        out = tool(
            "kafka-reassign-partitions", "--reassignment-json-file", str(file), "--verify", "--preserve-throttles"
        )
        return out.count("is completed") == len(moves)

    until(is_done, f"{topic} has moved", seconds=60)


# -- as clients see it -------------------------------------------------------------------------------------------------
def test_every_client_writes_to_and_reads_from_a_replicated_topic(cluster: Cluster, client: Client) -> None:
    topic = cluster.create(partitions=3)
    for partition in range(3):
        messages = [Message(value=b"%d" % number, partition=partition) for number in range(20)]
        # Any broker will do to begin with.
        bootstraps = [broker.bootstrap for broker in cluster.brokers.values()]
        client.produce(random.choice(bootstraps), topic, messages)

        found = client.consume(random.choice(bootstraps), topic, partition, start=0, count=20)
        assert [record.value for record in found] == [message.value for message in messages]


def test_kafkas_tools_tell_of_the_cluster_and_change_it(cluster: Cluster, tool: Tool, tmp_path: Path) -> None:
    topic = cluster.create(partitions=2)
    cluster.wait_in_sync(topic)

    described = tool("kafka-topics", "--describe", "--topic", topic)
    assert "ReplicationFactor: 3" in described
    assert tool("kafka-topics", "--describe", "--under-replicated-partitions").strip() == ""
    quorum = tool("kafka-metadata-quorum", "describe", "--status")
    assert all(f'"id": {node}' in quorum for node in (1, 2, 3))
    assert tool("kafka-metadata-quorum", "describe", "--replication").count("Follower") == 2

    reassign(tool, tmp_path / "moves", topic, [1, 2], [3, 1])
    assert [sorted(replicas) for _, replicas, _ in cluster.partitions(topic)] == [[1, 2], [1, 3]]
    reassign(tool, tmp_path / "moves", topic, [2, 3, 1], [3, 1, 2])
    tool("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert cluster.leader(topic, 0) == 2


# -- brokers come and go -----------------------------------------------------------------------------------------------
def test_nothing_acknowledged_is_lost_when_leaders_are_killed(cluster: Cluster) -> None:
    topic = cluster.create(partitions=6)
    with Load(cluster.bootstrap, topic, 6, idempotent=True, pause=PAUSE) as load:
        for _ in range(2):
            wait_for_progress([load], 500)
            victim = cluster.leader(topic, random.randrange(6))
            cluster.brokers[victim].kill()
            wait_for_progress([load], 500)
            cluster.start(victim)
            cluster.wait_in_sync(topic)
        load.finish()

    check_promises(load, cluster.bootstrap)


def test_no_produce_fails_when_brokers_are_restarted_one_by_one(cluster: Cluster) -> None:
    topic = cluster.create(partitions=6)
    with (
        Load(cluster.bootstrap, topic, 6, idempotent=True, pause=PAUSE) as load,
        Load(cluster.bootstrap, cluster.create(partitions=3), 3, idempotent=False, pause=PAUSE) as other,
    ):
        for number in (1, 2, 3):
            wait_for_progress([load, other], 200)
            assert cluster.brokers[number].stop() == 0
            wait_for_progress([load, other], 200)
            cluster.start(number)
            cluster.wait_in_sync(topic)
        until(
            lambda: all(leader == replicas[0] for leader, replicas, _ in cluster.partitions(topic)),
            "the preferred replicas lead again",
            seconds=30,
        )
        load.finish()
        other.finish()

    check_promises(load, cluster.bootstrap)
    check_promises(other, cluster.bootstrap)


def test_a_broker_joins_takes_its_share_and_is_drained(cluster: Cluster, tool: Tool, tmp_path: Path) -> None:
    topic = cluster.create(partitions=3)
    Confluent().produce(cluster.bootstrap, topic, [Message(value=b"before")])
    fourth = cluster.add(4, known=cluster.ports(1, 2))
    cluster.start(4)
    try:
        until(lambda: 4 in cluster.admin().list_topics(timeout=10).brokers, "the fourth broker is told of", seconds=30)
        reassign(tool, tmp_path / "moves", topic, [4, 1, 2], [2, 3, 4], [3, 4, 1])
        assert Confluent().watermarks(fourth.bootstrap, topic, 0) == (0, 1)

        entry = ConfigEntry("kompat.drain", "true", incremental_operation=AlterConfigOpType.SET)
        drained = ConfigResource(ResourceType.BROKER, "4", incremental_configs=[entry])
        admin = cluster.admin()
        admin.incremental_alter_configs([drained])[drained].result(30)
        until(lambda: all(4 not in r for _, r, _ in cluster.partitions(topic)), "it has nothing left", seconds=60)
        cluster.wait_in_sync(topic)
        assert fourth.stop() == 0
        tool("kafka-cluster", "unregister", "--id", "4")
    finally:
        fourth.close()
        del cluster.brokers[4]
    found = Confluent().consume(cluster.bootstrap, topic, 0, start=0, count=1)
    assert [record.value for record in found] == [b"before"]


def test_a_single_broker_becomes_a_cluster_while_clients_work(tmp_path: Path, java: Worker) -> None:
    with cluster_of(tmp_path / "grown", 0) as grown:
        alone = grown.add(1)
        alone.options = ()
        alone.start()
        topic = grown.create(partitions=2, factor=1)
        # A client that has only ever heard of one broker asks again, before it is left with nobody to ask.
        asks_often = {"topic.metadata.refresh.interval.ms": 500}
        with Load(alone.bootstrap, topic, 2, idempotent=True, pause=PAUSE, settings=asks_often) as load:
            wait_for_progress([load], 500)
            assert alone.stop() == 0
            grown.tell(1, grown.ports(1))
            grown.start(1)
            wait_for_progress([load], 200)
            for number in (2, 3):
                grown.add(number, known=grown.ports(1))
            grown.start(2, 3)
            reassign(tool_on(java, grown), tmp_path / "moves", topic, [1, 2, 3], [2, 3, 1])
            grown.wait_in_sync(topic)
            wait_for_progress([load], 1500)
            alone.kill()
            wait_for_progress([load], 200)
            load.finish()
        grown.brokers.pop(1).close()
        check_promises(load, grown.bootstrap)
