"""Exactly once: copies made in transactions hold every record once and in order, whoever crashes on the way."""

import random
import time

import pytest

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker
from interop_tests.support.groups import FAST, FAST_GROUPS, Groups, fresh_group
from interop_tests.support.members.host import Host, Member
from interop_tests.support.members.kinds import COPIERS, KINDS, Kind
from interop_tests.support.partitions import read_all
from interop_tests.support.topics import Topics
from interop_tests.support.trickle import Trickle
from interop_tests.support.wait import until

PARTITIONS = 4
INTERVAL = 0.004
PROGRESS = 150
FAST_TRANSACTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


class Copy:
    """Two copiers of one kind, in one group, from the input to a topic of their own."""

    def __init__(self, kind: Kind, broker: Broker, source: str, target: str) -> None:
        self.kind = kind
        self.target = target
        self.group = fresh_group()
        self.members: list[Member] = []
        self._broker = broker
        self._source = source
        self._groups = Groups(broker.bootstrap)

    def join(self, host: Host, number: int) -> None:
        settings = self.kind.settings(FAST)
        settings |= {"copy.output": self.target, "copy.transactional.id": f"{self.group}-{number}"}
        self.members.append(host.join(self._broker.bootstrap, self.group, self._source, config=settings))

    def copied(self) -> int:
        return sum(self._groups.committed(self.group).values())


def wait_copied(copies: list[Copy], more: int) -> None:
    goals = [(copy, copy.copied() + more) for copy in copies]
    for copy, goal in goals:
        try:
            until(lambda copy=copy, goal=goal: copy.copied() >= goal, "progress", seconds=60)  # type: ignore[misc]
        except AssertionError:
            stuck = "\n".join(member.summary() for member in copy.members)
            raise AssertionError(f"{copy.kind.name} is stuck at {copy.copied()} of {goal}:\n{stuck}") from None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["confluent", "java"])
def test_copies_are_exact_whoever_is_killed(
    language: str, start_broker: StartBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker = start_broker(FAST_GROUPS | FAST_TRANSACTIONS)
    topics = Topics(broker.bootstrap)
    source = topics.create("in", PARTITIONS)
    kinds = [KINDS[f"{language}-{protocol}"] for protocol in COPIERS[language].kinds]
    copies = [Copy(kind, broker, source, topics.create("out", PARTITIONS)) for kind in kinds]
    logs = tmp_path_factory.mktemp("copiers")
    chance = random.Random(4)

    def start(number: int) -> Host:
        host = Host(COPIERS[language].command(), logs / f"stderr-{number}")
        for copy in copies:
            copy.join(host, number)
        return host

    hosts = [start(0), start(1)]
    try:
        with Trickle(broker.bootstrap, source, PARTITIONS, interval=INTERVAL) as trickle:
            for victim in (0, 1):
                wait_copied(copies, PROGRESS)
                # The moment of death is drawn, so that it falls into every part of a transaction.
                time.sleep(chance.uniform(0, 0.1))
                hosts[victim].kill()
                hosts[victim] = start(victim)
                wait_copied(copies, PROGRESS)
                time.sleep(chance.uniform(0, 0.1))
                broker.kill()
                broker.start()
            wait_copied(copies, PROGRESS)
            sent = trickle.finish()
        for copy in copies:
            until(lambda copy=copy: copy.copied() == len(sent), f"{copy.kind.name} is done", seconds=60)  # type: ignore[misc]
    finally:
        for host in hosts:
            host.close()

    wanted: dict[int, list[str]] = {index: [] for index in range(PARTITIONS)}
    for (_, index, _), value in sorted(sent.items()):
        wanted[index].append(value)
    for copy in copies:
        assert read_all(broker.bootstrap, copy.target, PARTITIONS) == wanted, copy.kind.name
        uncommitted = read_all(broker.bootstrap, copy.target, PARTITIONS, committed=False)
        assert sum(map(len, uncommitted.values())) > len(sent), "no copier has ever changed its mind"
