"""Three brokers under a load whose every step is checked, while they are killed, paused, cut off from each other and lied to about the time.

KOMPAT_FAULTS_SECONDS=600 goes on with random faults for so long, else each comes once; KOMPAT_FAULTS_SEED repeats a run, as far as processes allow.
A run that fails leaves all that is needed to explain it in its directory (--basetemp=DIR): the brokers' logs and data
(support/log_dump.py shows those), and what producers have done and heard; KOMPAT_FAULTS_DEBUG makes the clients tell more.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from interop_tests.support.broker import external
from interop_tests.support.checked_load import CheckedLoad, Client
from interop_tests.support.codes import Code
from interop_tests.support.faults import FaultyCluster, faulty_cluster
from interop_tests.support.history import told, violations
from interop_tests.support.wire import Wire, batch, produce_request

PARTITIONS = 4
BROKERS = (1, 2, 3)
LASTS = (0.5, 3.0)  # seconds of a fault
FAR_AWAY_MS = 600_000
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
SEED = int(os.environ.get("KOMPAT_FAULTS_SEED", random.SystemRandom().randrange(1 << 32)))
SECONDS = float(os.environ.get("KOMPAT_FAULTS_SECONDS", "0"))

pytestmark = [
    pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to make a cluster of"),
    pytest.mark.timeout(300 + 2 * SECONDS),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    print(f"KOMPAT_FAULTS_SEED={SEED}")  # noqa: T201 - shown with a failure
    with faulty_cluster(tmp_path_factory.mktemp("faults"), len(BROKERS), SETTINGS) as started:
        yield started


class Scenario:
    """One fault after the other, under load. After each of them everybody has to get on."""

    def __init__(self, cluster: FaultyCluster, topic: str, load: CheckedLoad, seed: int) -> None:
        self.cluster = cluster
        self.topic = topic
        self.load = load
        self.dice = random.Random(seed)

    def faults(self) -> list[Callable[[], None]]:
        found = [self.kill_a_leader, self.kill_a_leader, self.pause_a_broker]
        if self.cluster.network.can_cut:
            found += [self.cut_off_a_leader, self.cut_one_way, self.part_two_brokers, self.slow_down_a_broker]
        if all(broker.clock is not None for broker in self.cluster.placed.values()):
            found.append(self.move_a_clock)
        self.dice.shuffle(found)
        return found

    def leader(self) -> int:
        return self.cluster.leader(self.topic, self.dice.randrange(PARTITIONS))

    def others(self, number: int) -> list[int]:
        return [each for each in BROKERS if each != number]

    def goes_on(self, records: int = 40) -> None:
        """Producers get acknowledgements, whatever is going on; and that goes on for a while."""
        time.sleep(self.dice.uniform(*LASTS))
        told = time.monotonic()
        self._wait_for([*self.load.writers], records, 40)
        print(f"           producers go on after {time.monotonic() - told:.1f} s")  # noqa: T201

    def everybody_goes_on(self) -> None:
        told = time.monotonic()
        last = self._wait_for(self.load.busy, 1, 60)
        print(f"           all go on after {time.monotonic() - told:.1f} s, {last} last")  # noqa: T201
        self.cluster.wait_in_sync(self.topic)

    def _wait_for(self, clients: list[Client], records: int, seconds: float) -> str:
        try:
            return self.load.wait_for(clients, records, seconds=seconds)
        except AssertionError as stuck:
            views = self.cluster.views(self.topic)
            self.cluster.end_telling_where()
            raise AssertionError(f"{stuck}\n{views}") from None

    # -- faults ----------------------------------------------------------------------------------------------------
    def kill_a_leader(self) -> None:
        victim = self.leader()
        self.cluster.brokers[victim].kill()
        self.goes_on()
        self.cluster.start(victim)

    def pause_a_broker(self) -> None:
        victim = self.cluster.placed[self.leader()]
        victim.pause()
        try:
            self.goes_on()
        finally:
            victim.go_on()

    def cut_off_a_leader(self) -> None:
        """Clients still reach it."""
        victim = self.leader()
        for other in self.others(victim):
            self.cluster.network.cut(victim, other)
            self.cluster.network.cut(other, victim)
        self.goes_on()
        self.cluster.network.heal()

    def cut_one_way(self) -> None:
        victim = self.leader()
        deaf = self.dice.random() < 0.5
        for other in self.others(victim):
            self.cluster.network.cut(*((other, victim) if deaf else (victim, other)))
        self.goes_on()
        self.cluster.network.heal()

    def part_two_brokers(self) -> None:
        """Both still have a link to the third."""
        one, other = self.dice.sample(BROKERS, 2)
        self.cluster.network.cut(one, other)
        if self.dice.random() < 0.5:
            self.cluster.network.cut(other, one)
        self.goes_on(200)
        self.cluster.network.heal()

    def slow_down_a_broker(self) -> None:
        self.cluster.network.slow_down(self.leader())
        self.goes_on(100)
        self.cluster.network.heal()

    def move_a_clock(self) -> None:
        victim = self.dice.choice(BROKERS)
        # Not more than an hour back: records of so far in the future are refused (message.timestamp.after.max.ms).
        for jump in (self.dice.choice((-3_000, 86_400)), self.dice.randint(-30, 30), 0):
            self.cluster.set_clock(victim, jump)
            self.goes_on()


@contextlib.contextmanager
def load_on(cluster: FaultyCluster, topic: str) -> Iterator[CheckedLoad]:
    with CheckedLoad(cluster.bootstrap, topic, PARTITIONS, SEED) as load:
        load.wait_for(load.busy, 1)
        try:
            yield load
        finally:
            (cluster.home / f"history-{topic}").write_text("\n".join(told(load.history)))


def check(load: CheckedLoad) -> None:
    logs = load.finish()
    assert violations(load.history, logs) == []
    assert [failure for writer in load.writers for failure in writer.failures] == []


def test_clients_get_what_they_are_promised_through_all_faults(cluster: FaultyCluster) -> None:
    topic = cluster.create(partitions=PARTITIONS)
    with load_on(cluster, topic) as load:
        scenario = Scenario(cluster, topic, load, SEED)
        began = time.monotonic()
        while True:
            for fault in scenario.faults():
                told = time.monotonic()
                fault()
                scenario.everybody_goes_on()
                print(f"{time.monotonic() - began:6.1f} s: {fault.__name__} took {time.monotonic() - told:.1f} s")  # noqa: T201
            if time.monotonic() - began >= SECONDS:
                break
        check(load)


def test_no_produce_fails_while_brokers_are_restarted_one_by_one(cluster: FaultyCluster) -> None:
    topic = cluster.create(partitions=PARTITIONS)
    with load_on(cluster, topic) as load:
        for number in BROKERS:
            assert cluster.brokers[number].stop() == 0
            load.wait_for([*load.writers], 40)
            cluster.start(number)
            cluster.wait_in_sync(topic)
        load.wait_for(load.busy, 1)
        check(load)


# -- without a majority ------------------------------------------------------------------------------------------------
def test_without_a_majority_writes_are_refused_and_go_on_by_themselves(cluster: FaultyCluster) -> None:
    topic, probe = cluster.create(partitions=PARTITIONS), cluster.create(partitions=1)
    with load_on(cluster, topic) as load:
        survivor = cluster.leader(probe)
        lost = [number for number in BROKERS if number != survivor]
        for number in lost:
            cluster.brokers[number].kill()
        with Wire(cluster.placed[survivor].bootstrap) as wire:
            # The request's own time-out is far away: whoever answers does so because it knows.
            answers = [answer(wire, probe) for _ in range(2)]
        assert set(answers) <= {Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS}

        cluster.start(*lost)
        load.wait_for(load.busy, 20)
        check(load)


def answer(wire: Wire, topic: str) -> int:
    """What a record for a partition that this broker leads, or has led, is answered with."""
    request = produce_request(topic, batch([b"refused"]))
    request.timeout_ms = FAR_AWAY_MS
    return int(wire.ask(request, 12).responses[0].partition_responses[0].error_code)
