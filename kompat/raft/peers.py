"""The other brokers: one authenticated link to each, dialled by either side, kept up until it is no longer needed.

What is sent to a broker without a link is dropped (Raft copes) or refused (calls). Messages of one turn of the event loop
leave together. Nothing here retries a message: its sender knows whether it is still valid.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from kompat.errors import PeerUnavailable
from kompat.raft.links.calls import CallHandler, Handlers, HeartbeatHandler, RaftHandler, StreamHandler
from kompat.raft.links.dialler import Dialler
from kompat.raft.links.frames import Kind, parcel, raft_parcel
from kompat.raft.links.handshake import (
    LONGEST_CLUSTER_ID,
    NO_LINK,
    NONCE_SIZE,
    Answering,
    Dialling,
    Met,
    Party,
    Secrets,
    takes_over,
)
from kompat.raft.links.identity import Identity
from kompat.raft.links.link import CLOSED, Link
from kompat.raft.links.listener import LinkListener
from kompat.raft.links.notices import Notices
from kompat.raft.links.outbox import Lane
from kompat.types import Buffer, NodeId

log = logging.getLogger(__name__)

MAX_FRAME = 101 * 1024 * 1024  # the longest request of a client, and what is wrapped around it
QUEUE_BYTES = 64 * 1024 * 1024
BEAT_SECONDS = 0.25
SILENT_BEATS = 4
HANDSHAKE_SECONDS = 3.0
CLOSE_SECONDS = 1.0


def _ignore(_: NodeId) -> None:
    pass


class Peers:
    """Set the handlers before `listen` or `connect`. They are called on the event loop's thread.

    Bodies and payloads that handlers get are slices of the received frame: they may be kept, and are never written to again.
    """

    def __init__(
        self,
        me: NodeId,
        identity: Identity,
        *,
        max_frame: int = MAX_FRAME,
        queue_bytes: int = QUEUE_BYTES,
        cluster_id: str = "",
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        """`max_frame`: of a Raft message, a body or a chunk. `queue_bytes`: of what waits to be sent to one broker."""
        self.loop = asyncio.get_running_loop()
        self.max_frame = max_frame
        self.queue_bytes = queue_bytes
        self.handlers = Handlers()
        self.on_up: Callable[[NodeId], None] = _ignore
        self.on_down: Callable[[NodeId], None] = _ignore
        self._me = Party(me, secrets.token_bytes(8))
        self._identity = identity
        self._beat_seconds = beat_seconds
        self._links: dict[NodeId, Link] = {}
        self._had: dict[NodeId, bytes] = {}  # the last link with each
        self._gone: set[NodeId] = set()
        self._diallers: dict[NodeId, Dialler] = {}
        self._notices = Notices()
        self._listener = LinkListener(self._welcome)
        self._is_closed = False
        self._beats = self.loop.call_later(beat_seconds, self._beat)
        self.cluster_id = cluster_id

    # -- handlers ----------------------------------------------------------------------------------------------------
    def receive_raft(self, on_raft: RaftHandler, on_heartbeats: HeartbeatHandler) -> None:
        """Have these called with Raft's messages and heartbeats of other brokers."""
        self.handlers.on_raft, self.handlers.on_heartbeats = on_raft, on_heartbeats

    @property
    def on_call(self) -> dict[int, CallHandler]:
        """By kind. What a handler returns is the response; a KafkaError that it raises is raised at the caller."""
        return self.handlers.on_call

    @property
    def on_stream(self) -> dict[int, StreamHandler]:
        """By kind. Node, head, chunks; chunks arrive as they were given to `stream`."""
        return self.handlers.on_stream

    # -- linked brokers ----------------------------------------------------------------------------------------------
    @property
    def cluster_id(self) -> str:
        return self._me.cluster_id

    @cluster_id.setter
    def cluster_id(self, cluster_id: str) -> None:
        """Brokers of another cluster are refused from now on, and their links are closed."""
        if len(cluster_id.encode()) > LONGEST_CLUSTER_ID:
            raise ValueError(f"a cluster id of more than {LONGEST_CLUSTER_ID} bytes")
        self._me = replace(self._me, cluster_id=cluster_id)
        for link in list(self._links.values()):
            theirs = link.met.peer.cluster_id if link.met is not None else ""
            if cluster_id and theirs and theirs != cluster_id:
                link.close("it belongs to another cluster")

    def is_up(self, node: NodeId) -> bool:
        return node in self._links

    def is_gone(self, node: NodeId) -> bool:
        """Whether the broker has ended, rather than being unreachable: it has closed its link, or its port refuses connections."""
        return node in self._gone

    @property
    def up(self) -> list[NodeId]:
        return sorted(self._links)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept links of other brokers. Returns the address, because port 0 takes any free one."""
        return await self._listener.open(host, port)

    def connect(self, node: NodeId, host: str, port: int) -> None:
        """Keep a link to `node`, until `forget`. With another address: dial that from now on."""
        dialler = self._diallers.get(node)
        if dialler is not None:
            dialler.move(host, port)
        elif node != self._me.node:
            is_higher = self._me.node > node
            dialler = Dialler(host, port, lambda host, port: self._dial(node, host, port), is_higher=is_higher)
            self._diallers[node] = dialler
            if node in self._links:
                dialler.linked()

    def forget(self, node: NodeId) -> None:
        """Close the link, and do not dial any more. If the broker dials, it is accepted."""
        dialler = self._diallers.pop(node, None)
        if dialler is not None:
            dialler.stop()
        link = self._links.get(node)
        if link is not None:
            link.close("it is not needed any more")

    async def close(self) -> None:
        self._is_closed = True
        self._beats.cancel()
        await self._listener.close()
        tasks: list[asyncio.Task[None]] = [dialler.stop() for dialler in self._diallers.values()]
        self._diallers.clear()
        for link in list(self._links.values()):
            link.close("this broker stops", is_gentle=True)
        tasks += self.handlers.tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    # -- sending -----------------------------------------------------------------------------------------------------
    def send_raft(self, to: NodeId, group: bytes, header: bytes, payloads: Sequence[Buffer]) -> bool:
        """False: dropped, because there is no link or no room. The payloads must not be written to any more."""
        link = self._links.get(to)
        if link is None:
            return False
        message = raft_parcel(group, header, payloads)
        return self._is_sendable(to, message[1]) and link.offer(Lane.RAFT, message)

    def send_heartbeats(self, to: NodeId, blob: bytes) -> bool:
        link = self._links.get(to)
        if link is None:
            return False
        message = parcel(Kind.HEARTBEATS, 0, [blob])
        return self._is_sendable(to, message[1]) and link.offer(Lane.URGENT, message)

    def flush(self) -> None:
        """The turn is over: hand what was sent to the sockets now, and not a moment later."""
        for link in list(self._links.values()):
            if link.queued_bytes:
                link.flush()

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109 - it has an error of its own
        """The answer; or PeerUnavailable, PeerBusy, PeerTimeout, PeerFailed, or the KafkaError of its handler."""
        return await self._link(to).calls.call(kind, body, timeout)

    async def stream(self, to: NodeId, kind: int, head: bytes, chunks: AsyncIterator[Sequence[Buffer]]) -> memoryview:
        """Send all chunks, no faster than they are read; the answer at the end, or before it where the peer has seen enough."""
        return await self._link(to).calls.stream(kind, head, chunks)

    def _link(self, to: NodeId) -> Link:
        link = self._links.get(to)
        if link is None:
            raise PeerUnavailable(f"there is no link to node {to}", is_sent=False)
        return link

    def _is_sendable(self, to: NodeId, size: int) -> bool:
        if size - 4 <= self.max_frame:
            return True
        if self._notices.is_news(("long", to), self.loop.time()):
            log.error("a message is too long for other brokers", extra={"bytes": size, "limit": self.max_frame})
        return False

    # -- meeting -----------------------------------------------------------------------------------------------------
    async def _dial(self, node: NodeId, host: str, port: int) -> bool:
        tls = self._identity.tls
        link = Link(self, lambda certified: Dialling(self._me, node, self._secrets(certified), _nonce()))
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self.loop.create_connection(lambda: link, host, port, ssl=tls.client if tls else None)
                await _greeted(link)
        except (OSError, TimeoutError) as error:
            if isinstance(error, ConnectionRefusedError):
                self._gone.add(node)
            else:
                self._gone.discard(node)
            reason = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            if self._notices.is_news((node, reason), self.loop.time()):
                facts = {"peer": node, "address": f"{host}:{port}", "reason": reason}
                log.warning("no link to another broker, trying again", extra=facts)
        return node in self._links

    async def _welcome(self, connection: socket.socket) -> None:
        address = "?"
        tls = self._identity.tls
        link = Link(self, lambda certified: Answering(self._me, self._secrets(certified), _nonce()))
        try:
            address = connection.getpeername()[0]
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self.loop.connect_accepted_socket(lambda: link, connection, ssl=tls.server if tls else None)
                await _greeted(link)
        except (OSError, TimeoutError) as error:
            reason = "it does not say who it is" if isinstance(error, TimeoutError) else str(error)
            connection.close()
            if self._notices.is_news((address, reason), self.loop.time()):
                log.warning("somebody was not let in", extra={"address": address, "reason": reason})

    def _secrets(self, certified: frozenset[int] | None) -> Secrets:
        return Secrets(self._identity.secret, certified)

    # -- calls of links ----------------------------------------------------------------------------------------------
    def agree(self, met: Met) -> bytes | None:
        node = met.peer.node
        current = self._links.get(node)
        if self._is_closed or (current is not None and current.met is not None and not takes_over(met, current.met)):
            return None
        had = self._had.get(node, NO_LINK)
        self._had[node] = met.link_id
        if current is not None:
            current.close("another link has taken its place")
        return had

    def is_linked(self, link: Link) -> None:
        node = link.peer
        self._links[node] = link
        self._gone.discard(node)
        if node in self._diallers:
            self._diallers[node].linked()
        log.info("linked with another broker", extra={"peer": node})
        self.on_up(node)

    def is_lost(self, link: Link, reason: str) -> None:
        node = link.peer
        if self._links.get(node) is not link:
            return
        del self._links[node]
        if reason == CLOSED:
            self._gone.add(node)
        if node in self._diallers:
            self._diallers[node].lost()
        log.info("the link to another broker is lost", extra={"peer": node, "reason": reason})
        self.on_down(node)

    def _beat(self) -> None:
        self._beats = self.loop.call_later(self._beat_seconds, self._beat)
        for link in list(self._links.values()):
            link.beat(SILENT_BEATS)


async def _greeted(link: Link) -> None:
    """Wait until it is decided; a link that is given up before is closed."""
    try:
        refused = await link.greeted
    except asyncio.CancelledError:
        link.close("it took too long")
        raise
    if refused is not None:
        raise ConnectionError(refused)


def _nonce() -> bytes:
    return secrets.token_bytes(NONCE_SIZE)
