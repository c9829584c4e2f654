"""Three brokers, each with a small disk, of which one after the other has no room for a while, under an idempotent load.

Nothing is lost or written twice, others lead meanwhile, and every broker takes writes again when there is room, without being started anew.
"""

import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import NewTopic

from interop_tests.support.broker import external
from interop_tests.support.cluster import Cluster
from interop_tests.support.codes import Code
from interop_tests.support.load import Load, check_promises, wait_for_progress
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batch

BROKERS = (1, 2, 3)
PARTITIONS = 4
DISK_BYTES = 160 << 20
RESERVE_BYTES = 24 << 20
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "kompat.disk.reserve.bytes": str(RESERVE_BYTES),
}
LINES_AT_MOST = 50  # of a broker's log that say the same, for one time without room
NUMBERS = re.compile(r"[0-9a-f-]{16,}|\d+")

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to fill the disk of")


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    place.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "kompat-test", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount one: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class SmallCluster(Cluster):
    """Its brokers have disks that can be filled and emptied."""

    def data(self, number: int) -> Path:
        return self.home / f"broker-{number}" / "data"

    def fill(self, number: int) -> None:
        """Somebody else takes the very last byte."""
        with contextlib.suppress(OSError), (self.data(number) / "thief").open("wb", buffering=0) as file:
            while file.write(b"\0" * 65536):
                pass

    def make_room(self, number: int) -> None:
        (self.data(number) / "thief").unlink()

    def readiness(self, number: int) -> httpx.Response:
        return httpx.get(f"{self.brokers[number].http_url}/health/ready", timeout=30)

    def create_on(self, number: int) -> str:
        """A topic of which this broker has the only replica."""
        name = fresh_name(f"only-{number}")
        new = NewTopic(name, 1, replica_assignment=[[number]], config={"min.insync.replicas": "1"})
        admin = self.admin()
        admin.create_topics([new], request_timeout=30)[name].result(30)
        self.wait_led(name, 1)
        return name

    def takes(self, number: int, topic: str) -> int:
        with Wire(self.brokers[number].bootstrap) as wire:
            return int(wire.produce(topic, batch([b"a small one"])).error_code)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SmallCluster]:
    cluster = SmallCluster(tmp_path / "cluster", SETTINGS, http=True)
    with contextlib.ExitStack() as disks:
        for number in BROKERS:
            disks.enter_context(small_disk(cluster.data(number)))
        try:
            cluster.found(len(BROKERS))
            yield cluster
        finally:
            cluster.close()


def leaders(cluster: SmallCluster, topic: str) -> set[int]:
    return {leader for leader, _, _ in cluster.partitions(topic)}


def most_repeated(log: str) -> tuple[str, int]:
    """The line that came most often, whatever numbers and names are in it."""
    found = Counter(NUMBERS.sub("#", line) for line in log.splitlines()).most_common(1)
    return found[0] if found else ("", 0)


def test_a_cluster_whose_disks_are_full_in_turn_loses_and_doubles_nothing_and_recovers(cluster: SmallCluster) -> None:
    topic = cluster.create(partitions=PARTITIONS)
    own = {number: cluster.create_on(number) for number in BROKERS}
    with Load(cluster.bootstrap, topic, PARTITIONS, idempotent=True, pause=0.002) as load:
        wait_for_progress([load], 100)
        for number in BROKERS:
            cluster.fill(number)
            until(lambda: cluster.takes(number, own[number]) == Code.KAFKA_STORAGE_ERROR, "writes are refused")  # noqa: B023
            refused = cluster.readiness(number)
            assert (refused.status_code, "disk: the broker refuses writes" in refused.json()["detail"]) == (503, True)
            until(lambda: number not in leaders(cluster, topic), f"others lead instead of {number}")  # noqa: B023
            wait_for_progress([load], 300)

            cluster.make_room(number)
            until(lambda: cluster.takes(number, own[number]) == 0, f"{number} takes writes again")  # noqa: B023
            until(lambda: cluster.readiness(number).status_code == 200, f"{number} is ready again")  # noqa: B023
            wait_for_progress([load], 100)
            cluster.wait_in_sync(topic)
        load.finish()
    check_promises(load, cluster.bootstrap)
    for broker in cluster.brokers.values():
        line, times = most_repeated(broker.stderr())
        assert times <= LINES_AT_MOST, f"{times} times in a broker's log: {line}"
