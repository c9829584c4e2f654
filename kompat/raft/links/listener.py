"""Accepts links of other brokers. A peer that is not authenticated yet costs little, and not for long.

Sockets are accepted here and not by asyncio's server: that would begin TLS, with its buffers, before they are counted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 64
BACKLOG = 128
_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # a machine without IPv6 still knows its addresses
REST_SECONDS = 0.2  # where there are no file descriptors left


class LinkListener:
    def __init__(self, welcome: Callable[[socket.socket], Awaitable[None]]) -> None:
        """`welcome` takes a socket, and is done when the peer is authenticated, refused, or out of time."""
        self._welcome = welcome
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._unauthenticated: dict[asyncio.Task[None], None] = {}  # the oldest first

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address, because port 0 takes any free one."""
        infos = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        refused: OSError | None = None
        for family, _, _, _, address in dict.fromkeys(infos):
            if self._sockets and port == 0:
                break  # another family would get another port
            try:
                self._sockets.append(_listening(family, address))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refused = error
        if not self._sockets:
            raise refused or OSError(f"there is no address to listen at for {host!r}")
        self._accepting = [self._loop.create_task(self._accept(each)) for each in self._sockets]
        name = self._sockets[0].getsockname()
        return name[0], name[1]

    async def close(self) -> None:
        tasks = [*self._accepting, *self._unauthenticated]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    @property
    def unauthenticated(self) -> int:
        return len(self._unauthenticated)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listening)
            except OSError as error:
                log.warning("other brokers cannot connect", extra={"reason": str(error)})
                await asyncio.sleep(REST_SECONDS)
                continue
            if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
                # A broker authenticates within moments: the oldest connection is none.
                next(iter(self._unauthenticated)).cancel()
            task = self._loop.create_task(self._meet(connection))
            self._unauthenticated[task] = None
            task.add_done_callback(lambda done: self._unauthenticated.pop(done, None))

    async def _meet(self, connection: socket.socket) -> None:
        try:
            await self._welcome(connection)
        except asyncio.CancelledError:
            connection.close()
            raise


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
