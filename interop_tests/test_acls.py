"""ACLs and quotas as operators use them: Kafka's own tools set them, stock clients are held to them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from interop_tests.support.broker import Broker, free_port
from interop_tests.support.cluster import Cluster
from interop_tests.support.secured import ADMIN, ALICE, FIRST_USERS, Way
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GUARDED = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "kompat.bootstrap.scram": FIRST_USERS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
Tool = Callable[..., tuple[int, str]]


def _way(bootstrap: str, user: tuple[str, str]) -> Way:
    return Way("SASL_PLAINTEXT", bootstrap, "SCRAM-SHA-256", *user)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    port = free_port()
    settings = GUARDED | {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}"}
    started = Broker(tmp_path_factory.mktemp("guarded"), settings)
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient(_way(broker.bootstrap, ADMIN).librdkafka())


@pytest.fixture
def tool(java: Worker, broker: Broker, tmp_path: Path) -> Tool:
    """One of Kafka's, run by somebody: its exit status, and what it printed."""
    numbers = itertools.count()

    def run(user: tuple[str, str], name: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        config = _way(broker.bootstrap, user).java(tmp_path / f"client-{next(numbers)}.properties")
        args = ("--bootstrap-server", broker.bootstrap, "--command-config", config, *arguments)
        ran = java.call("tool", broker.bootstrap, **{"class": name}, args=args, stdin=stdin, seconds=60.0)
        return ran["status"], ran["out"] + ran["err"]

    return run


def _new_topic(admin: AdminClient) -> str:
    name = fresh_name("guarded")
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    return name


# -- ACLs ---------------------------------------------------------------------------------------------------------------
def test_kafka_acls_lets_a_producer_and_a_consumer_in_and_out_again(admin: AdminClient, tool: Tool) -> None:
    topic = _new_topic(admin)
    alice = ("--allow-principal", "User:alice", "--topic", topic)
    read = ("--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
    _, said = tool(ALICE, PRODUCER, "--topic", topic, stdin="one\n")
    assert "TopicAuthorizationException" in said

    status, said = tool(ADMIN, ACLS, "--add", "--producer", *alice)
    assert status == 0, said
    status, said = tool(ADMIN, ACLS, "--add", "--consumer", *alice, "--group", topic)
    assert status == 0, said

    status, said = tool(ALICE, PRODUCER, "--topic", topic, stdin="two\n")
    assert (status, "Exception" in said) == (0, False), said
    status, said = tool(ALICE, CONSUMER, *read)
    assert said.startswith("two\n"), said
    status, said = tool(ADMIN, ACLS, "--list", "--topic", topic)
    assert all(f"operation={each}, permissionType=ALLOW" in said for each in ("READ", "WRITE", "CREATE", "DESCRIBE"))

    status, said = tool(ADMIN, ACLS, "--remove", "--force", "--topic", topic)
    assert status == 0, said
    _, said = tool(ALICE, CONSUMER, *read)
    assert "TopicAuthorizationException" in said


def test_nobody_but_an_administrator_changes_acls(tool: Tool) -> None:
    for action in (("--list",), ("--add", "--allow-principal", "User:alice", "--operation", "All", "--cluster")):
        status, said = tool(ALICE, ACLS, *action)
        assert status != 0
        assert "ClusterAuthorizationException" in said


def _binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)


def _allow(admin: AdminClient, *bindings: AclBinding) -> None:
    for outcome in admin.create_acls(list(bindings)).values():
        outcome.result(20)


def test_librdkafka_makes_finds_and_removes_acls(admin: AdminClient) -> None:
    topic = fresh_name("bound")
    wanted = _binding(ResourceType.TOPIC, topic, AclOperation.READ)
    everything = AclBindingFilter(
        ResourceType.ANY, topic, ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )

    _allow(admin, wanted)

    assert admin.describe_acls(everything).result(20) == [wanted]
    assert [outcome.result(20) for outcome in admin.delete_acls([everything]).values()] == [[wanted]]
    assert admin.describe_acls(everything).result(20) == []


def _consumed(settings: dict[str, Any], topic: str) -> KafkaError | bytes:
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        [message] = consumer.consume(1, 20)
        return message.error() or bytes(message.value() or b"")
    except KafkaException as error:
        return error.args[0]
    finally:
        consumer.close()


def test_a_consumer_is_told_what_it_lacks_until_it_has_it(broker: Broker, admin: AdminClient) -> None:
    topic = _new_topic(admin)
    producer = Producer(_way(broker.bootstrap, ADMIN).librdkafka())
    producer.produce(topic, b"for alice")
    assert producer.flush(20) == 0
    alice = _way(broker.bootstrap, ALICE).librdkafka()
    reads = AclOperation.READ

    refused = _consumed(alice, topic)
    assert isinstance(refused, KafkaError)
    assert refused.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    _allow(admin, _binding(ResourceType.TOPIC, topic, reads))
    refused = _consumed(alice, topic)
    assert isinstance(refused, KafkaError)
    assert refused.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    _allow(admin, _binding(ResourceType.GROUP, topic, reads))
    assert _consumed(alice, topic) == b"for alice"


# -- quotas -------------------------------------------------------------------------------------------------------------
def test_kafka_configs_sets_shows_and_removes_quotas(tool: Tool) -> None:
    both = ("--entity-type", "users", "--entity-name", "quoted", "--entity-type", "clients", "--entity-default")
    ip = ("--entity-type", "ips", "--entity-name", "10.1.2.3")

    for entity, quota in ((both, "producer_byte_rate=1024,request_percentage=50"), (ip, "connection_creation_rate=7")):
        status, said = tool(ADMIN, CONFIGS, "--alter", *entity, "--add-config", quota)
        assert status == 0, said
    _, said = tool(ADMIN, CONFIGS, "--describe", *both)
    assert "producer_byte_rate=1024.0" in said
    assert "request_percentage=50.0" in said
    _, said = tool(ADMIN, CONFIGS, "--describe", *ip)
    assert "connection_creation_rate=7.0" in said
    tool(ADMIN, CONFIGS, "--alter", *both, "--delete-config", "producer_byte_rate,request_percentage")
    _, said = tool(ADMIN, CONFIGS, "--describe", *both)

    assert "producer_byte_rate" not in said
    status, _ = tool(ADMIN, CONFIGS, "--alter", *ip, "--delete-config", "connection_creation_rate")
    assert status == 0


def test_a_producer_and_a_consumer_are_told_to_wait(broker: Broker, admin: AdminClient, tool: Tool) -> None:
    topic = _new_topic(admin)
    for kind, operations in (
        (ResourceType.TOPIC, (AclOperation.READ, AclOperation.WRITE)),
        (ResourceType.GROUP, (AclOperation.READ,)),
    ):
        _allow(admin, *(_binding(kind, topic, operation) for operation in operations))
    alice = ("--entity-type", "users", "--entity-name", "alice")
    status, said = tool(
        ADMIN, CONFIGS, "--alter", *alice, "--add-config", "producer_byte_rate=10000,consumer_byte_rate=10000"
    )
    assert status == 0, said
    waits: dict[str, float] = {}

    def settings(who: str) -> dict[str, Any]:
        def told(event: Any) -> None:
            waits[who] = max(event.throttle_time, waits.get(who, 0))

        return _way(broker.bootstrap, ALICE).librdkafka() | {"throttle_cb": told}

    producer = Producer(settings("producer"))
    producer.produce(topic, bytes(110_000))
    assert producer.flush(20) == 0
    until(lambda: producer.poll(0.1) or "producer" in waits, "the producer has been told")
    consumer = Consumer(settings("consumer") | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    [message] = consumer.consume(1, 20)
    until(lambda: consumer.poll(0.1) or "consumer" in waits, "the consumer has been told")
    consumer.close()

    assert message.error() is None
    assert len(message.value() or b"") == 110_000
    # Ten seconds' worth may be had at once; this was eleven.
    assert all(0.5 < seconds < 3 for seconds in waits.values()), waits
    tool(ADMIN, CONFIGS, "--alter", *alice, "--delete-config", "producer_byte_rate,consumer_byte_rate")


# -- where they are kept ------------------------------------------------------------------------------------------------
def test_acls_and_quotas_outlive_the_broker(broker: Broker, admin: AdminClient, tool: Tool) -> None:
    topic = _new_topic(admin)
    wanted = _binding(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    _allow(admin, wanted)
    entity = ("--entity-type", "clients", "--entity-name", topic)
    tool(ADMIN, CONFIGS, "--alter", *entity, "--add-config", "consumer_byte_rate=77")

    broker.kill()
    broker.start()

    found = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert AdminClient(_way(broker.bootstrap, ADMIN).librdkafka()).describe_acls(found).result(20) == [wanted]
    _, said = tool(ADMIN, CONFIGS, "--describe", *entity)
    assert "consumer_byte_rate=77.0" in said


class GuardedCluster(Cluster):
    def admin(self) -> AdminClient:
        return AdminClient(_way(self.bootstrap, ADMIN).librdkafka())


def test_in_a_cluster_every_broker_knows_and_asks_in_the_clients_name(tmp_path: Path) -> None:
    cluster = GuardedCluster(tmp_path, GUARDED | {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"})
    try:
        cluster.found(3)
        admin = cluster.admin()  # kept: it ends with its last name
        controller = admin.describe_cluster().result(20).controller.id
        others = [number for number in cluster.brokers if number != controller]
        alices = {n: AdminClient(_way(cluster.brokers[n].bootstrap, ALICE).librdkafka()) for n in cluster.brokers}
        name = fresh_name("clustered")

        with pytest.raises(KafkaException) as refused:
            alices[others[0]].create_topics([NewTopic(name, 1, 3)])[name].result(20)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

        wanted = [_binding(ResourceType.TOPIC, name, each) for each in (AclOperation.CREATE, AclOperation.DESCRIBE)]
        _allow(AdminClient(_way(cluster.brokers[others[1]].bootstrap, ADMIN).librdkafka()), *wanted)
        alices[others[0]].create_topics([NewTopic(name, 1, 3)])[name].result(20)
        for number, alice in alices.items():
            until(lambda a=alice: list(a.list_topics(timeout=20).topics) == [name], f"{number} shows it")  # type: ignore[misc]

        cluster.brokers[controller].kill()
        for number in others:
            assert list(alices[number].list_topics(timeout=20).topics) == [name]
    finally:
        cluster.close()
