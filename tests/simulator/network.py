"""Links that lose, double, delay and reorder what is sent, and may be cut one way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kompat.errors import PeerUnavailable
from kompat.raft.ports import CallHandler, StreamHandler
from kompat.types import Buffer, NodeId
from tests.simulator.loop import SimLoop


@dataclass
class Faults:
    lost: float = 0.0
    doubled: float = 0.0
    slowest: float = 0.002  # seconds a message is under way


class SimPeers:
    """One broker's links, as long as it lives."""

    def __init__(self, me: NodeId, network: "Network") -> None:
        self.me = me
        self.is_dead = False
        self._network = network
        self.on_raft = self.on_heartbeats = lambda *_: None
        self.on_call: dict[int, CallHandler] = {}
        self.on_stream: dict[int, StreamHandler] = {}

    def receive_raft(self, on_raft, on_heartbeats) -> None:
        self.on_raft, self.on_heartbeats = on_raft, on_heartbeats

    def is_up(self, node: NodeId) -> bool:
        return self._network.reaches(self.me, node) and self._network.reaches(node, self.me)

    def send_raft(self, to: NodeId, group: bytes, header: bytes, payloads: Sequence[Buffer]) -> bool:
        copy = [bytes(payload) for payload in payloads]
        return self._send(
            to, lambda peer: peer.on_raft(self.me, group, memoryview(header), list(map(memoryview, copy)))
        )

    def send_heartbeats(self, to: NodeId, blob: bytes) -> bool:
        return self._send(to, lambda peer: peer.on_heartbeats(self.me, memoryview(blob)))

    def _send(self, to, deliver) -> bool:
        if self.is_dead or not self._network.reaches(self.me, to):
            return False
        self._network.send(self.me, to, deliver)
        return True

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        peer = self._network.peers.get(to)
        if peer is None or not self._is_linked(peer):
            raise PeerUnavailable(f"no link to broker {to}", is_sent=False)
        await asyncio.sleep(self._network.delay())
        answer = b"".join(await peer.on_call[kind](self.me, memoryview(b"".join(body))))
        await asyncio.sleep(self._network.delay())
        if not self._is_linked(peer):
            raise PeerUnavailable(f"no link to broker {to}", is_sent=True)
        return memoryview(answer)

    async def stream(self, to: NodeId, kind: int, head: bytes, chunks: AsyncIterator[Sequence[Buffer]]) -> memoryview:
        peer = self._network.peers.get(to)
        if peer is None or not self._is_linked(peer):
            raise PeerUnavailable(f"no link to broker {to}", is_sent=False)
        answer = await peer.on_stream[kind](self.me, head, self._arriving(peer, chunks))
        if not self._is_linked(peer):
            raise PeerUnavailable(f"no link to broker {to}", is_sent=False)
        return memoryview(answer)

    async def _arriving(self, peer: "SimPeers", chunks: AsyncIterator[Sequence[Buffer]]) -> AsyncIterator[memoryview]:
        async for chunk in chunks:
            joined = b"".join(chunk)
            await asyncio.sleep(self._network.delay())
            if not self._is_linked(peer):
                raise PeerUnavailable("the link was cut", is_sent=True)
            yield memoryview(joined)

    def _is_linked(self, peer: "SimPeers") -> bool:
        return not self.is_dead and not peer.is_dead and self.is_up(peer.me)


@dataclass
class Network:
    loop: SimLoop
    random: Random
    faults: Faults = field(default_factory=Faults)
    peers: dict[NodeId, SimPeers] = field(default_factory=dict)
    cut: set[tuple[NodeId, NodeId]] = field(default_factory=set)

    def reaches(self, sender: NodeId, to: NodeId) -> bool:
        return sender in self.peers and to in self.peers and (sender, to) not in self.cut

    def delay(self) -> float:
        return self.random.uniform(0.0002, self.faults.slowest)

    def send(self, sender: NodeId, to: NodeId, deliver) -> None:
        if self.random.random() < self.faults.lost:
            return
        for _ in range(2 if self.random.random() < self.faults.doubled else 1):
            self.loop.call_later(self.delay(), self._deliver, sender, to, deliver)

    def _deliver(self, sender: NodeId, to: NodeId, deliver) -> None:
        peer = self.peers.get(to)
        if peer is not None and not peer.is_dead and (sender, to) not in self.cut:
            deliver(peer)
