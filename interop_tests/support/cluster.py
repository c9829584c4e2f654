"""Several brokers that are one cluster, each a process of its own, to be killed and started again one by one."""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from interop_tests.support.broker import Broker, free_port
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until

SECRET = "only the brokers of this cluster know it"  # noqa: S105 - it guards a test


class Cluster:
    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, *, http: bool = False) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.settings = dict(settings or {})
        self.secret = home / "secret"
        self.secret.write_text(SECRET)
        self.has_http = http
        self.brokers: dict[int, Broker] = {}
        self._peers: dict[int, int] = {}  # the port where others find it

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        return [n for n, b in self.brokers.items() if b.process is not None and b.process.poll() is None]

    def add(self, number: int, *, known: Mapping[int, int] | None = None) -> Broker:
        """A broker that is not started yet. `known`: whom it is told of, by their ports; all that are here, unless it is said."""
        self._peers.setdefault(number, free_port())
        broker = self.brokers.get(number) or Broker(self.home / f"broker-{number}", self.settings)
        self.brokers[number] = broker
        if self.has_http and broker.http_port is None:
            broker.http_port = free_port()
        self.tell(number, known)
        return broker

    def tell(self, number: int, known: Mapping[int, int] | None = None) -> None:
        members = ",".join(f"{n}@{self.host(n)}:{port}" for n, port in (known or self._peers).items())
        listener = f"{self.host(number)}:{self._peers[number]}"
        self.brokers[number].options = (
            *("--node-id", str(number), "--cluster", members, "--cluster-listener", listener),
            *("--cluster-secret-file", str(self.secret)),
        )

    def host(self, number: int) -> str:
        """Where a broker is, as the others see it."""
        return "127.0.0.1"

    def ports(self, *numbers: int) -> dict[int, int]:
        return {number: self._peers[number] for number in numbers}

    def found(self, count: int) -> None:
        """Start a new cluster: of brokers that all have to be there for it."""
        for number in range(1, count + 1):
            self.add(number)
        for number in range(1, count + 1):
            self.tell(number)
        self.start(*self.brokers)

    def start(self, *numbers: int) -> None:
        with ThreadPoolExecutor(len(numbers)) as pool:
            list(pool.map(lambda number: self.brokers[number].start(seconds=60), numbers))

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()

    # -- asking ----------------------------------------------------------------------------------------------------
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})

    def create(self, hint: str = "t", partitions: int = 1, factor: int = 3, **configs: str) -> str:
        name = fresh_name(hint)
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=factor, config=settings)
        admin = self.admin()  # kept: it ends with its last name
        admin.create_topics([new], request_timeout=30)[name].result(30)
        self.wait_led(name, partitions)
        return name

    def partitions(self, topic: str) -> list[tuple[int, list[int], list[int]]]:
        """Leader, replicas and in-sync replicas of each."""
        found = self.admin().list_topics(topic, timeout=30).topics[topic].partitions
        return [(found[i].leader, found[i].replicas, sorted(found[i].isrs)) for i in sorted(found)]

    def leader(self, topic: str, partition: int = 0) -> int:
        def led() -> int:
            found = self.partitions(topic)[partition][0]
            return found if found in self.running else 0

        return until(led, f"{topic}-{partition} has a leader", seconds=30)

    def wait_led(self, topic: str, partitions: int) -> None:
        def led() -> bool:
            found = self.partitions(topic)
            return len(found) == partitions and all(leader in self.running for leader, _, _ in found)

        until(led, f"{topic} is led", seconds=30)

    def wait_in_sync(self, topic: str) -> None:
        def is_whole() -> bool:
            return all(in_sync == sorted(replicas) for _, replicas, in_sync in self.partitions(topic))

        until(is_whole, f"all replicas of {topic} are in sync", seconds=60)


@contextlib.contextmanager
def cluster_of(
    home: Path, count: int, settings: Mapping[str, str] | None = None, *, http: bool = False
) -> Iterator[Cluster]:
    cluster = Cluster(home, settings, http=http)
    try:
        if count:
            cluster.found(count)
        yield cluster
    finally:
        cluster.close()
