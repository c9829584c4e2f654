"""Brokers' links on real sockets, and a peer that speaks raw frames, to misbehave where a broker would not."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from kompat.raft.links.frames import Head, Kind, Parcel, head_of, parcel
from kompat.raft.links.handshake import NO_LINK, NONCE_SIZE, Dialling, Party, Secrets
from kompat.raft.links.identity import Identity
from kompat.raft.peers import Peers
from kompat.types import NodeId

SECRET = b"the secret of the tests' cluster"
IDENTITY = Identity(SECRET)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)

Address = tuple[str, int]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Broker:
    """Peers that listen, and what they have heard."""

    def __init__(self, node: NodeId, identity: Identity = IDENTITY, **settings: Any) -> None:
        self.peers = Peers(node, identity, **settings)
        self.node = node
        self.address: Address = ("", 0)
        self.heard: list[tuple[NodeId, bytes, bytes, list[bytes]]] = []
        self.heartbeats: list[tuple[NodeId, bytes]] = []
        self.events: list[tuple[str, NodeId]] = []
        self.peers.receive_raft(self._on_raft, lambda node, blob: self.heartbeats.append((node, bytes(blob))))
        self.peers.on_up = lambda node: self.events.append(("up", node))
        self.peers.on_down = lambda node: self.events.append(("down", node))

    def _on_raft(self, node: NodeId, group: bytes, header: memoryview, payloads: list[memoryview]) -> None:
        self.heard.append((node, group, bytes(header), [bytes(each) for each in payloads]))

    async def __aenter__(self) -> Broker:
        self.address = await self.peers.listen("127.0.0.1", self.address[1])
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.peers.close()

    def dial(self, other: Broker) -> None:
        self.peers.connect(other.node, *other.address)

    async def linked(self, *others: Broker) -> None:
        await until(lambda: all(self.peers.is_up(each.node) and each.peers.is_up(self.node) for each in others))


@asynccontextmanager
async def two_brokers(**settings: Any) -> AsyncIterator[tuple[Broker, Broker]]:
    async with Broker(ONE, **settings) as one, Broker(TWO, **settings) as two:
        one.dial(two)
        await one.linked(two)
        yield one, two


class RawPeer:
    """A socket that has shaken hands as node 9, and from there on says and reads what the test wants."""

    node = NodeId(9)

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._beats: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, address: Address, *, receive_buffer: int = 0) -> RawPeer:
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(connection, address)
        return cls(*await asyncio.open_connection(sock=connection, limit=4096))

    async def shake_hands(self, with_: NodeId, secret: bytes = SECRET, **party: Any) -> None:
        me = Party(**({"node": self.node, "incarnation": secrets.token_bytes(8)} | party))
        handshake = Dialling(me, with_, Secrets(secret), secrets.token_bytes(NONCE_SIZE))
        self.say(handshake.hello())
        proof = handshake.receive(memoryview(await self.frame()))
        assert proof is not None
        self.say(proof)
        handshake.receive(memoryview(await self.frame()))
        self.say(handshake.ready(NO_LINK))

    def say(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)

    def send(self, message: Parcel) -> None:
        self.writer.writelines(message[0])

    def keep_beating(self) -> None:
        async def beat() -> None:
            while True:
                self.send(parcel(Kind.BEAT, 0))
                await asyncio.sleep(0.05)

        self._beats = asyncio.get_running_loop().create_task(beat())

    async def frame(self) -> bytes:
        async with asyncio.timeout(20):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def next(self, *kinds: Kind) -> tuple[Head, bytes]:
        """The next frame of one of the kinds; the others are passed over."""
        while True:
            frame = await self.frame()
            head = head_of(memoryview(frame))
            if head.kind in kinds:
                return head, frame[8:]

    async def is_closed(self) -> bool:
        """Whether the other side closes the connection; what it still sends is thrown away."""
        try:
            async with asyncio.timeout(20):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
        self.writer.transport.abort()


@asynccontextmanager
async def raw_peer(broker: Broker, *, receive_buffer: int = 0, is_beating: bool = True) -> AsyncIterator[RawPeer]:
    """A peer that is linked with the broker."""
    peer = await RawPeer.connect(broker.address, receive_buffer=receive_buffer)
    try:
        await peer.shake_hands(broker.node)
        await until(lambda: broker.peers.is_up(peer.node))
        if is_beating:
            peer.keep_beating()
        yield peer
    finally:
        await peer.close()
