"""Calling a broker, whoever it is: where handlers run, what is sent again, how long callers wait, and what they hear."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar

import pytest

from kompat.errors import DamagedBatch, DamagedOffsets, ErrorCode, KafkaError, PeerError, PeerTimeout, StorageError
from kompat.log.partition import Partition
from kompat.rpc.messages import (
    CONTROLLER,
    BrokerRequest,
    ControllerRequest,
    Coordinator,
    LeaderRequest,
    Receiver,
    Request,
)
from kompat.rpc.router import LONGEST_PAUSE
from kompat.rpc.window import MOST_CALLS
from kompat.types import Offset
from tests.rpc.network import BUSY, LOG, NO_LINK, ONE, THREE, TRANSIT, TWO, Network, run


class Add(LeaderRequest[int], frozen=True):
    number: int


class Put(LeaderRequest[int], frozen=True):
    is_idempotent: ClassVar[bool] = True
    number: int


class Name(BrokerRequest[str], frozen=True):
    pass


class Wait(BrokerRequest[str], frozen=True):
    is_long_poll: ClassVar[bool] = True
    seconds: float


class Decide(ControllerRequest[str], frozen=True):
    what: str


class Served:
    """Handlers of one broker that note what they get."""

    def __init__(self, network: Network, node: Any) -> None:
        self.network, self.node = network, node
        self.requests: list[Request[Any]] = []
        self.errors: list[Exception] = []
        rpc = network[node]
        rpc.serve(Add, self.add)
        rpc.serve(Put, self.add)
        rpc.serve(Name, self.name)
        rpc.serve(Wait, self.wait)
        rpc.serve(Decide, self.decide)

    async def add(self, partition: Partition, request: Add | Put) -> int:
        self.note(request)
        return partition.log_id.partition + request.number

    async def name(self, request: Name) -> str:
        self.note(request)
        return f"broker {self.node}"

    async def wait(self, request: Wait) -> str:
        await asyncio.sleep(request.seconds)
        return "waited"

    async def decide(self, request: Decide) -> str:
        self.network.metadata = Offset(self.network.metadata + 1)
        self.note(request)
        return request.what

    def note(self, request: Request[Any]) -> None:
        self.requests.append(request)
        if self.errors:
            raise self.errors.pop(0)


class Cluster(Network):
    """Three brokers: the second leads the partition and is the controller."""

    def __init__(self) -> None:
        super().__init__(ONE, TWO, THREE)
        self.served = {node: Served(self, node) for node in (ONE, TWO, THREE)}
        self.elect(TWO)
        self.control(TWO)


async def refused(call: Awaitable[Any]) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as error:
        await call
    assert type(error.value) is KafkaError
    return error.value.code, error.value.message


REQUESTS: list[tuple[Receiver, Request[Any], Any]] = [
    (LOG, Add(4), 7),
    (CONTROLLER, Decide("so"), "so"),
    (TWO, Name(), "broker 2"),
]


# -- where handlers run ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("to", "request_", "reply"), REQUESTS)
@pytest.mark.parametrize("caller", [ONE, TWO])
def test_the_same_handler_answers_here_and_at_another_broker(
    to: Receiver, request_: Request[Any], reply: Any, caller: Any
) -> None:
    async def work() -> None:
        cluster = Cluster()
        assert await cluster[caller].call(to, request_) == reply
        [received] = cluster.served[TWO].requests
        assert received == request_
        assert (received is request_) == (caller == TWO)  # what is handled here is not encoded
        assert len(cluster.calls) == (caller != TWO)

    run(work())


def test_a_coordinator_is_the_leader_of_its_keys_partition() -> None:
    async def work() -> None:
        cluster = Cluster()
        to = Coordinator("__other_topic", "key")
        assert await refused(cluster[ONE].call(to, Add(1), patience=0)) == (
            ErrorCode.NOT_COORDINATOR,
            "nobody is in charge at the moment",
        )
        cluster.elect(THREE, await cluster.brokers[ONE].coordinated(to))
        assert await cluster[ONE].call(to, Add(1)) == 4
        assert len(cluster.served[THREE].requests) == 1

    run(work())


def test_all_brokers_that_can_be_reached_answer_in_the_order_of_their_numbers() -> None:
    async def work() -> None:
        cluster = Cluster()
        assert await cluster[TWO].call_all(Name()) == ["broker 1", "broker 2", "broker 3"]
        cluster.down.add(ONE)
        assert await cluster[TWO].call_all(Name()) == ["broker 2", "broker 3"]
        cluster.served[TWO].errors.append(KafkaError(ErrorCode.INVALID_REQUEST, "no"))
        assert await refused(cluster[TWO].call_all(Name())) == (ErrorCode.INVALID_REQUEST, "no")

    run(work())


def test_a_request_has_one_handler() -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match="Name has a handler already"):
        cluster[ONE].serve(Name, cluster.served[TWO].name)


def test_a_leaders_request_goes_to_no_broker_by_name() -> None:
    with pytest.raises(TypeError, match="Add is for a partition's leader"):
        run(Cluster()[ONE].call(ONE, Add(1)))


# -- what is sent again ------------------------------------------------------------------------------------------------
def test_a_request_follows_a_leader_that_moves() -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.elect(THREE, known=False)
        loop = asyncio.get_running_loop()
        loop.call_later(1, cluster.elect, THREE)
        assert await cluster[ONE].call(LOG, Add(1)) == 4
        assert not cluster.served[TWO].requests  # it was refused before it began
        assert len(cluster.served[THREE].requests) == 1
        assert 1 < loop.time() - 1000 < 1 + LONGEST_PAUSE + 4 * TRANSIT

    run(work())


@pytest.mark.parametrize(("to", "request_", "reply"), REQUESTS[:2])
def test_a_receiver_that_is_missing_is_waited_for(to: Receiver, request_: Request[Any], reply: Any) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.down.add(TWO)
        asyncio.get_running_loop().call_later(3, cluster.down.clear)
        assert await cluster[ONE].call(to, request_) == reply
        assert len(cluster.served[TWO].requests) == 1

    run(work())


def test_a_receiver_that_does_not_serve_the_request_yet_is_waited_for() -> None:
    async def work() -> None:
        network = Network(ONE, TWO)
        network.elect(TWO)
        asyncio.get_running_loop().call_later(1, Served, network, TWO)
        assert await network[ONE].call(LOG, Add(1)) == 4
        assert await refused(network[ONE].call(ONE, Name())) == (
            ErrorCode.BROKER_NOT_AVAILABLE,
            "broker 1 does not serve Name yet",
        )

    run(work())


@pytest.mark.parametrize("fault", [NO_LINK, BUSY])
def test_what_was_not_begun_is_sent_again(fault: PeerError) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.faults = [fault]
        assert await cluster[ONE].call(LOG, Add(1)) == 4

    run(work())


@pytest.mark.parametrize(
    ("to", "request_", "code"),
    [(LOG, Add(1), ErrorCode.NOT_LEADER_OR_FOLLOWER), (CONTROLLER, Decide("so"), ErrorCode.NOT_CONTROLLER)],
)
def test_what_may_have_been_done_is_not_done_again(to: Receiver, request_: Request[Any], code: ErrorCode) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.lost = 1
        assert (await refused(cluster[ONE].call(to, request_)))[0] is code
        assert len(cluster.served[TWO].requests) == 1

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_an_idempotent_request_is_sent_again_whatever_became_of_it(code: ErrorCode) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.lost = 1
        cluster.served[TWO].errors = [KafkaError(code), KafkaError(code)]
        assert await cluster[ONE].call(LOG, Put(1)) == 4
        assert len(cluster.served[TWO].requests) == 3

        cluster.served[TWO].errors = [KafkaError(code, "not now")]
        assert await refused(cluster[ONE].call(LOG, Add(1))) == (code, "not now")

    run(work())


def test_a_handler_that_cannot_reach_another_has_begun_all_the_same() -> None:
    """Else whoever called it would call it again, and what it did before would be done twice."""

    class Relay(LeaderRequest[int], frozen=True):
        pass

    async def work() -> None:
        cluster = Cluster()
        begun = []

        async def relay(partition: Partition, request: Relay) -> int:
            begun.append(request)
            return await cluster[TWO].call(Coordinator("none", "k"), Add(1), patience=0)

        cluster[TWO].serve(Relay, relay)
        for caller in (ONE, TWO):
            assert (await refused(cluster[caller].call(LOG, Relay())))[0] is ErrorCode.NOT_COORDINATOR
        assert len(begun) == 2

    run(work())


# -- how long ----------------------------------------------------------------------------------------------------------
def test_patience_ends() -> None:
    async def work() -> None:
        cluster = Cluster()
        loop = asyncio.get_running_loop()
        cluster.down.add(TWO)
        for to, request, seconds, code in (
            (LOG, Add(1), 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (CONTROLLER, Decide("so"), 10, ErrorCode.NOT_CONTROLLER),
            (TWO, Name(), 0, ErrorCode.BROKER_NOT_AVAILABLE),
        ):
            start = loop.time()
            assert (await refused(cluster[ONE].call(to, request)))[0] is code
            assert loop.time() - start == pytest.approx(seconds, abs=0.01)
        start = loop.time()
        await refused(cluster[ONE].call(LOG, Add(1), patience=1))
        assert loop.time() - start == pytest.approx(1, abs=0.01)
        cluster.control(None)
        assert (await refused(cluster[ONE].call(CONTROLLER, Decide("so"), patience=0)))[0] is ErrorCode.NOT_CONTROLLER

    run(work())


def test_an_answer_that_does_not_come_is_not_waited_for_any_longer() -> None:
    async def work() -> None:
        cluster = Cluster()
        loop = asyncio.get_running_loop()
        start = loop.time()
        code, _ = await refused(cluster[ONE].call(TWO, Wait(50), answered_within=7))
        assert code is ErrorCode.BROKER_NOT_AVAILABLE
        assert loop.time() - start == pytest.approx(7)

    run(work())


def test_a_timeout_is_as_a_lost_answer() -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.faults = [PeerTimeout("late")]
        assert (await refused(cluster[ONE].call(LOG, Add(1))))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.faults = [PeerTimeout("late")]
        assert await cluster[ONE].call(LOG, Put(1)) == 4

    run(work())


# -- metadata ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("caller", [ONE, TWO])
@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)])
def test_who_is_answered_by_the_controller_has_read_what_it_decided(caller: Any, error: KafkaError | None) -> None:
    async def work() -> None:
        cluster = Cluster()
        if error is None:
            await cluster[caller].call(CONTROLLER, Decide("so"))
        else:
            cluster.served[TWO].errors = [error]
            await refused(cluster[caller].call(CONTROLLER, Decide("so")))
        assert cluster.brokers[caller].metadata_read == 1 or (error is not None and caller == TWO)
        assert cluster.brokers[THREE].metadata_read == 0

    run(work())


def test_a_leader_that_does_not_know_the_partition_yet_reads_the_metadata_first() -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.made_at = Offset(3)
        cluster.brokers[ONE].metadata_read = Offset(3)
        assert await cluster[ONE].call(LOG, Add(1), patience=0) == 4
        assert cluster.brokers[TWO].metadata_read == 3

    run(work())


# -- back-pressure -----------------------------------------------------------------------------------------------------
def test_calls_under_way_to_a_broker_are_bounded_and_the_others_wait() -> None:
    async def work() -> None:
        cluster = Cluster()
        calls = [cluster[ONE].call(LOG, Add(number)) for number in range(3 * MOST_CALLS)]
        assert await asyncio.gather(*calls) == [3 + number for number in range(3 * MOST_CALLS)]
        assert cluster.most_under_way == MOST_CALLS
        received = [request.number for request in cluster.served[TWO].requests if isinstance(request, Add)]
        for start in range(0, len(received), MOST_CALLS):  # those that came first went first
            assert sorted(received[start : start + MOST_CALLS]) == [*range(start, start + MOST_CALLS)]

    run(work())


def test_long_polls_do_not_keep_others_waiting() -> None:
    async def work() -> None:
        cluster = Cluster()
        loop = asyncio.get_running_loop()
        polls = [asyncio.ensure_future(cluster[ONE].call(TWO, Wait(5))) for _ in range(MOST_CALLS)]
        await asyncio.sleep(1)
        start = loop.time()
        assert await cluster[ONE].call(LOG, Add(1)) == 4
        assert loop.time() - start == pytest.approx(2 * TRANSIT)
        code, message = await refused(cluster[ONE].call(TWO, Wait(0), answered_within=1))
        assert (code, message) == (ErrorCode.BROKER_NOT_AVAILABLE, "node 2 has too much under way")
        assert len(cluster.calls) == MOST_CALLS + 1  # it never left
        assert set(await asyncio.gather(*polls)) == {"waited"}

    run(work())


# -- errors ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("caller", [ONE, TWO])
@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.POLICY_VIOLATION, "no"),
        DamagedOffsets(3, 8),
        StorageError("the disk is full"),
        DamagedBatch("torn", 3, 8),
    ],
)
def test_errors_are_raised_as_they_were_raised(caller: Any, error: Exception) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.served[TWO].errors = [error]
        with pytest.raises(type(error)) as raised:
            await cluster[caller].call(LOG, Add(1))
        assert type(raised.value) is type(error)
        assert str(raised.value) == str(error)
        for name in ("code", "message", "first", "last"):
            assert getattr(raised.value, name, None) == getattr(error, name, None)

    run(work())


def test_a_bug_at_the_receiver_is_no_reason_to_look_for_another() -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.served[TWO].errors = [RuntimeError("a bug")]
        code, message = await refused(cluster[ONE].call(LOG, Put(1)))
        assert (code, message) == (ErrorCode.UNKNOWN_SERVER_ERROR, "node 2: RuntimeError, see its log")

    run(work())


def test_the_leader_of_a_partition_is_known_to_callers_that_have_one_request_for_many() -> None:
    network = Network(ONE, TWO)
    assert network[ONE].leader(LOG) is None
    network.elect(TWO)
    assert [network[node].leader(LOG) for node in (ONE, TWO)] == [TWO, TWO]
