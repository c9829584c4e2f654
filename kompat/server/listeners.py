"""The broker's listeners, from its settings: their addresses, and what is spoken at each."""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING

from kompat.config.listeners import Listener as Setting
from kompat.config.listeners import SecurityProtocol
from kompat.server.connection import Connection
from kompat.server.listener import Entrance, Listener

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.users import Users
    from kompat.config.broker import BrokerConfig
    from kompat.server.secured import Secured


log = logging.getLogger(__name__)

LOOPBACK = ("127.", "::1", "::ffff:127.")


class Listeners:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._secured: dict[str, Secured] = {}
        self._bound: dict[str, socket.socket] = {}
        self.addresses = {each.name: (each.host, each.port) for each in config.listeners}

    def prepare(self) -> None:
        """Read keys and users, so that a broker that could not authenticate any client does not start. Raises ConfigError."""
        for each in self._config.listeners:
            if each.protocol is not SecurityProtocol.PLAINTEXT:
                from kompat.server.secured import Secured  # what it imports most brokers do not need

                self._secured[each.name] = Secured(self._config, self._clock, each)

    async def bind(self) -> None:
        """Choose the ports that are not configured: other brokers have to know them before clients connect."""
        for name, (host, port) in self.addresses.items():
            if port == 0:
                self._bound[name] = found = await asyncio.to_thread(_bound, host)
                self.addresses[name] = (host, found.getsockname()[1])

    def close(self) -> None:
        for bound in self._bound.values():
            bound.close()

    async def open(self, listener: Listener, users: Users) -> None:
        for each in self._config.listeners:
            host, port = self.addresses[each.name]
            entrance = self._entrance(each, users)
            self.addresses[each.name] = await listener.start(host, port, self._bound.get(each.name), entrance)
        self._warn_of_open_ones()

    def _warn_of_open_ones(self) -> None:
        """Warn of listeners that accept any client of the network, which an operator may not have meant."""
        open_ones = [
            str(each)
            for each in self._config.listeners
            if not self._asks(each) and not self.addresses[each.name][0].startswith(LOOPBACK)
        ]
        if open_ones:
            log.warning(
                "a listener lets in everybody who reaches it: SASL or ssl.client.auth=required ends that",
                extra={"listeners": open_ones},
            )

    def _asks(self, listener: Setting) -> bool:
        has_certificates = self._config.of_listener(listener.name, "ssl.client.auth") == "required"
        return listener.protocol.has_sasl or (listener.protocol.has_tls and has_certificates)

    def _entrance(self, listener: Setting, users: Users) -> Entrance:
        secured = self._secured.get(listener.name)
        return secured.entrance(users) if secured is not None else Entrance(partial(Connection, listener=listener.name))


def _bound(host: str) -> socket.socket:
    """A socket with a free port, which does not accept connections yet."""
    family, kind, protocol, _, address = socket.getaddrinfo(host or "127.0.0.1", 0, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    bound.bind(address)
    return bound
