"""Runs the application on the broker's event loop: uvicorn's protocol, without the server around it.

uvicorn's server has signal handlers and a loop of its own, and wakes up ten times a second for them. The broker has its own
already: what is left is to accept, to keep an eye on connections that do not get on, and to end in good order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kompat.admin.problems import MEDIA_TYPE, Problem
from kompat.admin.security import SHOWN

if TYPE_CHECKING:
    from kompat.admin.app import Application
    from kompat.admin.certificates import Certificates

HEAD_SECONDS = 15.0  # for the head of a request, and between two requests
UNREAD_SECONDS = 60.0  # for a client to read something of what it has asked for
HEAD_BYTES = 32 * 1024
MOST_HEADERS = 100
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
        self.certificates: Certificates | None = None  # where it speaks TLS
        self.head_seconds = head_seconds
        self.unread_seconds = unread_seconds
        self.max_connections = max_connections
        self.loop = asyncio.get_running_loop()
        self.state = ServerState()
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
            proxy_headers=False,  # `proxies` has who may say where a request comes from
            timeout_keep_alive=int(HEAD_SECONDS),
        )
        self._config.load()
        # What it has to say of malformed requests is the client's to know.
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
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)

    @property
    def connections(self) -> set[Any]:
        return self.state.connections

    async def close(self, seconds: float) -> None:
        """Accept nothing more, end what waits, let what works finish for so long, and cut off the rest."""
        if self._server is not None:
            self._server.close()
        self.application.stopping.set()
        for connection in list(self.connections):
            connection.shutdown()
        tasks = self.state.tasks
        if tasks:
            await asyncio.wait(list(tasks), timeout=seconds)
        self._log.setLevel(logging.CRITICAL)  # uvicorn would call those that are cut off now mistakes
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks), timeout=CANCEL_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.transport.abort()


class Connection(HttpToolsProtocol):
    """One that is closed if it does not get on: the head of a request has to come, and answers have to be read."""

    def __init__(self, serving: Serving, config: uvicorn.Config) -> None:
        super().__init__(config, serving.state, {}, serving.loop)
        self._serving = serving
        self._head_due = serving.loop.time() + serving.head_seconds
        self._head_bytes = 0
        self._head_size = 0  # of what the parser has made of them
        self._has_head = False  # of the request that is under way
        self._is_body_due = False  # of it: some answers are there before they have read it
        self._unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._serving.max_connections or not self._is_let_in(transport):
            transport.abort()

    def _is_let_in(self, transport: asyncio.Transport) -> bool:
        """Whoever has shown a certificate is who it says."""
        known = self._serving.certificates
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True) if known else None
        if known is None or certificate is None:
            return True
        principal = known.principal(certificate)
        self.app_state = {SHOWN: principal}
        return principal is not None

    # -- the head --------------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        if not self._has_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._has_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._check_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._check_head(len(name) + len(value))

    def _check_head(self, more: int) -> None:
        self._head_size += more
        if self._head_size > HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            raise ValueError("the head is too long")  # the parser takes it for a malformed request

    def on_headers_complete(self) -> None:
        self._has_head = self._is_body_due = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_body_due = False
        self._begin_anew()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin_anew()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _begin_anew(self) -> None:
        """With the next head, once the request is answered and its body is gone by, for which there is as much time."""
        if self._is_answered:
            self._head_due = self.loop.time() + self._serving.head_seconds
            self._head_bytes = 0
            self._has_head = self._is_body_due

    def send_400_response(self, msg: str) -> None:
        """To what is not HTTP, or has too long a head."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # in the middle of an answer
            return
        problem = Problem(400, f"{msg} A head may have {HEAD_BYTES} bytes and {MOST_HEADERS} headers.", name="not-http")
        body = msgspec.json.encode(problem.shape())
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    # -- getting on ------------------------------------------------------------------------------------------------
    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def check(self, now: float) -> None:
        is_unread = self._unread_since is not None and now > self._unread_since + self._serving.unread_seconds
        is_late = now > self._head_due and (not self._has_head or self._is_answered)
        if is_late or is_unread:
            self.transport.abort()
