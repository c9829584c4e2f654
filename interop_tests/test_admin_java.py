"""Kafka's own Admin client: topics, configs, offsets and the cluster, as its users see them."""

import time
from typing import Any

import pytest

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.codes import Code
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import CallError, Worker

FEATURES = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 30,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAB7w"


class Admin:
    """The Java Admin client on one broker."""

    def __init__(self, worker: Worker, bootstrap: str) -> None:
        self._worker = worker
        self._bootstrap = bootstrap

    def call(self, verb: str, **arguments: Any) -> Any:
        return self._worker.call(verb, self._bootstrap, **arguments)

    def create(self, name: str, *, validate_only: bool = False, **wanted: Any) -> Any:
        [answer] = self.call("create_topics", topics=[{"name": name, **wanted}], validate_only=validate_only).values()
        return answer

    def describe(self, name: str) -> Any:
        return self.call("describe_topics", names=[name])[name]

    def partitions(self, name: str) -> int:
        described = self.describe(name)
        return 0 if "error" in described else len(described["partitions"])

    def configs(self, name: str, kind: str = "TOPIC") -> Any:
        return self.call("describe_configs", type=kind, name=name)

    def alter(
        self, name: str, *ops: tuple[str, str, str | None], kind: str = "TOPIC", validate_only: bool = False
    ) -> Any:
        [answer] = self.call("alter_configs", type=kind, name=name, ops=ops, validate_only=validate_only).values()
        return answer

    def value(self, name: str, config: str) -> Any:
        return self.configs(name)[config]["value"]

    def node(self) -> int:
        return int(self.call("describe_cluster")["controller"])


@pytest.fixture
def admin(java: Worker, bootstrap: str) -> Admin:
    return Admin(java, bootstrap)


def code(answer: Any) -> int:
    """The error of one answer, 0 for none."""
    return answer["error"]["code"] if isinstance(answer, dict) and "error" in answer else 0


def test_a_topic_is_created_with_the_brokers_defaults(admin: Admin) -> None:
    name = fresh_name()

    created = admin.create(name)

    until(lambda: admin.partitions(name) == 1, "the topic is there")
    described = admin.describe(name)
    node = admin.node()
    assert (created["partitions"], created["replication"]) == (1, 1)
    assert created["id"] == described["id"]
    assert created["configs"] > 20
    assert described["partitions"] == [{"partition": 0, "leader": node, "replicas": [node], "isr": [node]}]
    assert described["internal"] is False


def test_validate_only_checks_and_creates_nothing(admin: Admin) -> None:
    name = fresh_name()

    assert admin.create(name, validate_only=True, partitions=3)["partitions"] == 3
    assert code(admin.create(name, validate_only=True, partitions=-5)) == Code.INVALID_PARTITIONS

    assert name not in admin.call("list_topics")


def test_replicas_may_be_assigned_by_hand(admin: Admin) -> None:
    name, node = fresh_name(), admin.node()

    created = admin.create(name, assignment={"0": [node], "1": [node], "2": [node]})

    assert (created["partitions"], created["replication"]) == (3, 1)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"partitions": 0}, Code.INVALID_PARTITIONS),
        ({"replication": 3}, Code.INVALID_REPLICATION_FACTOR),
        ({"assignment": {"0": [99]}}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {"1": [1]}}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"configs": {"no.such.config": "1"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, Code.INVALID_CONFIG),
        ({"configs": {"segment.bytes": "1"}}, Code.INVALID_CONFIG),
        ({"configs": {"cleanup.policy": "burn"}}, Code.INVALID_CONFIG),
    ],
    ids=str,
)
def test_a_topic_that_cannot_be_is_refused(admin: Admin, wanted: dict[str, Any], expected: Code) -> None:
    name = fresh_name()

    assert code(admin.create(name, **wanted)) == expected

    assert name not in admin.call("list_topics")


@pytest.mark.parametrize("name", ["white space", ".", "..", "x" * 250, "sl/ash", "ключ"])
def test_a_name_outside_kafkas_letters_is_refused(admin: Admin, name: str) -> None:
    assert code(admin.create(name)) == Code.INVALID_TOPIC_EXCEPTION


def test_a_name_that_is_taken_is_refused(admin: Admin, topics: Topics) -> None:
    name = topics.create()

    answer = admin.create(name)

    assert code(answer) == Code.TOPIC_ALREADY_EXISTS
    assert name in answer["error"]["message"]


def test_names_that_differ_in_dots_and_underscores_only_collide(admin: Admin, topics: Topics) -> None:
    name = fresh_name("a.b")
    admin.create(name)

    assert code(admin.create(name.replace(".", "_"))) == Code.INVALID_TOPIC_EXCEPTION


def test_topics_are_described_by_name_and_by_id(admin: Admin, topics: Topics) -> None:
    name = topics.create(partitions=3)

    by_name = admin.describe(name)
    by_id = admin.call("describe_topics", ids=[by_name["id"]])[by_name["id"]]

    assert by_id == by_name
    assert [partition["partition"] for partition in by_id["partitions"]] == [0, 1, 2]
    assert code(admin.describe("no-such-topic")) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code(admin.call("describe_topics", ids=[UNKNOWN_ID])[UNKNOWN_ID]) == Code.UNKNOWN_TOPIC_ID


def test_partitions_only_ever_grow(admin: Admin, topics: Topics) -> None:
    name, node = topics.create(partitions=2), admin.node()

    def grow(count: int, **more: Any) -> int:
        return code(admin.call("create_partitions", topic=name, count=count, **more)[name])

    assert grow(3, validate_only=True) == 0
    assert admin.partitions(name) == 2
    assert grow(3) == 0
    assert grow(5, assignments=[[node], [node]]) == 0
    assert grow(6, assignments=[[99]]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert grow(7, assignments=[[node]]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert grow(5) == Code.INVALID_PARTITIONS
    assert grow(4) == Code.INVALID_PARTITIONS
    until(lambda: admin.partitions(name) == 5, "the topic has grown")
    assert (
        code(admin.call("create_partitions", topic="no-such-topic", count=2)["no-such-topic"])
        == Code.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_topic_configs_tell_value_source_type_and_where_it_comes_from(admin: Admin, topics: Topics) -> None:
    configs = admin.configs(topics.create(retention_ms=12345))

    retention = configs["retention.ms"]
    assert (retention["value"], retention["source"], retention["type"]) == ("12345", "DYNAMIC_TOPIC_CONFIG", "LONG")
    assert retention["synonyms"] == ["DYNAMIC_TOPIC_CONFIG:retention.ms=12345"]
    policy = configs["cleanup.policy"]
    assert (policy["value"], policy["source"], policy["type"]) == ("delete", "DEFAULT_CONFIG", "LIST")
    assert policy["synonyms"] == ["DEFAULT_CONFIG:log.cleanup.policy=delete"]
    assert all(
        config["documented"] and not config["read_only"] and not config["sensitive"] for config in configs.values()
    )


TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_a_new_topic_has_kafkas_configs_with_kafkas_defaults(admin: Admin, topics: Topics) -> None:
    configs = admin.configs(topics.create())

    assert {name: config["value"] for name, config in configs.items()} == TOPIC_DEFAULTS


def test_configs_are_set_deleted_appended_and_subtracted(admin: Admin, topics: Topics) -> None:
    name = topics.create(retention_ms=1000)

    assert admin.alter(name, ("SET", "retention.ms", "2000"), ("SET", "segment.ms", "3000")) is True
    until(lambda: admin.value(name, "segment.ms") == "3000", "segment.ms is set")
    assert admin.value(name, "retention.ms") == "2000"
    assert admin.alter(name, ("DELETE", "retention.ms", None), ("APPEND", "cleanup.policy", "compact")) is True
    until(lambda: admin.value(name, "cleanup.policy") == "delete,compact", "compact is appended to the default")
    assert admin.configs(name)["retention.ms"]["source"] == "DEFAULT_CONFIG"
    assert admin.alter(name, ("SUBTRACT", "cleanup.policy", "delete")) is True
    until(lambda: admin.value(name, "cleanup.policy") == "compact", "delete is subtracted")
    assert admin.value(name, "segment.ms") == "3000"


def test_configs_that_cannot_be_are_refused_and_nothing_changes(admin: Admin, topics: Topics) -> None:
    name = topics.create()

    assert code(admin.alter(name, ("SET", "no.such.config", "1"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("SET", "retention.ms", "soon"), ("SET", "segment.ms", "5"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("APPEND", "retention.ms", "5"))) == Code.INVALID_CONFIG
    assert code(admin.alter(name, ("SET", "retention.ms", "1"), ("SET", "retention.ms", "2"))) == Code.INVALID_REQUEST
    assert code(admin.alter("no-such-topic", ("SET", "retention.ms", "5"))) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.alter(name, ("SET", "retention.ms", "5"), validate_only=True) is True

    assert {config: entry["value"] for config, entry in admin.configs(name).items()} == TOPIC_DEFAULTS


def test_broker_configs_are_described_and_altered(admin: Admin) -> None:
    node = str(admin.node())
    configs = admin.configs(node, "BROKER")

    for known in (
        "log.retention.hours",
        "num.partitions",
        "message.max.bytes",
        "auto.create.topics.enable",
        "log.segment.bytes",
    ):
        assert configs[known]["documented"], known
    assert configs["node.id"]["read_only"] is True
    assert configs["log.retention.ms"]["read_only"] is False

    assert admin.alter(node, ("SET", "log.cleaner.backoff.ms", "15001"), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["value"] == "15001", "the broker's own value")
    assert admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DYNAMIC_BROKER_CONFIG"
    assert admin.alter("", ("SET", "log.cleaner.backoff.ms", "15002"), kind="BROKER") is True
    assert admin.alter(node, ("DELETE", "log.cleaner.backoff.ms", None), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["value"] == "15002", "the cluster's value")
    assert admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert admin.alter("", ("DELETE", "log.cleaner.backoff.ms", None), kind="BROKER") is True
    until(lambda: admin.configs(node, "BROKER")["log.cleaner.backoff.ms"]["source"] == "DEFAULT_CONFIG", "the default")
    assert code(admin.alter(node, ("SET", "node.id", "7"), kind="BROKER")) in (
        Code.INVALID_CONFIG,
        Code.INVALID_REQUEST,
    )
    assert code(admin.alter(node, ("SET", "log.cleaner.backoff.ms", "soon"), kind="BROKER")) in (
        Code.INVALID_CONFIG,
        Code.INVALID_REQUEST,
    )


def test_offsets_are_listed_by_every_kind_of_question(admin: Admin, topics: Topics, bootstrap: str) -> None:
    name = topics.create()
    base = 1_700_000_000_000
    # The largest timestamp is not the last record's.
    messages = [Message(value=b"v", timestamp=base + at) for at in (0, 5000, 9000, 2000)]

    def listed(spec: str) -> tuple[int, int]:
        found = admin.call("list_offsets", topic=name, partition=0, spec=spec)
        return found["offset"], found["timestamp"]

    assert listed("earliest") == (0, -1)
    assert listed("latest") == (0, -1)
    assert listed("max_timestamp") == (-1, -1)
    Confluent().produce(bootstrap, name, messages)

    assert listed("earliest") == (0, -1)
    assert listed("latest") == (4, -1)
    assert listed("max_timestamp") == (2, base + 9000)
    assert listed(str(base + 1)) == (1, base + 5000)
    assert listed(str(base + 5001)) == (2, base + 9000)
    assert listed(str(base + 9001)) == (-1, -1)
    with pytest.raises(CallError) as unknown:
        admin.call(
            "list_offsets",
            topic=name,
            partition=7,
            spec="latest",
            config={"default.api.timeout.ms": 2000, "request.timeout.ms": 1000},
        )
    assert unknown.value.code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.REQUEST_TIMED_OUT)


def test_records_are_deleted_up_to_an_offset(admin: Admin, topics: Topics, bootstrap: str) -> None:
    name = topics.create()
    Confluent().produce(bootstrap, name, [Message(value=str(i).encode()) for i in range(10)])

    def delete(before: int, partition: int = 0) -> Any:
        [answer] = admin.call("delete_records", topic=name, partition=partition, before=before).values()
        return answer

    assert delete(4) == 4
    assert Confluent().watermarks(bootstrap, name, 0) == (4, 10)
    assert delete(2) == 4
    assert code(delete(11)) == Code.OFFSET_OUT_OF_RANGE
    assert [record.offset for record in Confluent().consume(bootstrap, name, 0, start=4, count=6)] == list(range(4, 10))
    assert delete(-1) == 10
    assert Confluent().watermarks(bootstrap, name, 0) == (10, 10)
    assert Confluent().produce(bootstrap, name, [Message(value=b"next")]) == [10]


def test_topics_are_deleted_by_name_and_by_id_and_a_new_one_starts_empty(
    admin: Admin, topics: Topics, bootstrap: str
) -> None:
    first, second = topics.create(), topics.create()
    Confluent().produce(bootstrap, first, [Message(value=b"old")])
    old_id, second_id = admin.describe(first)["id"], admin.describe(second)["id"]

    assert admin.call("delete_topics", names=[first])[first] is True
    assert admin.call("delete_topics", ids=[second_id])[second_id] is True

    until(lambda: not {first, second} & set(admin.call("list_topics")), "both topics are gone")
    assert code(admin.call("delete_topics", names=[first])[first]) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code(admin.call("delete_topics", ids=[second_id])[second_id]) == Code.UNKNOWN_TOPIC_ID
    assert code(admin.create(first)) == 0
    topics.wait(first, 1)
    assert admin.describe(first)["id"] != old_id
    assert Confluent().watermarks(bootstrap, first, 0) == (0, 0)


def test_the_cluster_describes_itself(admin: Admin, bootstrap: str) -> None:
    cluster = admin.call("describe_cluster")
    quorum = admin.call("describe_quorum")
    features = admin.call("describe_features")

    node = cluster["controller"]
    assert len(cluster["id"]) == 22
    assert cluster["nodes"] == [f"{node}@{bootstrap}"]
    assert (quorum["leader"], quorum["voters"]) == (node, [node])
    assert quorum["high_watermark"] >= 0
    assert features["metadata.version"] == 30
    # A broker may lack a feature; what it has, it has at the level of a new cluster.
    assert features.items() <= FEATURES.items()


def test_log_dirs_tell_the_size_of_each_partition(admin: Admin, topics: Topics, bootstrap: str) -> None:
    name = topics.create(partitions=2)
    Confluent().produce(bootstrap, name, [Message(value=b"x" * 50_000)])

    replicas = admin.call("describe_log_dirs", broker=admin.node(), topic=name)

    sizes = {replica["partition"]: replica["size"] for replica in replicas}
    assert 50_000 <= sizes[0] < 51_000
    assert sizes[1] == 0
    assert {replica["lag"] for replica in replicas} == {0}


def test_producers_of_a_partition_are_told(admin: Admin, topics: Topics, bootstrap: str) -> None:
    name = topics.create()
    Confluent().produce(bootstrap, name, [Message(value=b"plain")])
    assert admin.call("describe_producers", topic=name, partition=0) == []

    Confluent().produce(bootstrap, name, [Message(value=b"counted")] * 3, idempotent=True)

    [producer] = admin.call("describe_producers", topic=name, partition=0)
    assert producer["id"] >= 0
    assert (producer["epoch"], producer["sequence"]) == (0, 2)


def test_elections_and_moves_make_sense_on_one_node(admin: Admin, topics: Topics) -> None:
    name, node = topics.create(), admin.node()
    where = {"topic": name, "partition": 0}

    def moved(replicas: list[int] | None) -> int:
        [answer] = admin.call("reassign", replicas=replicas, **where).values()
        return code(answer)

    [election] = admin.call("elect_leaders", election="PREFERRED", **where).values()
    assert election["code"] == Code.ELECTION_NOT_NEEDED
    assert moved([node]) == 0
    assert moved([99]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert moved(None) == Code.NO_REASSIGNMENT_IN_PROGRESS
    assert admin.call("list_reassignments") == []


def test_a_producer_creates_the_topic_it_writes_to(java: Worker, admin: Admin, bootstrap: str) -> None:
    name = fresh_name("auto")
    message = {"partition": 0, "key": None, "value": "dg==", "headers": [], "timestamp": int(time.time() * 1000)}

    [sent] = java.call("produce", bootstrap, topic=name, messages=[message])

    assert sent["offset"] == 0
    assert admin.partitions(name) == int(admin.configs(str(admin.node()), "BROKER")["num.partitions"]["value"])
