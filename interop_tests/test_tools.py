"""Kafka's own command line tools, run as their scripts run them."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker, java_command

CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a tool ended and what it printed."""

    status: int
    out: str
    err: str


Tool = Callable[..., Ran]


@pytest.fixture
def tool(java: Worker, bootstrap: str) -> Tool:
    def run(name: str, *arguments: str, fails: bool = False, stdin: str = "") -> Ran:
        ran = Ran(**java.call("tool", bootstrap, **{"class": CLASSES[name]}, args=arguments, stdin=stdin))
        assert (ran.status != 0) == fails, f"{name} ended with {ran.status}\n{ran.out}\n{ran.err}"
        return ran

    return run


@pytest.fixture
def server(bootstrap: str) -> tuple[str, str]:
    return "--bootstrap-server", bootstrap


def test_kafka_topics_creates_lists_describes_alters_and_deletes(tool: Tool, server: tuple[str, str]) -> None:
    name = fresh_name()

    created = tool(
        "kafka-topics", *server, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=5000"
    )
    again = tool("kafka-topics", *server, "--create", "--topic", name, fails=True)
    tool("kafka-topics", *server, "--create", "--topic", name, "--if-not-exists")
    listed = tool("kafka-topics", *server, "--list")
    described = tool("kafka-topics", *server, "--describe", "--topic", name)
    tool("kafka-topics", *server, "--alter", "--topic", name, "--partitions", "5")
    until(
        lambda: "PartitionCount: 5" in tool("kafka-topics", *server, "--describe", "--topic", name).out, "it has grown"
    )
    under = tool("kafka-topics", *server, "--describe", "--under-replicated-partitions")
    tool("kafka-topics", *server, "--delete", "--topic", name)

    assert f"Created topic {name}." in created.out
    assert "already exists" in again.out + again.err
    assert name in listed.out.split()
    assert re.search(
        rf"Topic: {name}\s+TopicId: \S{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs:.*retention\.ms=5000",
        described.out,
    )
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described.out)) == 3
    assert name not in under.out
    until(lambda: name not in tool("kafka-topics", *server, "--list").out.split(), "it is gone")
    tool("kafka-topics", *server, "--describe", "--topic", name, fails=True)


def test_kafka_configs_describes_and_alters_topics_and_brokers(
    tool: Tool, server: tuple[str, str], topics: Topics
) -> None:
    name = topics.create()
    topic = ("--entity-type", "topics", "--entity-name", name)
    brokers = ("--entity-type", "brokers", "--entity-default")

    tool(
        "kafka-configs", *server, *topic, "--alter", "--add-config", "retention.ms=7000,cleanup.policy=[compact,delete]"
    )
    until(lambda: "retention.ms=7000" in tool("kafka-configs", *server, *topic, "--describe").out, "it is set")
    whole = tool("kafka-configs", *server, *topic, "--describe", "--all")
    tool("kafka-configs", *server, *topic, "--alter", "--delete-config", "retention.ms")
    until(lambda: "retention.ms" not in tool("kafka-configs", *server, *topic, "--describe").out, "it is deleted")
    refused = tool("kafka-configs", *server, *topic, "--alter", "--add-config", "no.such.config=1", fails=True)
    tool("kafka-configs", *server, *brokers, "--alter", "--add-config", "log.cleaner.backoff.ms=15003")
    until(
        lambda: "log.cleaner.backoff.ms=15003" in tool("kafka-configs", *server, *brokers, "--describe").out,
        "the default is set",
    )
    tool("kafka-configs", *server, *brokers, "--alter", "--delete-config", "log.cleaner.backoff.ms")

    assert "cleanup.policy=compact,delete" in whole.out
    assert "segment.bytes=1073741824" in whole.out
    assert "no.such.config" in refused.out + refused.err


def test_kafka_get_offsets_prints_every_kind_of_offset(
    tool: Tool, server: tuple[str, str], topics: Topics, bootstrap: str
) -> None:
    name = topics.create(partitions=2)
    times = (1000, 3000, 2000)
    Confluent().produce(
        bootstrap, name, [Message(value=b"v", partition=1, timestamp=1_700_000_000_000 + at) for at in times]
    )

    def offsets(when: str) -> list[str]:
        return sorted(tool("kafka-get-offsets", *server, "--topic", name, "--time", when).out.split())

    assert offsets("earliest") == [f"{name}:0:0", f"{name}:1:0"]
    assert offsets("latest") == [f"{name}:0:0", f"{name}:1:3"]
    assert offsets("max-timestamp") == [f"{name}:1:1"]
    assert offsets("1700000002500") == [f"{name}:1:1"]


def test_the_producer_perf_test_writes_what_it_says(
    tool: Tool, server: tuple[str, str], topics: Topics, bootstrap: str
) -> None:
    name = topics.create(partitions=2)

    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    produced = tool(
        "kafka-producer-perf-test",
        "--topic",
        name,
        *load,
        "--bootstrap-server",
        bootstrap,
        "--command-property",
        "compression.type=lz4",
    )

    assert re.search(r"20000 records sent, [\d.]+ records/sec", produced.out)
    assert sum(Confluent().watermarks(bootstrap, name, partition)[1] for partition in (0, 1)) == 20_000


def test_the_console_tools_write_and_read_lines(tool: Tool, server: tuple[str, str], topics: Topics) -> None:
    name = topics.create()
    with_keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    whole = ("--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "20000")

    tool("kafka-console-producer", *server, "--topic", name, *with_keys, stdin="a:1\nb:2\nc:3\n")
    read = tool("kafka-console-consumer", *server, "--topic", name, *whole, "--formatter-property", "print.key=true")

    assert read.out.splitlines() == ["a\t1", "b\t2", "c\t3"]


def test_the_verifiable_producer_has_its_records_acknowledged(server: tuple[str, str], topics: Topics) -> None:
    """It counts when its process ends, so it gets one of its own."""
    load = ("--topic", topics.create(), "--max-messages", "500", "--acks", "-1")

    command = [*java_command(CLASSES["kafka-verifiable-producer"]), *server, *load]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=True)

    summary = json.loads(ran.stdout.splitlines()[-1])
    assert (summary["name"], summary["sent"], summary["acked"]) == ("tool_data", 500, 500)


def test_kafka_log_dirs_prints_sizes(tool: Tool, server: tuple[str, str], topics: Topics, bootstrap: str) -> None:
    name = topics.create()
    Confluent().produce(bootstrap, name, [Message(value=b"x" * 10_000)])

    printed = tool("kafka-log-dirs", *server, "--describe", "--topic-list", name).out

    report = json.loads(printed[printed.index("{") :])
    [partition] = [
        entry for broker in report["brokers"] for place in broker["logDirs"] for entry in place["partitions"]
    ]
    assert partition["partition"] == f"{name}-0"
    assert 10_000 <= partition["size"] < 10_200
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_kafka_delete_records_moves_the_log_start(
    tool: Tool, server: tuple[str, str], topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    name = topics.create()
    Confluent().produce(bootstrap, name, [Message(value=b"v")] * 10)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 6}]}))

    ran = tool("kafka-delete-records", *server, "--offset-json-file", str(wanted))

    assert re.search(rf"partition: {name}-0\s+low_watermark: 6", ran.out)
    assert Confluent().watermarks(bootstrap, name, 0) == (6, 10)


def test_kafka_leader_election_finds_nothing_to_do(tool: Tool, server: tuple[str, str], topics: Topics) -> None:
    ran = tool(
        "kafka-leader-election", *server, "--election-type", "preferred", "--topic", topics.create(), "--partition", "0"
    )

    assert "Valid replica already elected" in ran.out


def test_kafka_reassign_partitions_plans_executes_verifies_and_lists(
    tool: Tool, server: tuple[str, str], topics: Topics, java: Worker, bootstrap: str, tmp_path: Path
) -> None:
    name = topics.create(partitions=2)
    node = java.call("describe_cluster", bootstrap)["controller"]
    what, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    what.write_text(json.dumps({"version": 1, "topics": [{"topic": name}]}))
    replicas = [{"topic": name, "partition": index, "replicas": [node], "log_dirs": ["any"]} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": replicas}))

    planned = tool(
        "kafka-reassign-partitions",
        *server,
        "--generate",
        "--topics-to-move-json-file",
        str(what),
        "--broker-list",
        str(node),
    )
    executed = tool("kafka-reassign-partitions", *server, "--execute", "--reassignment-json-file", str(plan))
    verified = tool("kafka-reassign-partitions", *server, "--verify", "--reassignment-json-file", str(plan))
    listed = tool("kafka-reassign-partitions", *server, "--list")

    assert "Proposed partition reassignment configuration" in planned.out
    assert "Successfully started" in executed.out
    assert f"Reassignment of partition {name}-0 is completed." in verified.out
    assert "No partition reassignments found." in listed.out


def test_kafka_metadata_quorum_describes_status_and_replication(
    tool: Tool, server: tuple[str, str], java: Worker, bootstrap: str
) -> None:
    node = java.call("describe_cluster", bootstrap)["controller"]

    status = tool("kafka-metadata-quorum", *server, "describe", "--status").out
    replication = tool("kafka-metadata-quorum", *server, "describe", "--replication").out

    assert re.search(rf"LeaderId:\s+{node}\n", status)
    assert re.search(r"HighWatermark:\s+\d+", status)
    assert re.search(r"ClusterId:\s+\S{22}", status)
    assert re.search(rf"^{node}\s.*Leader", replication, re.MULTILINE)


def test_kafka_features_cluster_and_api_versions_describe_the_broker(
    tool: Tool, server: tuple[str, str], bootstrap: str
) -> None:
    features = tool("kafka-features", *server, "describe").out
    cluster = tool("kafka-cluster", "cluster-id", *server).out
    versions = tool("kafka-broker-api-versions", *server).out

    assert re.search(
        r"Feature: metadata\.version\s.*SupportedMaxVersion: 4\.3-IV0\s+FinalizedVersionLevel: 4\.3-IV0", features
    )
    assert re.search(r"Cluster ID: \S{22}", cluster)
    assert f"{bootstrap} (id: " in versions
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", versions)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", versions)
