"""A backup that is taken while clients write, restored, and served again: nothing acknowledged before it is missing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from interop_tests.support.broker import Broker, clean_environment, running
from interop_tests.support.cluster import Cluster
from interop_tests.support.topics import Topics
from interop_tests.support.wait import despite, until

PARTITIONS = 3


class Writer:
    """Writes numbers to all partitions until it is stopped, small batches and large ones, and knows what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        )
        self._topic = topic
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        number = 0
        while not self._end.is_set():
            for _ in range(50):
                value = f"{number} ".encode() + b"x" * (number % 7 * 1000)
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.flush(30)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].append(int(value.split()[0]))

    def so_far(self) -> dict[int, list[int]]:
        return {partition: list(numbers) for partition, numbers in self.acknowledged.items()}


def kompat(*arguments: str, status: int = 0) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "kompat", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(),
    )
    assert run.returncode == status, run.stdout + run.stderr
    return run.stdout if status == 0 else run.stderr


def numbers_in(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """All that can be read, in order; offsets have no gaps."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    )
    found: dict[int, list[int]] = {}
    try:
        for partition in range(PARTITIONS):
            ask = partial(consumer.get_watermark_offsets, TopicPartition(topic, partition), timeout=30)
            _, end = despite(KafkaException, ask, f"partition {partition} has an end")
            consumer.assign([TopicPartition(topic, partition, 0)])
            numbers = found[partition] = []
            while len(numbers) < end:
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None, message.error()
                assert message.offset() == len(numbers)
                numbers.append(int((message.value() or b"").split()[0]))
    finally:
        consumer.close()
    return found


def holds(found: dict[int, list[int]], before: dict[int, list[int]], after: dict[int, list[int]]) -> None:
    """All from before, and no more than a beginning of what came later."""
    for partition, numbers in found.items():
        assert len(numbers) >= len(before[partition])
        assert numbers == after[partition][: len(numbers)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {"kompat.backup.dir": str(tmp_path / "backups"), "log.segment.bytes": "1048576"}
    with running(tmp_path / "broker", settings, http=True) as started:
        yield started


def test_what_was_acknowledged_before_a_backup_is_in_it(broker: Broker, tmp_path: Path) -> None:
    topic = Topics(broker.bootstrap).create("kept", partitions=PARTITIONS)
    backup, restored = tmp_path / "backups" / "monday", tmp_path / "restored"
    with Writer(broker.bootstrap, topic) as writer:
        until(lambda: all(len(each) > 1000 for each in writer.so_far().values()), "enough is written", seconds=60)
        before = writer.so_far()
        made = json.loads(kompat("backup", "create", "monday", "--http", broker.http_url, "--json"))
        sizes = {partition: len(numbers) for partition, numbers in writer.so_far().items()}
        until(lambda: all(len(n) > sizes[p] for p, n in writer.so_far().items()), "writing goes on", seconds=60)
    assert made["bytes"] > 1_000_000
    assert "already" in kompat("backup", "create", "monday", "--http", broker.http_url, status=1)

    checked = json.loads(kompat("backup", "verify", str(backup), "--json"))
    assert checked["faults"] == []
    assert checked["batches"] > 100
    kompat("restore", str(backup), "--data", str(restored))
    assert "not empty" in kompat("restore", str(backup), "--data", str(restored), status=1)

    with running(tmp_path / "again", data=restored) as again:
        found = numbers_in(again.bootstrap, topic)
        holds(found, before, writer.acknowledged)
        with Writer(again.bootstrap, topic) as more:
            until(lambda: all(more.so_far().values()), "it takes records again", seconds=60)
        assert numbers_in(again.bootstrap, topic) == {p: found[p] + more.acknowledged[p] for p in found}


@pytest.mark.timeout(300)
def test_a_cluster_comes_back_from_backups_of_all_its_brokers(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", {}, http=True)
    try:
        for number in (1, 2, 3):
            cluster.add(number).settings["kompat.backup.dir"] = str(tmp_path / f"backups-{number}")
        cluster.found(3)
        topic = cluster.create("kept", PARTITIONS)
        with Writer(cluster.bootstrap, topic) as writer:
            until(lambda: all(len(each) > 300 for each in writer.so_far().values()), "enough is written", seconds=60)
            before = writer.so_far()
            for broker in cluster.brokers.values():  # one after the other, while it goes on
                kompat("backup", "create", "all", "--http", broker.http_url)
        for broker in cluster.brokers.values():
            broker.kill()
        for number, broker in cluster.brokers.items():
            broker.data = str(tmp_path / f"restored-{number}")
            kompat("restore", str(tmp_path / f"backups-{number}" / "all"), "--data", broker.data)
        cluster.start(1, 2, 3)
        cluster.wait_led(topic, PARTITIONS)

        found = numbers_in(cluster.bootstrap, topic)
        holds(found, before, writer.acknowledged)
        with Writer(cluster.bootstrap, topic) as more:
            until(lambda: all(more.so_far().values()), "it takes records again", seconds=60)
        assert numbers_in(cluster.bootstrap, topic) == {p: found[p] + more.acknowledged[p] for p in found}
    finally:
        cluster.close()
