"""Administration with the clients that are not Kafka's own: each walks through a topic's life."""

import json
import uuid
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.errors import TopicAlreadyExistsError, UnknownTopicIdError, UnknownTopicOrPartitionError

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.clients.foreign import Go
from interop_tests.support.clients.kcat import run as kcat
from interop_tests.support.codes import Code
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import CallError, Worker

SECONDS = 20


def fill(bootstrap: str, topic: str) -> None:
    base = 1_700_000_000_000
    Confluent().produce(bootstrap, topic, [Message(value=b"v", timestamp=base + at) for at in (1, 2, 9, 4, 5, 6)])


class TestConfluent:
    """librdkafka's admin API."""

    @pytest.fixture
    def admin(self, bootstrap: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": bootstrap})

    def values(self, admin: AdminClient, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        [future] = admin.describe_configs([resource]).values()
        return {entry.name: entry.value for entry in future.result(SECONDS).values()}

    def alter(self, admin: AdminClient, name: str, *entries: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(entries))
        [future] = admin.incremental_alter_configs([resource]).values()
        future.result(SECONDS)

    def test_a_topic_is_created_once_described_grown_and_deleted(self, admin: AdminClient, topics: Topics) -> None:
        name = fresh_name()
        wanted = NewTopic(name, 2, 1, config={"retention.ms": "5000"})

        admin.create_topics([wanted], validate_only=True)[name].result(SECONDS)
        assert name not in admin.list_topics(timeout=SECONDS).topics
        admin.create_topics([wanted])[name].result(SECONDS)
        topics.wait(name, 2)
        with pytest.raises(KafkaException) as taken:
            admin.create_topics([wanted])[name].result(SECONDS)
        described = admin.describe_topics(TopicCollection([name]))[name].result(SECONDS)
        admin.create_partitions([NewPartitions(name, 4)])[name].result(SECONDS)
        topics.wait(name, 4)
        admin.delete_topics([name])[name].result(SECONDS)

        assert taken.value.args[0].code() == Code.TOPIC_ALREADY_EXISTS
        assert [partition.id for partition in described.partitions] == [0, 1]
        assert all(
            partition.leader.id == partition.replicas[0].id == partition.isr[0].id for partition in described.partitions
        )
        until(lambda: name not in admin.list_topics(timeout=SECONDS).topics, "it is gone")

    def test_configs_are_changed_one_by_one(self, admin: AdminClient, topics: Topics) -> None:
        name = topics.create(retention_ms=5000)

        self.alter(
            admin,
            name,
            ConfigEntry("segment.ms", "6000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        )
        until(lambda: self.values(admin, name)["cleanup.policy"] == "delete,compact", "the change is seen")
        values = self.values(admin, name)
        self.alter(
            admin, name, ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT)
        )
        with pytest.raises(KafkaException) as invalid:
            self.alter(admin, name, ConfigEntry("segment.ms", "soon", incremental_operation=AlterConfigOpType.SET))

        assert (values["segment.ms"], values["retention.ms"]) == ("6000", "604800000")
        assert invalid.value.args[0].code() == Code.INVALID_CONFIG
        until(lambda: self.values(admin, name)["cleanup.policy"] == "compact", "delete is subtracted")

    def test_the_old_way_to_alter_replaces_all_configs(self, admin: AdminClient, topics: Topics) -> None:
        name = topics.create(retention_ms=5000, segment_ms=6000)
        resource = ConfigResource(ResourceType.TOPIC, name, set_config={"retention.ms": "7000"})

        with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
            [future] = admin.alter_configs([resource]).values()
        future.result(SECONDS)

        until(lambda: self.values(admin, name)["retention.ms"] == "7000", "the new value is seen")
        assert self.values(admin, name)["segment.ms"] == "604800000"

    def test_offsets_are_listed_and_records_deleted(self, admin: AdminClient, topics: Topics, bootstrap: str) -> None:
        name = topics.create()
        fill(bootstrap, name)

        def offset(spec: OffsetSpec) -> int:
            [future] = admin.list_offsets({ConfluentPartition(name, 0): spec}).values()
            return int(future.result(SECONDS).offset)

        assert [offset(spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())] == [
            0,
            6,
            2,
        ]
        assert offset(OffsetSpec.for_timestamp(1_700_000_000_003)) == 2
        [future] = admin.delete_records([ConfluentPartition(name, 0, 4)]).values()
        assert future.result(SECONDS).low_watermark == 4
        assert offset(OffsetSpec.earliest()) == 4
        [future] = admin.delete_records([ConfluentPartition(name, 0, 7)]).values()
        with pytest.raises(KafkaException) as beyond:
            future.result(SECONDS)
        assert beyond.value.args[0].code() == Code.OFFSET_OUT_OF_RANGE

    def test_the_cluster_is_described(self, admin: AdminClient, bootstrap: str) -> None:
        cluster = admin.describe_cluster().result(SECONDS)

        assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
        assert cluster.controller.id == cluster.nodes[0].id
        assert admin.list_topics(timeout=SECONDS).cluster_id == cluster.cluster_id


class TestKafkaPython:
    """kafka-python's admin client."""

    @pytest.fixture
    def admin(self, bootstrap: str) -> Any:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            yield admin

    def values(self, admin: KafkaAdminClient, name: str) -> dict[str, str]:
        described = admin.describe_configs([PythonResource("TOPIC", name)], config_filter="all")
        return {config: entry["value"] for config, entry in described["topic"][name].items()}

    def test_a_topic_is_created_once_described_grown_and_deleted(self, admin: KafkaAdminClient, topics: Topics) -> None:
        name = fresh_name()
        node = admin.describe_cluster()["controller_id"]
        by_hand = {name: {"assignments": {0: [node], 1: [node]}, "configs": {"retention.ms": "5000"}}}

        admin.create_topics(by_hand, validate_only=True)
        assert name not in admin.list_topics()
        admin.create_topics(by_hand, wait_for_metadata=True)
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([name])
        admin.create_partitions({name: 3})
        topics.wait(name, 3)
        [described] = admin.describe_topics([name])
        topic_id = uuid.UUID(str(described["topic_id"]))
        [by_id] = admin.describe_topics([topic_id])
        admin.delete_topics([topic_id])

        assert by_id["name"] == name
        assert [partition["leader_id"] for partition in by_id["partitions"]] == [node] * 3
        until(lambda: name not in admin.list_topics(), "it is gone")
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([name])
        with pytest.raises(UnknownTopicIdError):
            admin.delete_topics([topic_id])

    @pytest.mark.parametrize("incremental", [True, False])
    def test_configs_are_changed(self, admin: KafkaAdminClient, topics: Topics, incremental: bool) -> None:
        name = topics.create(retention_ms=5000)

        admin.alter_configs([PythonResource("TOPIC", name, {"segment.ms": "6000"})], incremental=incremental)

        until(lambda: self.values(admin, name)["segment.ms"] == "6000", "the change is seen")
        assert self.values(admin, name)["retention.ms"] == "5000"

    def test_records_are_deleted_and_log_dirs_and_producers_described(
        self, admin: KafkaAdminClient, topics: Topics, bootstrap: str
    ) -> None:
        name = topics.create()
        fill(bootstrap, name)
        where = TopicPartition(name, 0)

        deleted = admin.delete_records({where: 4})

        assert deleted[where]["low_watermark"] == 4
        [broker] = admin.describe_log_dirs({name: [0]})
        [log_dir] = broker["log_dirs"]
        assert log_dir["topics"][0]["partitions"][0]["partition_size"] > 0
        assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0
        found = admin.describe_topic_partitions([name])
        assert name in json.dumps(found, default=str)

    def test_quorum_and_features_are_described(self, admin: KafkaAdminClient) -> None:
        node = admin.describe_cluster()["controller_id"]

        assert f'"leader_id": {node}' in json.dumps(admin.describe_metadata_quorum(), default=str)
        assert admin.describe_features()["metadata.version"]["finalized"][1] == 30
        assert admin.list_partition_reassignments() in ({}, [], None)


class TestAioKafka:
    """aiokafka's admin client, which speaks older versions."""

    async def test_a_topic_lives_and_dies(self, topics: Topics, bootstrap: str) -> None:
        name = fresh_name()
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            created = await admin.create_topics([AioNewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})])
            taken = await admin.create_topics([AioNewTopic(name, 2, 1)])
            topics.wait(name, 2)
            await admin.create_partitions({name: AioNewPartitions(3)})
            topics.wait(name, 3)
            [described] = await admin.describe_topics([name])
            [configs] = await admin.describe_configs([AioResource(AioResourceType.TOPIC, name)])
            fill(bootstrap, name)
            deleted = await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=4)})
            await admin.delete_topics([name])
        finally:
            await admin.close()

        assert created.topic_errors[0][1] == 0
        assert taken.topic_errors[0][1] == Code.TOPIC_ALREADY_EXISTS
        assert len(described["partitions"]) == 3
        assert "5000" in [entry[1] for entry in configs.resources[0][4] if entry[0] == "retention.ms"]
        assert list(deleted.values()) == [4]
        until(lambda: name not in topics.names(), "it is gone")


@pytest.mark.parametrize("library", ["franz", "sarama"])
def test_go_clients_walk_through_a_topics_life(library: str, golang: Worker, topics: Topics, bootstrap: str) -> None:
    client, name = Go(library, golang), fresh_name(library)

    client.call("create_topic", bootstrap, topic=name, count=2, configs={"retention.ms": "5000"})
    topics.wait(name, 2)
    with pytest.raises(CallError) as taken:
        client.call("create_topic", bootstrap, topic=name, count=2)
    client.call("create_partitions", bootstrap, topic=name, count=4)
    topics.wait(name, 4)
    with pytest.raises(CallError) as fewer:
        client.call("create_partitions", bootstrap, topic=name, count=3)
    client.call("set_configs", bootstrap, topic=name, configs={"segment.ms": "6000", "retention.ms": None})
    until(lambda: client.call("describe_configs", bootstrap, topic=name)["segment.ms"] == "6000", "the change is seen")
    configs = client.call("describe_configs", bootstrap, topic=name)
    fill(bootstrap, name)
    client.call("delete_records", bootstrap, topic=name, partition=0, start=4)
    marks = client.watermarks(bootstrap, name, 0)
    listed = client.call("list_topics", bootstrap)
    client.call("delete_topics", bootstrap, names=[name])

    assert taken.value.code == Code.TOPIC_ALREADY_EXISTS
    assert fewer.value.code == Code.INVALID_PARTITIONS
    assert configs["retention.ms"] == "604800000"
    assert marks == (4, 6)
    assert listed[name] == 4
    until(lambda: name not in client.call("list_topics", bootstrap), "it is gone")


def test_kcat_lists_the_cluster(topics: Topics, bootstrap: str) -> None:
    name = topics.create(partitions=3)

    listed = json.loads(kcat("-L", "-J", "-b", bootstrap).stdout)
    one = json.loads(kcat("-L", "-J", "-b", bootstrap, "-t", name).stdout)

    [broker] = listed["brokers"]
    assert broker["name"] == bootstrap
    assert name in [topic["topic"] for topic in listed["topics"]]
    [topic] = one["topics"]
    assert [(partition["partition"], partition["leader"]) for partition in topic["partitions"]] == [
        (i, broker["id"]) for i in range(3)
    ]
