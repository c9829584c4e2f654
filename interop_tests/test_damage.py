"""Brokers whose disks have not kept what was written: other replicas' batches take its place, and nobody is shown anything else."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, Producer, TopicPartition

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker, external
from interop_tests.support.cluster import Cluster
from interop_tests.support.command import Command
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until

RECORDS = 60
MANY = 400  # small ones: several blocks of the database
LARGE, SMALL = 6000, 300  # in the value log, and in the database
SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2", "kompat.cache.bytes": "0"}

pytestmark = pytest.mark.skipif(external() is not None, reason="the data directory has to be ours")


def value(number: int, size: int) -> bytes:
    return b"%06d" % number * (size // 6)


def produce(bootstrap: str, topic: str, size: int, count: int = RECORDS) -> None:
    """A batch for each record."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 1, "linger.ms": 0})
    failures: list[object] = []
    for number in range(count):
        producer.produce(topic, value(number, size), partition=0, on_delivery=lambda e, _: e and failures.append(e))
    assert producer.flush(30) == 0
    assert failures == []


def consume(
    bootstrap: str, topic: str, start: int, count: int, seconds: float = 30
) -> tuple[dict[int, bytes], list[KafkaError]]:
    """Values by offset, and what else the consumer was told."""
    found: dict[int, bytes] = {}
    errors: list[KafkaError] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, start)])

    def is_done() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None:
            errors.append(message.error())
        elif message is not None:
            found[message.offset()] = message.value()
        return len(found) >= count or bool(errors)

    try:
        until(is_done, "all records, or an error", seconds=seconds)
    finally:
        consumer.close()
    return found, errors


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def _flip_some(file: Path) -> None:
    for at in range(3 * LARGE, file.stat().st_size, 5 * LARGE):
        flip(file, at)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 3)


DAMAGES: dict[str, Callable[[Path], None]] = {"bits flip": _flip_some, "cut short": _cut, "deleted": Path.unlink}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("damage"), SETTINGS)
    try:
        started.found(3)
        yield started
    finally:
        started.close()


def largest_file(data: Path) -> Path:
    return max((path for path in (data / "values").glob("*/*")), key=lambda path: path.stat().st_mtime_ns)


def lead(cluster: Cluster, topic: str, number: int) -> None:
    admin = cluster.admin()

    def leads() -> bool:
        if cluster.leader(topic) != number:
            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(10)
        return cluster.leader(topic) == number

    until(leads, "the preferred leader", seconds=30)


def is_healthy(broker: Broker) -> bool:
    return bool(Command().json("doctor", str(broker.data))["healthy"])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", DAMAGES)
def test_consumers_get_all_records_though_the_value_log_of_a_broker_is_damaged(cluster: Cluster, how: str) -> None:
    topic = cluster.create(partitions=1)
    produce(cluster.bootstrap, topic, LARGE)
    cluster.wait_in_sync(topic)
    [(_, [number, *_], _)] = cluster.partitions(topic)  # the preferred leader
    broker = cluster.brokers[number]
    assert broker.stop() == 0
    DAMAGES[how](largest_file(Path(broker.data)))
    cluster.start(number)
    cluster.wait_in_sync(topic)
    lead(cluster, topic, number)

    found, errors = consume(cluster.bootstrap, topic, 0, RECORDS)

    assert errors == []
    assert found == {offset: value(offset, LARGE) for offset in range(RECORDS)}
    assert cluster.leader(topic) == number
    assert broker.stop() == 0
    assert is_healthy(broker)  # its own disk has all of it again
    cluster.start(number)


@pytest.mark.timeout(180)
def test_a_leader_whose_database_is_damaged_lets_another_lead(cluster: Cluster) -> None:
    topic = cluster.create(partitions=1)
    produce(cluster.bootstrap, topic, SMALL, MANY)
    cluster.wait_in_sync(topic)
    [(_, [number, *_], _)] = cluster.partitions(topic)
    broker = cluster.brokers[number]
    assert broker.stop() == 0
    tables = [path for path in (Path(broker.data) / "db").glob("*.sst") if value(MANY // 2, SMALL) in path.read_bytes()]
    for table in tables:
        flip(table, table.read_bytes().index(value(MANY // 2, SMALL)) + 10)
    assert tables
    cluster.start(number)
    cluster.wait_in_sync(topic)
    lead(cluster, topic, number)

    found, errors = consume(cluster.bootstrap, topic, 0, MANY)

    assert errors == []
    assert found == {offset: value(offset, SMALL) for offset in range(MANY)}
    assert cluster.leader(topic) != number


@pytest.mark.timeout(120)
def test_without_replicas_the_damage_is_told_with_its_offsets_and_reads_go_on_behind_it(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"kompat.cache.bytes": "0"})
    topic = Topics(broker.bootstrap).create("damaged", 1)
    produce(broker.bootstrap, topic, LARGE)
    assert broker.stop() == 0
    file = largest_file(Path(broker.data))
    size = file.stat().st_size // RECORDS
    flip(file, 20 * size + 100)
    told = Command().run("doctor", str(broker.data)).stdout.decode()
    assert f"{topic}/0 at offset 20: its checksum is wrong" in told
    broker.start()

    found, errors = consume(broker.bootstrap, topic, 0, RECORDS)
    assert sorted(found) == list(range(20))
    assert [error.code() for error in errors] == [KafkaError.INVALID_MSG]  # librdkafka's name of CORRUPT_MESSAGE

    found, errors = consume(broker.bootstrap, topic, 21, RECORDS - 21)
    assert (sorted(found), errors) == (list(range(21, RECORDS)), [])
    produce(broker.bootstrap, topic, LARGE, 1)
    assert "offsets 20 to 20 are damaged" in broker.stderr() + broker.stdout()


@pytest.mark.timeout(120)
def test_compaction_does_not_give_a_damaged_record_a_good_checksum(start_broker: StartBroker) -> None:
    broker = start_broker({"kompat.cache.bytes": "0", "log.cleaner.backoff.ms": "100"})
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "100"}
    topic = Topics(broker.bootstrap).create("compacted", 1, **compacted)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1000, "batch.num.messages": 2})
    began = time.time_ns() // 1_000_000 - 60_000
    for number in range(10):  # of each batch, one record is kept
        for key in (b"same", b"%d" % number):
            producer.produce(topic, value(number, LARGE), key, partition=0, timestamp=began + 1000 * number)
        assert producer.flush(20) == 0
        if number == 0:
            broker.stop()  # before anything is compacted
            file = largest_file(Path(broker.data))
            flip(file, file.stat().st_size - 100)  # in the value that is kept
            damaged = file.read_bytes()
            broker.start()

    def is_compacted() -> bool:
        found, _ = consume(broker.bootstrap, topic, 2, 1)
        return list(found) == [3]  # the other record of that batch was superseded

    until(is_compacted, "compaction", seconds=60)
    found, errors = consume(broker.bootstrap, topic, 0, 1)
    assert (found, [error.code() for error in errors]) == ({}, [KafkaError.INVALID_MSG])
    broker.stop()
    kept = Command().run("doctor", str(broker.data)).stdout.decode()
    assert f"{topic}/0 at offset 0 to 1: its checksum is wrong" in kept
    assert damaged in [path.read_bytes()[: len(damaged)] for path in (Path(broker.data) / "values").glob("*/*")]
