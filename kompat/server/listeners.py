"""The broker's listeners, from its settings: their addresses, and what is spoken at each."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from kompat.config.definitions import without_listener
from kompat.config.listeners import Listener as Setting
from kompat.config.listeners import SecurityProtocol
from kompat.errors import ConfigError
from kompat.handlers.sasl_session import PLAIN, SaslSession, SaslSettings
from kompat.security import plain, principals, tls
from kompat.server.connection import Connection
from kompat.server.listener import Entrance, Listener
from kompat.server.strangers import CertifiedConnection, SaslConnection, StrangersOwner

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.users import Users
    from kompat.config.broker import BrokerConfig

log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"


class Listeners:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._sasl: dict[str, tuple[int, SaslSettings]] = {}  # with the version of the settings it was made of
        self._bound: dict[str, socket.socket] = {}
        self.addresses = {each.name: (each.host, each.port) for each in config.listeners}

    def prepare(self) -> None:
        """Read keys and users, so that a broker that could not let anybody in does not start. Raises ConfigError."""
        for each in self._config.listeners:
            if each.protocol.has_tls:
                self._contexts[each.name] = tls.context(self._setting(each.name))
            if each.protocol is SecurityProtocol.SSL:
                self._rules(each.name)
            if each.protocol.has_sasl:
                self._sasl[each.name] = (self._config.version, sasl_settings(self._config, each.name))

    async def bind(self) -> None:
        """Choose the ports that are not given: other brokers have to be told which, before clients come."""
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
        self._config.watch(self._changed)

    def _entrance(self, listener: Setting, users: Users) -> Entrance:
        name, context = listener.name, self._contexts.get(listener.name)
        if listener.protocol.has_sasl:
            return Entrance(partial(self._sasl_connection, name, users), context)
        if context is not None:
            rules = self._rules(name)
            return Entrance(lambda owner: CertifiedConnection(owner, name, rules), context)
        return Entrance(partial(Connection, listener=name))

    def _sasl_connection(self, name: str, users: Users, owner: StrangersOwner) -> SaslConnection:
        settings = self._sasl_settings(name)

        def session(connection: SaslConnection) -> SaslSession:
            return SaslSession(settings, users, self._clock, known=connection.known, failed=connection.failed)

        return SaslConnection(owner, name, session, settings.longest_request)

    def _rules(self, name: str) -> principals.PrincipalRules:
        return principals.PrincipalRules(self._config.of_listener(name, "ssl.principal.mapping.rules"))

    def _setting(self, name: str) -> tls.Setting:
        return partial(self._config.of_listener, name)

    # -- changes while it runs -------------------------------------------------------------------------------------
    def _changed(self, names: frozenset[str]) -> None:
        if any(without_listener(name).startswith("ssl.") for name in names):
            for name, context in self._contexts.items():
                try:
                    tls.load_key(context, self._setting(name))
                except ConfigError as error:
                    log.error("the certificate of before stays", extra={"listener": name, "reason": error})  # noqa: TRY400

    def _sasl_settings(self, name: str) -> SaslSettings:
        version, settings = self._sasl[name]
        if version != self._config.version:
            try:
                settings = sasl_settings(self._config, name)
            except ConfigError as error:
                log.error("users and mechanisms stay as before", extra={"listener": name, "reason": error})  # noqa: TRY400
            self._sasl[name] = (self._config.version, settings)
        return settings


def sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings:
    """Raises ConfigError."""

    def setting(name: str, mechanism: str = "") -> Any:
        return config.of_listener(listener, name, mechanism)

    mechanisms = setting("sasl.enabled.mechanisms")
    jaas = setting(JAAS, PLAIN) if PLAIN in mechanisms else None
    return SaslSettings(
        mechanisms=mechanisms,
        lifetimes_ms={each: setting("connections.max.reauth.ms", each) for each in mechanisms},
        failure_delay=config["connection.failed.authentication.delay.ms"] / 1000,
        plain_users=plain.listed_users(JAAS, jaas) if jaas else {},
        longest_request=setting("sasl.server.max.receive.size"),
    )


def _bound(host: str) -> socket.socket:
    """A socket with a port of its own, that nobody can connect to yet."""
    family, kind, protocol, _, address = socket.getaddrinfo(host or "127.0.0.1", 0, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    bound.bind(address)
    return bound
