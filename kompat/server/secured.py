"""A listener with TLS or SASL, by its configuration."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from kompat.config.definitions import without_listener
from kompat.config.listeners import Listener
from kompat.errors import ConfigError
from kompat.handlers.support.sasl_session import OAUTHBEARER, PLAIN, SaslSession, SaslSettings
from kompat.security import plain, principals, tls
from kompat.server.listener import Entrance
from kompat.server.unauthenticated import AuthenticatingOwner, CertifiedConnection, SaslConnection

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.users import Users
    from kompat.config.broker import BrokerConfig
    from kompat.server.token_keys import TokenKeys

log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"


class Secured:
    """Raises ConfigError where its keys or users cannot be read. While it runs, what cannot be read changes nothing."""

    def __init__(self, config: BrokerConfig, clock: Clock, listener: Listener) -> None:
        self._config = config
        self._clock = clock
        self._name = listener.name
        self._tls: ssl.SSLContext | None = tls.context(self._setting) if listener.protocol.has_tls else None
        self._tokens: TokenKeys | None = None  # once OAUTHBEARER is enabled
        self._enabling: asyncio.Task[None] | None = None
        if listener.protocol.has_sasl and self._needs_tokens:
            self._tokens = self._token_keys()
        self._sasl = self._sasl_settings() if listener.protocol.has_sasl else None
        self._rules = principals.PrincipalRules(self._setting("ssl.principal.mapping.rules"))
        config.watch(self._changed)

    def _setting(self, name: str, mechanism: str = "") -> Any:
        return self._config.of_listener(self._name, name, mechanism)

    def entrance(self, users: Users) -> Entrance:
        if self._tokens is not None:
            self._tokens.start()
        if self._sasl is not None:
            return Entrance(partial(self._sasl_connection, users), self._tls)
        return Entrance(partial(CertifiedConnection, listener=self._name, rules=self._rules), self._tls)

    def _sasl_connection(self, users: Users, owner: AuthenticatingOwner) -> SaslConnection:
        settings = self._sasl or SaslSettings(())

        def session(connection: SaslConnection) -> SaslSession:
            return SaslSession(settings, users, self._clock, known=connection.known, failed=connection.failed)

        return SaslConnection(owner, self._name, session, settings.longest_request)

    def _changed(self, names: frozenset[str]) -> None:
        """Connections to come are met with other keys, users or mechanisms."""
        kinds = {without_listener(name).partition(".")[0] for name in names}
        try:
            if "ssl" in kinds and self._tls is not None:
                tls.load_key(self._tls, self._setting)
            if "sasl" in kinds and self._sasl is not None:
                self._change_sasl()
        except ConfigError as error:
            log.error("a listener stays as it was", extra={"listener": self._name, "reason": error})  # noqa: TRY400

    def _change_sasl(self) -> None:
        """Raises ConfigError. What is imported where tokens are enabled takes too long for the event loop."""
        if self._needs_tokens:
            self._enabling = asyncio.ensure_future(self._enable_tokens())
        else:
            self._sasl = self._sasl_settings()

    async def _enable_tokens(self) -> None:
        try:
            self._tokens = await asyncio.to_thread(self._token_keys)
            self._sasl = self._sasl_settings()
        except ConfigError as error:
            log.error("a listener stays as it was", extra={"listener": self._name, "reason": error})  # noqa: TRY400

    @property
    def _needs_tokens(self) -> bool:
        return OAUTHBEARER in self._setting("sasl.enabled.mechanisms") and self._tokens is None

    def _token_keys(self) -> TokenKeys:
        try:
            from kompat.server.token_keys import TokenKeys  # which needs an extra
        except ImportError as missing:
            raise ConfigError(
                f"sasl.enabled.mechanisms: OAUTHBEARER needs {missing.name}, which is not installed: pip install 'kompat[oauth]'"
            ) from None
        return TokenKeys(partial(self._setting, mechanism=OAUTHBEARER), self._clock)

    def _sasl_settings(self) -> SaslSettings:
        """Raises ConfigError."""
        mechanisms = self._setting("sasl.enabled.mechanisms")
        jaas = self._setting(JAAS, PLAIN) if PLAIN in mechanisms else None
        return SaslSettings(
            mechanisms=mechanisms,
            lifetimes_ms={each: self._setting("connections.max.reauth.ms", each) for each in mechanisms},
            failure_delay=self._config["connection.failed.authentication.delay.ms"] / 1000,
            plain_users=plain.listed_users(JAAS, jaas) if jaas else {},
            longest_request=self._setting("sasl.server.max.receive.size"),
            verify_token=self._tokens.verify if self._tokens is not None else None,
        )
