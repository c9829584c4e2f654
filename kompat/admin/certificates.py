"""TLS on the HTTP port, by Kafka's settings: those of a listener that is called HTTP."""

from __future__ import annotations

import logging
from typing import Any

from kompat.admin.door import HTTP
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import without_listener
from kompat.errors import ConfigError, KafkaError
from kompat.security import principals, tls

log = logging.getLogger(__name__)


class Certificates:
    """The broker's own, and those of clients. Raises ConfigError where they cannot be read."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.context = tls.context(self._setting)
        self._rules = principals.PrincipalRules(self._setting("ssl.principal.mapping.rules"))
        config.watch(self._changed)

    def _setting(self, name: str) -> Any:
        return self._config.of_listener(HTTP, name)

    def principal(self, certificate: bytes) -> str | None:
        """Who shows it; None where no rule says so."""
        try:
            return self._rules.principal(principals.subject(certificate))
        except KafkaError as error:
            log.info("a client is not let in", extra={"listener": HTTP, "reason": error})
            return None

    def _changed(self, names: frozenset[str]) -> None:
        """Connections to come are shown another key."""
        if any(without_listener(name).startswith("ssl.") for name in names):
            try:
                tls.load_key(self.context, self._setting)
            except ConfigError as error:
                log.error("a listener stays as it was", extra={"listener": HTTP, "reason": error})  # noqa: TRY400
