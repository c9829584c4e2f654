"""A cluster that everything happens to: brokers die, stop for a while, lose each other, and have clocks that jump."""

import contextlib
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from interop_tests.support.broker import Broker
from interop_tests.support.clock import Clock
from interop_tests.support.cluster import Cluster
from interop_tests.support.network import Network, network_of


class PlacedBroker(Broker):
    """A broker somewhere else in the network, with a clock of its own."""

    def __init__(self, home: Path, settings: Mapping[str, str], network: Network, number: int) -> None:
        super().__init__(home, settings)
        self._network = network
        self._number = number
        self.clock = Clock(home) if Clock.is_possible() else None
        self.environment = {"PYTHONFAULTHANDLER": "1"} | (self.clock.environment if self.clock is not None else {})

    @property
    def host(self) -> str:
        return self._network.host(self._number)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def command(self) -> list[str]:
        command = super().command()
        command[command.index("--host") + 1] = self.host
        return [*self._network.inside(self._number), *command]

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def end_telling_where(self) -> None:
        """Its stderr says what each of its threads was doing."""
        assert self.process is not None
        self.go_on()
        self.process.send_signal(signal.SIGABRT)
        self.process.wait(20)


class FaultyCluster(Cluster):
    def __init__(self, home: Path, network: Network, settings: Mapping[str, str]) -> None:
        super().__init__(home, settings)
        self.network = network
        self.placed: dict[int, PlacedBroker] = {}

    def add(self, number: int, *, known: Mapping[int, int] | None = None) -> Broker:
        if number not in self.placed:
            placed = PlacedBroker(self.home / f"broker-{number}", self.settings, self.network, number)
            self.placed[number] = self.brokers[number] = placed
        return super().add(number, known=known)

    def host(self, number: int) -> str:
        return self.network.host(number)

    def views(self, topic: str) -> dict[int, object]:
        """Who leads what, as each broker has it."""
        found: dict[int, object] = {}
        for number in self.running:
            asked = AdminClient({"bootstrap.servers": self.brokers[number].bootstrap, "log_level": 0})
            try:
                told = asked.list_topics(topic, timeout=5)
                found[number] = (sorted(told.brokers), {i: p.leader for i, p in told.topics[topic].partitions.items()})
            except KafkaException as error:
                found[number] = error
        return found

    def end_telling_where(self) -> None:
        """Nothing goes on any more: have the brokers' logs say why."""
        for number in self.running:
            self.placed[number].end_telling_where()

    def set_clock(self, number: int, seconds: int) -> None:
        clock = self.placed[number].clock
        assert clock is not None
        clock.jump(seconds)

    def close(self) -> None:
        for broker in self.placed.values():
            with contextlib.suppress(AssertionError, ProcessLookupError):
                broker.go_on()
        super().close()


@contextlib.contextmanager
def faulty_cluster(home: Path, count: int, settings: Mapping[str, str]) -> Iterator[FaultyCluster]:
    network = network_of(count)
    cluster = FaultyCluster(home, network, settings)
    try:
        cluster.found(count)
        yield cluster
    finally:
        cluster.close()
        network.close()
