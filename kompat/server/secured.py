"""A listener that does not let everybody in, or not in the clear: TLS and SASL as its settings say."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from kompat.config.definitions import without_listener
from kompat.config.listeners import Listener
from kompat.errors import ConfigError
from kompat.handlers.sasl_session import OAUTHBEARER, PLAIN, SaslSession, SaslSettings
from kompat.security import plain, principals, tls
from kompat.server.key_file import KeyFile
from kompat.server.listener import Entrance
from kompat.server.strangers import CertifiedConnection, SaslConnection, StrangersOwner

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.users import Users
    from kompat.config.broker import BrokerConfig

log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"


class Secured:
    """Raises ConfigError where its keys or users cannot be read. While it runs, what cannot be read changes nothing."""

    def __init__(self, config: BrokerConfig, clock: Clock, listener: Listener) -> None:
        self._config = config
        self._clock = clock
        self._name = listener.name
        self._tls: ssl.SSLContext | None = tls.context(self._setting) if listener.protocol.has_tls else None
        self._sasl = sasl_settings(config, self._name) if listener.protocol.has_sasl else None
        self._rules = principals.PrincipalRules(self._setting("ssl.principal.mapping.rules"))
        config.watch(self._changed)

    def _setting(self, name: str, mechanism: str = "") -> Any:
        return self._config.of_listener(self._name, name, mechanism)

    def entrance(self, users: Users) -> Entrance:
        if self._sasl is not None:
            return Entrance(partial(self._sasl_connection, users), self._tls)
        return Entrance(partial(CertifiedConnection, listener=self._name, rules=self._rules), self._tls)

    def _sasl_connection(self, users: Users, owner: StrangersOwner) -> SaslConnection:
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
                self._sasl = sasl_settings(self._config, self._name)
        except ConfigError as error:
            log.error("a listener stays as it was", extra={"listener": self._name, "reason": error})  # noqa: TRY400


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
        token_rules=KeyFile(partial(setting, mechanism=OAUTHBEARER)).rules if OAUTHBEARER in mechanisms else None,
    )
