"""Brokers whose routers call each other over a network that a test controls, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from kompat.errors import KafkaError, PeerBusy, PeerError, PeerFailed, PeerTimeout, PeerUnavailable, StorageError
from kompat.rpc.messages import Coordinator
from kompat.rpc.router import CALL, Router
from kompat.types import Buffer, LogId, NodeId, Offset
from tests.simulator.loop import SimLoop

if TYPE_CHECKING:
    from kompat.log.partition import Partition

T = TypeVar("T")
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
LOG = LogId(UUID(int=7), 3)
TRANSIT = 0.01  # seconds one way


def run(work: Coroutine[Any, Any, T], seconds: float = 3600) -> T:
    """In simulated time."""
    loop = SimLoop(Random(1))
    try:
        return loop.run_until_complete(asyncio.wait_for(work, seconds))
    finally:
        loop.run_until_complete(asyncio.sleep(60))  # what is left under way
        loop.close()
        assert not loop.failures, loop.failures


class Log:
    """Stands for the partition that a handler gets."""

    def __init__(self, log_id: LogId) -> None:
        self.log_id = log_id


class Broker:
    """A broker's router and what it believes of the cluster."""

    def __init__(self, me: NodeId, network: Network) -> None:
        self.me = me
        self.network = network
        self.leaders: dict[LogId, NodeId] = {}
        self.controller: NodeId | None = None
        self.metadata_read = Offset(0)
        self.rpc = Router(me, self, network)

    @property
    def brokers(self) -> Collection[NodeId]:
        return self.network.brokers

    def leader(self, log_id: LogId) -> NodeId | None:
        return self.leaders.get(log_id)

    def led(self, log_id: LogId) -> Partition | None:
        if self.network.led_by.get(log_id) != self.me or self.metadata_read < self.network.made_at:
            return None
        return cast("Partition", Log(log_id))

    async def coordinated(self, coordinator: Coordinator) -> LogId:
        return LogId(UUID(int=len(coordinator.topic)), len(coordinator.key))

    @property
    def is_controller(self) -> bool:
        return self.network.controller == self.me

    @property
    def metadata_end(self) -> Offset:
        return self.network.metadata

    async def read_metadata(self, end: Offset, seconds: float) -> bool:
        if self.metadata_read < end:
            await asyncio.sleep(min(seconds, self.network.behind))
            self.metadata_read = max(self.metadata_read, end)
        return True


class Network:
    """`faults` are raised by the next calls, one each; `lost` is a call that is carried out, and whose answer is lost."""

    def __init__(self, *nodes: NodeId) -> None:
        self.led_by: dict[LogId, NodeId] = {}
        self.controller: NodeId | None = None
        self.metadata = Offset(0)
        self.made_at = Offset(0)  # where in the metadata the partitions were made
        self.behind = 0.2  # seconds that reading metadata takes
        self.faults: list[PeerError] = []
        self.down: set[NodeId] = set()
        self.lost = 0
        self.calls: list[NodeId] = []
        self.under_way = 0
        self.most_under_way = 0
        self.brokers = {node: Broker(node, self) for node in nodes}

    def __getitem__(self, node: NodeId) -> Router:
        return self.brokers[node].rpc

    def elect(self, node: NodeId, log_id: LogId = LOG, *, known: bool = True) -> None:
        self.led_by[log_id] = node
        if known:
            for broker in self.brokers.values():
                broker.leaders[log_id] = node

    def control(self, node: NodeId | None) -> None:
        self.controller = node
        for broker in self.brokers.values():
            broker.controller = node

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        assert kind == CALL
        self.calls.append(to)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            async with asyncio.timeout(timeout):
                return await self._carry(to, memoryview(b"".join(body)))
        except TimeoutError:
            raise PeerTimeout(f"node {to} has not answered within {timeout} s") from None
        finally:
            self.under_way -= 1

    async def _carry(self, to: NodeId, body: memoryview) -> memoryview:
        if to in self.down:
            raise PeerUnavailable("no link", is_sent=False)
        if self.faults:
            raise self.faults.pop(0)
        await asyncio.sleep(TRANSIT)
        try:
            answer = await asyncio.shield(asyncio.ensure_future(self.brokers[to].rpc.receive(ONE, body)))
        except (KafkaError, StorageError, PeerError):
            raise AssertionError("errors are part of the answer") from None
        except Exception as bug:
            raise PeerFailed(f"node {to}: {type(bug).__name__}, see its log") from bug
        await asyncio.sleep(TRANSIT)
        if self.lost:
            self.lost -= 1
            raise PeerUnavailable("the link was lost before the answer", is_sent=True)
        return memoryview(b"".join(answer))


BUSY = PeerBusy("it has too much under way")
NO_LINK = PeerUnavailable("there is no link", is_sent=False)
