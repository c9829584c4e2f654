"""Kafka's own Admin client: offsets, records, and the cluster, as its users see them."""

import time
from typing import Any

import pytest

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.codes import Code
from interop_tests.support.java_admin import Admin, code
from interop_tests.support.topics import Topics, fresh_name
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


@pytest.fixture
def admin(java: Worker, bootstrap: str) -> Admin:
    return Admin(java, bootstrap)


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
