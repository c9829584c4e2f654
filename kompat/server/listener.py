"""The listening sockets and all connections that came through them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kompat.server.connection import Connection
from kompat.server.dispatch import Dispatcher
from kompat.server.limits import WARNING_SECONDS, Budget, Limits, Unauthenticated
from kompat.server.owner import Owner

if TYPE_CHECKING:
    import ssl

    from kompat.cluster.client_quotas import ClientQuotas

log = logging.getLogger(__name__)

MAX_SWEEP_SECONDS = 5.0
HANDSHAKE_SECONDS = 15.0  # of TLS
BYE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Entrance:
    """One of the addresses: what is spoken there."""

    connect: Callable[[Owner], Connection]
    tls: ssl.SSLContext | None = None


class Listener:
    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: Limits,
        *,
        on_left: Callable[[str], None] = lambda _: None,
        quotas: ClientQuotas | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`on_left` is called with the id of a connection that has ended. `quotas`: those on connections.

        `budget`: one that is shared with others than Kafka's clients."""
        self._quotas = quotas
        self.dispatcher = dispatcher
        self._on_left = on_left
        self.limits = limits
        self.budget = budget or Budget(limits.total_bytes)
        self.budget.on_spent = self._hold_back
        self.budget.on_short = self._sweep_soon
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self._by_host: Counter[str] = Counter()  # how many connections there are
        self._last_warned = float("-inf")
        self.unread = 0  # bytes of answers to clients that are slow to read
        self.accepted = 0  # connections, since the start
        self.unauthenticated: Unauthenticated[Connection] = Unauthenticated(limits)
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Handle | None = None
        self._all_left: asyncio.Event = asyncio.Event()

    async def start(
        self, host: str, port: int, bound: socket.socket | None = None, entrance: Entrance | None = None
    ) -> tuple[str, int]:
        """Accept connections. Returns the address, because port 0 takes any free one. `bound`: a socket that has it already.

        May be called again, for other addresses. `entrance`: TLS and SASL of that address, if it has them."""
        where: dict[str, Any] = {"sock": bound} if bound is not None else {"host": host or None, "port": port}
        if entrance is not None and entrance.tls is not None:
            where |= {
                "ssl": entrance.tls,
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": BYE_SECONDS,
            }
        connect = entrance.connect if entrance is not None else Connection
        server = await self.loop.create_server(lambda: connect(self), **where, backlog=self.limits.accept_backlog)
        for each in server.sockets:
            self._size_buffers(each)
        if not self._servers:
            self._sweep()
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return name[0], name[1]

    def _size_buffers(self, listening: socket.socket) -> None:
        """Connections inherit them from the socket that accepted them."""
        for option, size in (
            (socket.SO_RCVBUF, self.limits.receive_buffer_bytes),
            (socket.SO_SNDBUF, self.limits.send_buffer_bytes),
        ):
            if size > 0:
                listening.setsockopt(socket.SOL_SOCKET, option, size)

    def change_limits(self, limits: Limits) -> None:
        """For connections to come, and for how many there may be."""
        self.limits = limits

    async def drain(self, seconds: float) -> None:
        """Accept nothing more, answer what is under way, and cut off what has not ended by then."""
        for server in self._servers:
            server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self.connections):
            connection.drain()
        await self._wait_until_left(seconds)
        for connection in list(self.connections):
            connection.abort()
        await self._wait_until_left(1.0)

    async def _wait_until_left(self, seconds: float) -> None:
        if self.connections:
            self._all_left.clear()
            try:
                await asyncio.wait_for(self._all_left.wait(), seconds)
            except TimeoutError:
                log.warning("connections have not ended in time", extra={"count": len(self.connections)})

    # -- calls of connections ----------------------------------------------------------------------------------------
    def joined(self, connection: Connection) -> bool:
        self.accepted += 1
        self.connections.add(connection)
        host = connection.client.host
        self._by_host[host] += 1
        if len(self.connections) > self.limits.connections:
            self._turn_away("too many connections, closing the newest", connection)
            return False
        if self._by_host[host] > self.limits.connections_of_ip.get(host, self.limits.connections_per_ip):
            self._turn_away("too many connections from one address, closing the newest", connection)
            return False
        if self._quotas is not None and self._quotas.counts_connections:
            self._count(self._quotas, connection)
        return True

    def _turn_away(self, reason: str, connection: Connection) -> None:
        """Logged now and then: a client that reconnects often must not fill the log."""
        now = self.loop.time()
        if now - self._last_warned >= WARNING_SECONDS:
            self._last_warned = now
            log.warning(reason, extra=connection.facts())

    def _count(self, quotas: ClientQuotas, connection: Connection) -> None:
        seconds = quotas.connected(connection.client.host)
        if seconds > 0:
            log.info("too many connections from one address", extra={"client": connection.client.connection_id})
            connection.turn_away(seconds)

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        host = connection.client.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._on_left(connection.client.connection_id)
        if not self.connections:
            self._all_left.set()

    # -- memory and time ---------------------------------------------------------------------------------------------
    def _hold_back(self) -> None:
        """Stop reading, except of requests that have begun to arrive: else each of many connections would read once more."""
        for connection in self.connections:
            connection.regulate()

    def _sweep_soon(self) -> None:
        """A connection waits for memory: look at once for connections that have stalled."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = self.loop.call_soon(self._sweep)

    def _sweep(self) -> None:
        limits = self.limits
        shortest = min(limits.stall_seconds, limits.unread_seconds, limits.idle_seconds, limits.login_seconds)
        is_short = self.budget.is_short
        pause = limits.scarce_seconds / 4 if is_short else min(MAX_SWEEP_SECONDS, shortest / 4)
        self._sweeper = self.loop.call_later(pause, self._sweep)
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now, is_memory_short=is_short)
