"""The HTTP server: only a listening socket, until the first connection.

The application is imported at the first connection, in a worker thread: a broker that is only used by Kafka's protocol
starts as fast as without an HTTP port, and needs no more memory.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kompat.admin.broker_info import BrokerInfo
from kompat.admin.sampling import Sampler
from kompat.errors import ConfigError
from kompat.security.plain import listed_users

if TYPE_CHECKING:
    from kompat.admin.certificates import Certificates
    from kompat.admin.limits import Budget
    from kompat.admin.serving import Serving
    from kompat.config.broker import BrokerConfig
    from kompat.handlers.support.services import Services

log = logging.getLogger(__name__)

HTTP = "HTTP"  # the listener's name in settings
JAAS, PLAIN = "sasl.jaas.config", "PLAIN"
TLS = "SSL"  # as Kafka calls it
LOOPBACK = "127.0.0.1"
NONE = -1  # the port number that turns HTTP off
BACKLOG = 1024
DRAIN_SECONDS = 3.0


class HttpServer:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._serving: Serving | None = None
        self._up: tuple[Services, tuple[str, int], Sampler, Budget] | None = None
        self._certificates: Certificates | None = None  # if it uses TLS
        self.endpoint: tuple[str, int] | None = None  # None: there is no HTTP port

    @property
    def address(self) -> str:
        """host:port; empty if there is no HTTP port."""
        if self.endpoint is None:
            return ""
        host, port = self.endpoint
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def scheme(self) -> str:
        return "http" if self._certificates is None else "https"

    async def bind(self) -> None:
        """Bind the port. Raises ConfigError if it is in use, or if its keys cannot be read."""
        host, port = self._config["kompat.http.host"], self._config["kompat.http.port"]
        if port == NONE:
            return
        if users := self._config.of_listener(HTTP, JAAS, PLAIN):
            listed_users(f"listener.name.http.plain.{JAAS}", users)
        if self._config["kompat.http.security.protocol"] == TLS:
            from kompat.admin.certificates import Certificates  # most brokers do not need it

            self._certificates = Certificates(self._config)
        try:
            self._socket = await self._listen(host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"the HTTP port {host}:{port} cannot be opened: {reason}; --http-port sets another port, or none"
            ) from None
        self.endpoint = self._socket.getsockname()[:2]
        self._loop.add_reader(self._socket.fileno(), self._connected)

    async def _listen(self, host: str, port: int) -> socket.socket:
        try:
            return _listening(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:  # a host name, which may need a DNS lookup
            return await asyncio.to_thread(_listening, host, port)

    def serve(self, services: Services, kafka: tuple[str, int], budget: Budget) -> None:
        """The broker is up. `kafka` is the endpoint of its first listener; `budget` limits the bytes that the connections of both ports hold.

        Other brokers can send it requests (BrokerInfo), even if it has no HTTP port.
        """
        sampler = Sampler(services.meters, services.clock)
        BrokerInfo(services, self.address, sampler)
        self._up = (services, kafka, sampler, budget)
        if self._socket is not None:
            sampler.start()
            self._warn(services)
        if self._serving is not None:
            self._serving.application.serve(*self._up)

    def _warn(self, services: Services) -> None:
        if self._certificates is None and self._config["kompat.http.host"] != LOOPBACK:
            from kompat.admin.security import warn_of_plaintext  # its imports are needed at the first connection

            warn_of_plaintext(services)

    def _connected(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._opening = asyncio.ensure_future(self._try_to_open(self._socket))

    async def _try_to_open(self, bound: socket.socket) -> None:
        try:
            await self._open(bound)
        except Exception:
            log.exception("the HTTP port cannot be opened")
            bound.close()  # clients see it at once

    async def _open(self, bound: socket.socket) -> None:
        build = await asyncio.to_thread(_load)
        self._serving = build(self._config)
        if self._up is not None:
            self._serving.application.serve(*self._up)
        await self._serving.start(bound, self._certificates)

    async def close(self) -> None:
        """Drain connections, and release the port."""
        if self._up is not None:
            self._up[2].close()
        if self._socket is None:
            return
        if self._opening is None:
            self._loop.remove_reader(self._socket.fileno())
        else:
            await self._opening
        if self._serving is not None:
            await self._serving.close(DRAIN_SECONDS)
        self._socket.close()
        self._socket = None


def _load() -> Callable[[BrokerConfig], Serving]:
    """Do the slow imports, in a worker thread."""
    from kompat.admin.build import build, routes

    routes()
    return build


def _listening(host: str, port: int, flags: int = 0) -> socket.socket:
    found = socket.getaddrinfo(host or LOOPBACK, port, type=socket.SOCK_STREAM, flags=flags)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
