"""Whatever is thrown at a live broker: it answers or closes, never hangs, never dies, and still serves a good client."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kompat.testing
from kompat.handlers import APIS
from kompat.handlers.support.base import Api
from kompat.testing import RunningBroker
from tests.server import fuzzing

PATIENCE = 10.0
PRODUCE = 0


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with kompat.testing.broker(group_initial_rebalance_delay_ms=0) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(fuzzing.TOPIC, 2, 1)])[fuzzing.TOPIC].result(10)
        yield running


@pytest.fixture(scope="module")
def topic_id(broker: RunningBroker) -> UUID:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    described = admin.describe_topics(TopicCollection([fuzzing.TOPIC]))[fuzzing.TOPIC].result(10)
    return UUID(
        int=(described.topic_id.get_most_significant_bits() % 2**64 << 64)
        + described.topic_id.get_least_significant_bits() % 2**64
    )


@pytest.fixture(autouse=True)
def serves_a_good_client_afterwards(broker: RunningBroker) -> Iterator[None]:
    yield
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    placed: list[Any] = []
    producer.produce("good", b"still here", on_delivery=lambda error, message: placed.append((error, message)))
    assert producer.flush(10) == 0
    ((error, sent),) = placed
    assert error is None
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    consumer.assign([TopicPartition("good", sent.partition(), sent.offset())])
    message = consumer.poll(10)
    consumer.close()
    assert message is not None
    assert message.value() == b"still here"


def connect(broker: RunningBroker) -> socket.socket:
    return socket.create_connection((broker.host, broker.port), timeout=PATIENCE)


def is_answered(broker: RunningBroker, data: bytes, *, is_whole: bool = True) -> bool:
    """Whether the broker goes on answering after `data`; if not, it has closed the connection."""
    with connect(broker) as connection:
        try:
            connection.sendall(data + fuzzing.probe())
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
        except OSError:  # closed before all of it was sent
            return False
        return fuzzing.answers_the_probe(connection)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_wild_values_are_answered_and_nothing_breaks_inside(
    broker: RunningBroker, topic_id: UUID, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(api.key)
    for version in range(api.versions.low, api.versions.high + 1):
        for _ in range(20):
            answered = is_answered(broker, fuzzing.wild_request(random, api.key, version, topic_id))
            assert answered or api.key == PRODUCE, "only a producer that wants no answer is told by closing"

    bugs = [record.exc_text or record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not bugs


@pytest.mark.parametrize("seed", range(4))
def test_mutated_requests_are_answered_or_closed(
    broker: RunningBroker, topic_id: UUID, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(seed)
    for _ in range(600):
        api = random.choice(APIS)
        version = random.randint(api.versions.low, api.versions.high)
        request = fuzzing.wild_request(random, api.key, version, topic_id)

        is_answered(broker, fuzzing.reframed(fuzzing.mutated(random, request)), is_whole=False)

    bugs = [record.exc_text or record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not bugs


def test_random_frames_are_answered_or_closed(broker: RunningBroker) -> None:
    random = Random(1)
    for _ in range(600):
        body = struct.pack(">hh", random.randrange(-1, 100), random.randrange(-1, 20)) + random.randbytes(
            random.randrange(4, 200)
        )

        is_answered(broker, struct.pack(">i", len(body)) + body, is_whole=False)


def test_random_streams_are_closed(broker: RunningBroker) -> None:
    random = Random(2)
    for _ in range(100):
        is_answered(broker, random.randbytes(random.randrange(1, 2000)), is_whole=False)


def test_requests_cut_off_at_every_byte_are_closed(broker: RunningBroker, topic_id: UUID) -> None:
    request = fuzzing.wild_request(Random(3), 3, 9, topic_id)
    for end in range(len(request)):
        with connect(broker) as connection:
            connection.sendall(request[:end])
            connection.shutdown(socket.SHUT_WR)
            assert not fuzzing.answers_the_probe(connection)


@pytest.mark.parametrize("version", [-1, 5, 99, 32767])
def test_api_versions_in_a_version_of_the_future_is_answered_in_version_0(broker: RunningBroker, version: int) -> None:
    with connect(broker) as connection:
        connection.sendall(fuzzing.frame(18, version, 5, b"whatever follows"))
        length, correlation_id, error, count, key, low, high = struct.unpack(">iihihhh", connection.recv(100))

    assert (length, correlation_id, error) == (16, 5, 35)
    assert (count, key, low, high) == (1, 18, 0, 4)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_in_an_old_version_is_told_so_for_each_partition(broker: RunningBroker, version: int) -> None:
    name = struct.pack(">h", 1) + b"t"
    body = struct.pack(">hii", 1, 1000, 1) + name + struct.pack(">iii", 1, 3, 0)
    with connect(broker) as connection:
        connection.sendall(fuzzing.frame(0, version, 5, body))
        answer = connection.recv(100)

    correlation_id, topics = struct.unpack_from(">ii", answer, 4)
    assert (correlation_id, topics) == (5, 1)
    assert struct.unpack_from(">iih", answer, 15) == (1, 3, 35)
