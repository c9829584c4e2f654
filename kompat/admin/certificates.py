"""TLS on the HTTP port, by Kafka's settings of a listener named HTTP."""

from __future__ import annotations

import logging
from typing import Any

from kompat.admin.http_server import HTTP
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import without_listener
from kompat.errors import ConfigError, KafkaError
from kompat.security import principals, tls

log = logging.getLogger(__name__)


class Certificates:
    """The broker's certificate, and the principals of client certificates. Raises ConfigError if files cannot be read."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.context = tls.context(self._setting)
        self._rules = principals.PrincipalRules(self._setting("ssl.principal.mapping.rules"))
        config.watch(self._changed)

    def _setting(self, name: str) -> Any:
        return self._config.of_listener(HTTP, name)

    def principal(self, certificate: bytes) -> str | None:
        """The principal of a client certificate; None if no mapping rule matches."""
        try:
            return self._rules.principal(principals.subject(certificate))
        except KafkaError as error:
            log.info("a client certificate is rejected", extra={"listener": HTTP, "reason": error})
            return None

    def _changed(self, names: frozenset[str]) -> None:
        """Load a changed key, for new connections."""
        if any(without_listener(name).startswith("ssl.") for name in names):
            try:
                tls.load_key(self.context, self._setting)
            except ConfigError as error:
                log.error("a listener keeps its certificate", extra={"listener": HTTP, "reason": error})  # noqa: TRY400
