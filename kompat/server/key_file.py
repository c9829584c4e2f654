"""The keys that tokens are signed with: a file, read again when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kompat.errors import ConfigError
from kompat.security.oauthbearer import PublicKey, TokenRules, parse_keys

log = logging.getLogger(__name__)

JWKS = "sasl.oauthbearer.jwks.endpoint.url"


class KeyFile:
    def __init__(self, setting: Callable[[str], Any]) -> None:
        """Raises ConfigError. `setting`: of the listener, by Kafka's name."""
        self._setting = setting
        url = urlsplit(setting(JWKS) or "")
        if url.scheme != "file" or not url.path:
            raise ConfigError(f"{JWKS}: tokens are checked with keys of a file, and file:///… says of which")
        self._file = Path(unquote(url.path))
        self._stamp: object = None
        self._keys: Mapping[str, PublicKey] = {}
        self._read()

    def rules(self) -> TokenRules:
        """As they are now. A file that cannot be read any more changes nothing."""
        try:
            self._read()
        except ConfigError as error:
            log.error("the keys of before stay", extra={"reason": error})  # noqa: TRY400
        return TokenRules(
            keys=self._keys,
            issuer=self._setting("sasl.oauthbearer.expected.issuer"),
            audiences=frozenset(self._setting("sasl.oauthbearer.expected.audience")),
            subject_claim=self._setting("sasl.oauthbearer.sub.claim.name"),
            skew_seconds=self._setting("sasl.oauthbearer.clock.skew.seconds"),
        )

    def _read(self) -> None:
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._keys = parse_keys(JWKS, self._file.read_text(encoding="utf-8"))
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{JWKS}: {self._file}: {error}") from None
