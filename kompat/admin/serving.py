"""Runs the application on the broker's event loop: uvicorn's protocol, without the server around it.

uvicorn's server has signal handlers and a loop of its own, which wakes up ten times a second. The broker has its own:
what is left is to accept connections, to close those that make no progress, and to shut down in order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kompat.admin.connection import Connection

if TYPE_CHECKING:
    from kompat.admin.app import Application
    from kompat.admin.certificates import Certificates

HEAD_SECONDS = 15.0  # for the head of a request, and between two requests
UNREAD_SECONDS = 60.0  # for a client to read a part of its response
RESERVED_CONNECTIONS = 64  # beyond the maximum, for the health routes when all others are in use
SWEEP_SECONDS = 2.0
CANCEL_SECONDS = 1.0


class Serving:
    def __init__(
        self,
        application: Application,
        max_connections: int,
        head_seconds: float = HEAD_SECONDS,
        unread_seconds: float = UNREAD_SECONDS,
    ) -> None:
        self.application = application
        self.certificates: Certificates | None = None  # if it uses TLS
        self.head_seconds = head_seconds
        self.unread_seconds = unread_seconds
        self.max_connections = max_connections
        self.share = application.share
        self.loop = asyncio.get_running_loop()
        self.state = ServerState()
        self._waiting: dict[Connection, None] = {}  # without a request in progress, the longest idle first
        self._reserved: dict[Connection, None] = {}
        self._config = uvicorn.Config(
            application.asgi,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,  # `proxies` finds the client address
            timeout_keep_alive=int(HEAD_SECONDS),
        )
        self._config.load()
        # Its warnings of malformed requests are for the client, which gets a response.
        self._log = logging.getLogger("uvicorn.error")
        self._log.setLevel(logging.ERROR)
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, bound: socket.socket, certificates: Certificates | None = None) -> None:
        self.certificates = certificates
        tls, seconds = (certificates.context, self.head_seconds) if certificates is not None else (None, None)
        self._server = await self.loop.create_server(
            self._connection, sock=bound, ssl=tls, ssl_handshake_timeout=seconds
        )
        self._sweep()

    def _connection(self) -> Connection:
        return Connection(self, self._config)

    def _sweep(self) -> None:
        self._sweeper = self.loop.call_later(min(SWEEP_SECONDS, self.head_seconds / 4), self._sweep)
        now, is_memory_short = self.loop.time(), self.share.is_spent
        for connection in list(self.connections):
            connection.check(now, is_memory_short=is_memory_short)

    # -- connections -----------------------------------------------------------------------------------------------
    def connected(self, connection: Connection) -> None:
        """A new connection replaces the one that has been idle longest. If none is idle, it may only use the health routes, so that
        clients cannot keep the broker from answering a health check."""
        if len(self.connections) - len(self._reserved) <= self.max_connections:
            self._waiting[connection] = None
        elif self._waiting:
            self._abort(next(iter(self._waiting)))
            self._waiting[connection] = None
        else:
            if len(self._reserved) >= RESERVED_CONNECTIONS:
                self._abort(next(iter(self._reserved)))
            self._reserved[connection] = None
            connection.reserve()

    def _abort(self, connection: Connection) -> None:
        self.disconnected(connection)
        self.connections.discard(connection)
        connection.transport.abort()

    def waits(self, connection: Connection) -> None:
        if connection in self.connections and connection not in self._reserved:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def works(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def disconnected(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        self._reserved.pop(connection, None)

    @property
    def connections(self) -> set[Any]:
        return self.state.connections

    async def close(self, seconds: float) -> None:
        """Accept no more connections, end waits, let requests finish for `seconds`, and abort the rest."""
        if self._server is not None:
            self._server.close()
        self.application.stopping.set()
        for connection in list(self.connections):
            connection.shutdown()
        tasks = self.state.tasks
        if tasks:
            await asyncio.wait(list(tasks), timeout=seconds)
        self._log.setLevel(logging.CRITICAL)  # uvicorn would log aborted requests as errors
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks), timeout=CANCEL_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.transport.abort()
