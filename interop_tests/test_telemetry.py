"""Clients push their own metrics (KIP-714): Java's tool makes the subscription, Java's client and librdkafka heed it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from interop_tests.conftest import HostOf
from interop_tests.support.broker import Broker, running
from interop_tests.support.groups import fresh_group
from interop_tests.support.members.kinds import KINDS, Pace
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker

PACE = Pace(session_ms=10_000, heartbeat_ms=1_000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("telemetry"), http=True) as started:
        yield started


def pushed(broker: Broker) -> dict[tuple[str, str], float]:
    """The newest values by client id and metric."""
    text = httpx.get(f"{broker.http_url}/metrics", timeout=30).text
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "kompat_client_metric":
                found[sample.labels["client_id"], sample.labels["metric"]] = sample.value
    return found


def names_of(broker: Broker, client_id: str) -> set[str]:
    return {metric for client, metric in pushed(broker) if client == client_id}


def test_clients_push_what_a_subscription_asks_of_them(broker: Broker, java: Worker, host_of: HostOf) -> None:
    topic = Topics(broker.bootstrap).create("pushing")
    kind = KINDS["java-consumer"]
    host = host_of(kind)
    silent = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "silent", "log_level": 0})
    silent.produce(topic, b"before anybody asks")
    assert silent.flush(30) == 0
    assert not pushed(broker)

    for name, metrics, match in (
        ("producers", "*", "client_id=pro.*"),
        ("consumers", "org.apache.kafka.consumer.", "client_software_name=apache-kafka-java,client_id=con.*"),
    ):
        settings = ("--metrics", metrics, "--interval", "500", "--match", match)
        tool(java, broker, "--alter", "--name", name, *settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "producer-in-c", "log_level": 0})
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    config = kind.settings(PACE, client_id="consumer-in-java")
    member = host.join(broker.bootstrap, fresh_group(), topic, config=config)
    try:
        until(lambda: _polled(producer, broker, "producer-in-c"), "librdkafka pushes", seconds=60)
        until(lambda: names_of(broker, "consumer-in-java"), "the Java client pushes", seconds=60)
    finally:
        host.leave(member)

    assert all(name.startswith("org.apache.kafka.consumer.") for name in names_of(broker, "consumer-in-java"))
    assert any("producer" in name for name in names_of(broker, "producer-in-c"))
    assert not names_of(broker, "silent")


def _polled(producer: Producer, broker: Broker, client_id: str) -> set[str]:
    producer.poll(0.1)
    return names_of(broker, client_id)


def tool(java: Worker, broker: Broker, *arguments: str) -> None:
    """kafka-client-metrics.sh, as its script runs it."""
    given = ("--bootstrap-server", broker.bootstrap, *arguments)
    ran = java.call(
        "tool", broker.bootstrap, **{"class": "org.apache.kafka.tools.ClientMetricsCommand"}, args=given, stdin=""
    )
    assert ran["status"] == 0, ran
