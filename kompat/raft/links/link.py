"""One connection to one broker: the handshake, then frames both ways, and signs of life.

A link always reads: what peers can make it hold is bounded by credits and counts, so that Raft messages are never stuck
behind something that is not consumed. It writes what the outbox gives while the socket takes it, and leaves the rest there,
where what is urgent can still pass.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any, Protocol

from kompat.errors import PeerUnavailable, ProtocolError
from kompat.protocol.frames import FrameReader
from kompat.raft.links.calls import Calls, Handlers
from kompat.raft.links.frames import HEAD_SIZE, PIECE, Kind, Parcel, parcel, read_raft
from kompat.raft.links.handshake import LONGEST_MESSAGE, Dialling, Handshake, Met, Refusal
from kompat.raft.links.identity import certified_nodes
from kompat.raft.links.outbox import Lane, Outbox
from kompat.types import NodeId

WRITE_AHEAD = 256 * 1024  # handed to the socket before it has sent what came before
UNSENT_BYTES = 256 * 1024  # kept by the operating system: what lies there cannot be passed any more
CLOSED = "it has closed the connection"
_TCP_NOTSENT_LOWAT = 25  # Linux's number; the socket module has no name for it

_PROBE = parcel(Kind.BEAT, 0)
_RAFT, _HEARTBEATS, _BEAT = int(Kind.RAFT), int(Kind.HEARTBEATS), int(Kind.BEAT)


class Owner(Protocol):
    """The owner of the links."""

    loop: asyncio.AbstractEventLoop
    max_frame: int
    queue_bytes: int
    handlers: Handlers

    def agree(self, met: Met) -> bytes | None:
        """The last link before this one, if it is kept; None: there is a better one."""
        ...

    def is_linked(self, link: Link) -> None: ...

    def is_lost(self, link: Link, reason: str) -> None: ...


class Link(asyncio.BufferedProtocol):
    def __init__(self, owner: Owner, greet: Callable[[frozenset[int] | None], Handshake]) -> None:
        """`greet` begins the handshake, given the node ids that the peer's certificate allows."""
        self._owner = owner
        self._loop = owner.loop
        self._greet = greet
        self._reader = FrameReader(LONGEST_MESSAGE)
        self._outbox = Outbox(owner.queue_bytes)
        self._receive: Callable[[memoryview], None] = self._shake_hands
        self._room: list[asyncio.Future[None]] = []  # of senders that wait for room
        self._reason = CLOSED  # unless there is a better one
        self._silent_beats = 0
        self._is_heard = self._is_quiet = True
        self._is_scheduled = self._is_paused = self._is_closing = self._is_trusted = False
        self.met: Met | None = None  # when the link is up
        self.calls: Calls
        # When it is decided: why the link was refused, by whomever; None where it is up, or another one is kept.
        self.greeted: asyncio.Future[str | None] = self._loop.create_future()

    @property
    def peer(self) -> NodeId:
        assert self.met is not None  # noqa: S101 - only called for links that are up
        return self.met.peer.node

    # -- calls of the transport --------------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_AHEAD)
        _tune(transport.get_extra_info("socket"))
        certificate = transport.get_extra_info("peercert")
        self._handshake = self._greet(certified_nodes(certificate) if certificate else None)
        if isinstance(self._handshake, Dialling):
            self._reason = (
                "it has closed the connection without a welcome: its cluster secret or certificate may be another"
            )
            try:
                self._say(self._handshake.hello())
            except ProtocolError as error:
                self.close(str(error))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._is_heard = True
        try:
            for frame in self._reader.received(nbytes):
                if self._is_closing:
                    return
                self._receive(frame)
        except Refusal as refusal:
            self._say(refusal.answer)
            self.close(str(refusal), is_gentle=True)
        except ProtocolError as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.flush()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if exc is not None and not isinstance(exc, ConnectionError):
            self._reason = str(exc) or self._reason
        self._decide(self._reason)
        self._end()

    # -- calls of the owner ------------------------------------------------------------------------------------------
    def close(self, reason: str, *, is_gentle: bool = False) -> None:
        """`is_gentle`: what was sent last still reaches the peer."""
        if self._is_closing:
            return
        if is_gentle:
            self.flush()
        self._is_closing = True
        self._reason = reason
        self._decide(reason)
        if is_gentle:
            self._transport.close()
        else:
            self._transport.abort()
        self._end()

    def beat(self, patience: int) -> None:
        """Called at a steady pace: send a beat if nothing else was sent, and close a link whose peer was silent too often.

        Beats are counted, not seconds: a broker that was held up itself does not blame its peers.
        """
        self._silent_beats = 0 if self._is_heard else self._silent_beats + 1
        self._is_heard = False
        if self._silent_beats >= patience:
            self.close("it is silent")
            return
        if self._is_quiet and not self._outbox.size:
            self.send(Lane.URGENT, _PROBE)
        self._is_quiet = True

    # -- sending -----------------------------------------------------------------------------------------------------
    def offer(self, lane: Lane, parcel: Parcel) -> bool:
        """Send it if there is room."""
        if self._is_closing or not self._outbox.offer(lane, parcel):
            return False
        self._schedule()
        return True

    def send(self, lane: Lane, parcel: Parcel) -> None:
        """Send it, room or not: for what is small, or was waited for."""
        self._outbox.add(lane, parcel)
        self._schedule()

    async def room(self, lane: Lane, size: int) -> None:
        """Wait until there is room."""
        while not self._outbox.has_room(lane, size) and not self._is_closing:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._room.append(waiter)
            await waiter
        if self._is_closing:
            raise PeerUnavailable(f"the link to node {self.peer} is lost", is_sent=False)

    def flush(self) -> None:
        """Hand over what the socket takes; without this call it happens soon after, for all that was sent till then."""
        self._is_scheduled = False
        outbox = self._outbox
        while not self._is_paused and not self._is_closing:
            buffers = outbox.take(WRITE_AHEAD)
            if not buffers:
                break
            self._is_quiet = False
            self._transport.writelines(buffers)
        self._wake()

    @property
    def queued_bytes(self) -> int:
        return self._outbox.size

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.flush)

    def _wake(self) -> None:
        waiting, self._room = self._room, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _say(self, message: bytes) -> None:
        self._transport.write(len(message).to_bytes(4, "big") + message)

    # -- receiving ---------------------------------------------------------------------------------------------------
    def _shake_hands(self, frame: memoryview) -> None:
        handshake = self._handshake
        reply = handshake.receive(frame)
        if handshake.is_trusted and not self._is_trusted:
            self._trust()
        if reply is not None:
            self._say(reply)
        if handshake.met is not None:
            self._complete_handshake(handshake, handshake.met)

    def _trust(self) -> None:
        """The peer has proved itself, and waits for what comes next: from there on its frames may be long."""
        if self._reader.pending:
            raise ProtocolError("it speaks before its turn")
        self._is_trusted = True
        self._reader = FrameReader(max(self._owner.max_frame, PIECE + HEAD_SIZE))

    def _complete_handshake(self, handshake: Handshake, met: Met) -> None:
        had = self._owner.agree(met)
        if had is None:
            self._decide(None)
            self.close("another link is kept")
            return
        if isinstance(handshake, Dialling):
            self._say(handshake.ready(had))
        self.met = met
        self._reason = CLOSED
        self.calls = Calls(self, met.peer.node, self._owner.handlers, self._owner.max_frame, self._owner.queue_bytes)
        self._receive = self._dispatch
        self._decide(None)
        self._owner.is_linked(self)

    def _decide(self, refused: str | None) -> None:
        if not self.greeted.done():
            self.greeted.set_result(refused)

    def _dispatch(self, frame: memoryview) -> None:
        kind = frame[0]
        if kind == _RAFT:
            self._owner.handlers.on_raft(self.peer, *read_raft(frame))
        elif kind == _HEARTBEATS:
            self._owner.handlers.on_heartbeats(self.peer, frame[HEAD_SIZE:])
        elif kind != _BEAT:
            self.calls.receive(frame)

    def _end(self) -> None:
        self._outbox.clear()
        self._wake()
        if self.met is not None and self.calls.end():
            self._owner.is_lost(self, self._reason)


def _tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_BYTES)
