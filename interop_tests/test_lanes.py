"""A topic with `kompat.delivery.order=priority`: stock consumers get the most urgent of its backlog first, each record once."""

import random
import time

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from kafka import KafkaConsumer

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import AnyBroker
from interop_tests.support.clients import confluent
from interop_tests.support.clients.base import Client, Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.clients.kcat import Kcat
from interop_tests.support.topics import Topics

BACKLOG = 10_000
SECONDS = 60.0


@pytest.fixture(autouse=True)
def ours(broker: AnyBroker) -> None:
    if not broker.is_ours:
        pytest.skip("lanes are kompat's")


def a_topic(topics: Topics, **configs: object) -> str:
    return topics.create(**{"kompat_delivery_order": "priority"} | configs)


def send(bootstrap: str, topic: str, classes: list[int | None]) -> list[bytes]:
    """A record of each class, in this order; the order in which they should come."""
    sender = confluent.producer(bootstrap, **{"linger.ms": 5, "enable.idempotence": True})
    values = [b"%d of %s" % (place, str(c).encode()) for place, c in enumerate(classes)]
    for value, priority in zip(values, classes, strict=True):
        headers = None if priority is None else {"kompat-priority": str(priority)}
        sender.produce(topic, value, partition=0, headers=headers)
        sender.poll(0)
    assert sender.flush(SECONDS) == 0
    ranks = [4 if c is None else c for c in classes]
    return [values[place] for place in sorted(range(len(values)), key=lambda place: (-ranks[place], place))]


def shuffled(count: int) -> list[int | None]:
    choose = random.Random(7)  # the same in every run
    return [choose.choice([None, *range(10)]) for _ in range(count)]


def member(bootstrap: str, topic: str, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"{topic}-group", auto_offset_reset="earliest", **settings
    )


def poll(reader: KafkaConsumer, count: int) -> list[bytes]:
    """So many values, or more if the last poll brought more."""
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value for records in reader.poll(500).values() for record in records]
    return found


def test_a_plain_group_sees_a_backlog_of_ten_thousand_by_priority(bootstrap: str, topics: Topics) -> None:
    topic = a_topic(topics)
    expected = send(bootstrap, topic, shuffled(BACKLOG))

    reader = member(bootstrap, topic)
    found = poll(reader, BACKLOG)
    reader.close()

    assert found == expected
    # The log has its order now: whoever reads it later gets the same.
    assert [record.value for record in Kcat().consume(bootstrap, topic, 0, start=0, count=BACKLOG)] == expected
    assert [record.value for record in Confluent().consume(bootstrap, topic, 0, start=0, count=BACKLOG)] == expected


def test_what_is_urgent_overtakes_the_backlog_of_a_group_that_reads(bootstrap: str, topics: Topics) -> None:
    topic = a_topic(topics, kompat_priority_release_max_records=100)
    send(bootstrap, topic, [1] * 5000)
    reader = member(bootstrap, topic, max_poll_records=100)
    found = poll(reader, 1000)
    Kcat().produce(bootstrap, topic, [Message(value=b"urgent", headers=(("kompat-priority", b"critical"),))])
    when = len(found)
    found += poll(reader, 5001 - when)
    reader.close()

    assert len(found) == len(set(found)) == 5001
    assert when <= found.index(b"urgent") < when + 300  # what the client had asked for before


def test_the_window_bounds_how_far_a_client_reads_ahead(bootstrap: str, topics: Topics) -> None:
    """librdkafka would ask for a hundred thousand records in advance."""
    topic = a_topic(topics, kompat_priority_window=20)
    send(bootstrap, topic, [1] * 300)
    reader = confluent.consumer(
        bootstrap,
        **{"group.id": f"{topic}-group", "auto.offset.reset": "earliest", "enable.auto.commit": False},
    )
    reader.subscribe([topic])
    found = [_commit_next(reader) for _ in range(50)]
    Kcat().produce(bootstrap, topic, [Message(value=b"urgent", headers=(("priority", b"9"),))])
    found += [_commit_next(reader) for _ in range(251)]
    reader.close()

    assert len(set(found)) == 301
    assert 50 <= found.index(b"urgent") <= 50 + 20


def _commit_next(reader: Consumer) -> bytes:
    message = reader.poll(SECONDS)
    assert message is not None
    assert message.error() is None
    reader.commit(message, asynchronous=False)
    value: bytes = message.value()
    return value


def test_every_client_reads_it(bootstrap: str, topics: Topics, client: Client) -> None:
    topic = a_topic(topics, kompat_priority_release_max_records=30)
    expected = send(bootstrap, topic, shuffled(100))

    found = client.consume(bootstrap, topic, 0, start=0, count=100)

    assert [record.value for record in found] == expected


def test_a_read_up_to_the_latest_offset_gets_all(bootstrap: str, topics: Topics) -> None:
    """As Spark reads: it asks where the log ends, and never fetches past that."""
    topic = a_topic(topics)
    expected = send(bootstrap, topic, shuffled(BACKLOG))
    where = TopicPartition(topic, 0, 0)
    reader = confluent.consumer(bootstrap, **{"group.id": "bounded", "enable.partition.eof": False})
    _, end = reader.get_watermark_offsets(where, timeout=SECONDS)
    reader.assign([where])
    found: list[bytes] = []
    position = 0
    while position < end:
        message = reader.poll(SECONDS)
        assert message is not None
        found.append(message.value())
        position = message.offset() + 1
    reader.close()

    assert (position, found) == (end, expected)


def test_a_transaction_decides_on_its_records(bootstrap: str, topics: Topics) -> None:
    topic = a_topic(topics)
    sender = confluent.producer(bootstrap, **{"transactional.id": topic})
    sender.init_transactions(20)
    for name, commits in (("aborted", False), ("committed", True)):
        sender.begin_transaction()
        for priority in ("1", "9"):
            sender.produce(topic, f"{name} {priority}", partition=0, headers={"kompat-priority": priority})
        sender.flush(20)
        if commits:
            sender.commit_transaction(20)
        else:
            sender.abort_transaction(20)

    found = Confluent().consume(bootstrap, topic, 0, start=0, count=2, read_committed=True)

    assert [record.value for record in found] == [b"committed 9", b"committed 1"]


def test_kills_lose_nothing_and_double_nothing(start_broker: StartBroker) -> None:
    """In the middle of a backlog, with a consumer that goes on where it was."""
    broker = start_broker()
    topic = a_topic(Topics(broker.bootstrap), kompat_priority_release_max_records=200)
    expected = send(broker.bootstrap, topic, shuffled(BACKLOG))
    reader = confluent.consumer(
        broker.bootstrap, **{"group.id": "g", "auto.offset.reset": "error", "reconnect.backoff.max.ms": 200}
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def read_up_to(count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            message = reader.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            elif message is not None:
                assert message.error().code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT), message.error()

    for count in (1000, 4000, 7000):
        read_up_to(count)
        broker.kill()
        broker.start()
    read_up_to(BACKLOG)
    reader.close()

    assert found == expected
    replayed = Confluent().consume(broker.bootstrap, topic, 0, start=0, count=BACKLOG, seconds=SECONDS)
    assert [record.value for record in replayed] == expected
