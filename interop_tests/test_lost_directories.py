"""Data directories that were emptied, or put back to an older state, while another broker is down: nobody goes on without what was acknowledged."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from interop_tests.support.broker import READY, external
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.command import Command
from interop_tests.support.wait import until

RECORDS = 50
SECONDS = 4.0  # without an acknowledgement, where there must be none
IN_DOUBT = re.compile(r"^kompat_raft_replicas_in_doubt 0(\.0)?$", re.MULTILINE)
WAITS = "was emptied or put back to an older state"

pytestmark = [
    pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to make a cluster of"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {"min.insync.replicas": "2", "default.replication.factor": "3"}
    with cluster_of(tmp_path, 3, settings, http=True) as started:
        wait_until_all_count(started)
        yield started


def wait_until_all_count(cluster: Cluster) -> None:
    """Also a replica that is new does not count until a leader has brought it up to date: nobody may be taken away before that."""

    def count() -> bool:
        pages = [httpx.get(f"{broker.http_url}/metrics").text for broker in cluster.brokers.values()]
        return all(IN_DOUBT.search(page) for page in pages)

    until(count, "no replica is in doubt", seconds=60)


def acknowledged_by_two(cluster: Cluster) -> str:
    """A topic with records that broker 3 has not got; all brokers are down then."""
    topic = cluster.create()
    cluster.wait_in_sync(topic)
    wait_until_all_count(cluster)
    cluster.brokers[3].kill()
    offsets = Confluent().produce(cluster.bootstrap, topic, [Message(value=b"%d" % n) for n in range(RECORDS)])
    assert len(offsets) == RECORDS
    cluster.brokers[1].kill()
    cluster.brokers[2].kill()
    return topic


def acknowledges(cluster: Cluster, topic: str, seconds: float) -> bool:
    taken: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "linger.ms": 0})
    producer.produce(topic, b"too early", on_delivery=lambda error, _: taken.append(error is None))
    producer.flush(seconds)
    return any(taken)


def check_that_nothing_is_lost(cluster: Cluster, topic: str) -> None:
    """Brokers 2 and 3 wait, and say why; with broker 1 all is there."""
    cluster.brokers[2].spawn()
    cluster.brokers[3].spawn()
    began = time.monotonic()
    assert not acknowledges(cluster, topic, SECONDS)
    until(lambda: WAITS in cluster.brokers[2].stderr(), "broker 2 says why it waits", seconds=30)
    assert time.monotonic() - began >= SECONDS
    cluster.brokers[1].start(seconds=60)
    cluster.wait_in_sync(topic)
    found = Confluent().consume(cluster.bootstrap, topic, 0, start=0, count=RECORDS)
    assert [record.value for record in found] == [b"%d" % n for n in range(RECORDS)]
    assert acknowledges(cluster, topic, 30)


def test_an_emptied_directory_does_not_count_until_it_has_caught_up(cluster: Cluster) -> None:
    topic = acknowledged_by_two(cluster)
    shutil.rmtree(cluster.brokers[2].data)

    check_that_nothing_is_lost(cluster, topic)


def test_a_directory_put_back_to_an_older_state_does_not_count_until_it_has_caught_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.brokers[2].stop()
    older = tmp_path / "older"
    shutil.copytree(cluster.brokers[2].data, older)
    cluster.brokers[2].start()
    wait_until_all_count(cluster)
    topic = acknowledged_by_two(cluster)
    shutil.rmtree(cluster.brokers[2].data)
    shutil.move(older, cluster.brokers[2].data)

    check_that_nothing_is_lost(cluster, topic)


def test_a_snapshot_of_a_running_broker_does_not_count_until_it_has_caught_up(cluster: Cluster, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    shutil.copytree(cluster.brokers[2].data, snapshot)
    steps = steps_of_broker_2(cluster)
    until(lambda: steps_of_broker_2(cluster) > steps, "broker 3 has heard that broker 2 runs on", seconds=30)
    topic = acknowledged_by_two(cluster)
    shutil.rmtree(cluster.brokers[2].data)
    shutil.move(snapshot, cluster.brokers[2].data)

    check_that_nothing_is_lost(cluster, topic)


def steps_of_broker_2(cluster: Cluster) -> int:
    """As broker 3 will remember them when it is started again."""
    with open(Path(cluster.brokers[3].data) / "incarnation.json", encoding="utf-8") as file:
        return int(json.load(file)["known"]["2"][1])


def test_an_operator_may_have_the_others_go_on_without_what_is_away(cluster: Cluster) -> None:
    topic = acknowledged_by_two(cluster)
    shutil.rmtree(cluster.brokers[2].data)
    cluster.brokers[2].spawn()
    cluster.brokers[3].start(seconds=60)
    until(lambda: WAITS in cluster.brokers[2].stderr(), "broker 2 says why it waits", seconds=30)

    command = Command(cluster.brokers[3].bootstrap)
    command.run("cluster", "elect", "--unclean", "__cluster_metadata")
    until(lambda: READY in cluster.brokers[2].stdout(), "broker 2 is ready", seconds=30)
    command.run("cluster", "elect", "--unclean", f"{topic}/0")

    assert acknowledges(cluster, topic, 30)
    cluster.brokers[1].start(seconds=60)
    cluster.wait_in_sync(topic)
    found = Confluent().consume(cluster.bootstrap, topic, 0, start=0, count=1)
    assert [record.value for record in found] == [b"too early"]
