"""The keys that tokens are signed with: from a file that is read again when it changes, or fetched by https.

Keys are loaded in worker threads. A login starts that when the keys are due, and waits for it for a moment only: an endpoint
that does not answer delays logins a little, and the keys of before stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from time import monotonic
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from kompat.clock import Clock
from kompat.errors import ConfigError
from kompat.security import tls
from kompat.security.oauthbearer import Bearer
from kompat.security.tokens import Key, TokenRules, UnknownKey, parse_keys, read_token

log = logging.getLogger(__name__)

JWKS = "sasl.oauthbearer.jwks.endpoint.url"
FETCH_SECONDS = 5.0  # for the whole of an answer
MOST_BYTES = 1 << 20  # of a set of keys
WAIT_SECONDS = 2.0  # of a login, for keys that are being loaded
UNKNOWN_KEY_SECONDS = (
    10.0  # between two loads because a token names a key that is not there: any client can send such tokens
)

Keys = Mapping[str, Key]
Setting = Callable[[str], Any]  # of the listener, by Kafka's name


class KeySource(Protocol):
    refresh_seconds: float  # how old keys may be before a login has them loaded again
    retry_seconds: tuple[float, float]  # after a failure, doubled from the first to the second

    def load(self) -> Keys:
        """In a worker thread. Raises ConfigError."""


class TokenKeys:
    def __init__(self, setting: Setting, clock: Clock) -> None:
        """Raises ConfigError, also where a file of keys cannot be read."""
        self._clock = clock
        self._rules = TokenRules(
            issuer=setting("sasl.oauthbearer.expected.issuer"),
            audiences=setting("sasl.oauthbearer.expected.audience"),
            subject_claim=setting("sasl.oauthbearer.sub.claim.name"),
            scope_claim=setting("sasl.oauthbearer.scope.claim.name"),
            skew_seconds=setting("sasl.oauthbearer.clock.skew.seconds"),
        )
        self._source, self._keys = _source(setting)
        self._due = clock.monotonic()
        self._unknown_due = clock.monotonic()
        self._backoff = 0.0
        self._loading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Load the keys before the first client comes, and log what keeps them from being loaded."""
        self._load()

    async def verify(self, token: str, now_ms: int) -> Bearer:
        """Raises InvalidToken."""
        if self._clock.monotonic() >= self._due:
            await self._wait_for_load()
        try:
            return read_token(token, self._keys, self._rules, now_ms)
        except UnknownKey:
            if self._clock.monotonic() < self._unknown_due:
                raise
            self._unknown_due = self._clock.monotonic() + UNKNOWN_KEY_SECONDS
            await self._wait_for_load()
            return read_token(token, self._keys, self._rules, now_ms)

    async def _wait_for_load(self) -> None:
        await asyncio.wait({self._load()}, timeout=WAIT_SECONDS)

    def _load(self) -> asyncio.Task[None]:
        """One at a time, which all logins share."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.ensure_future(self._load_apart())
        return self._loading

    async def _load_apart(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._source.load)
            self._backoff, pause = 0.0, self._source.refresh_seconds
        except ConfigError as error:
            least, most = self._source.retry_seconds
            self._backoff = pause = min(max(least, self._backoff * 2), most)
            log.error("the keys of tokens cannot be loaded, those of before stay", extra={"reason": error})  # noqa: TRY400
        self._due = self._clock.monotonic() + pause


def _source(setting: Setting) -> tuple[KeySource, Keys]:
    """And what it has at the start: a file is read at once, an endpoint need not be there yet."""
    try:
        url = urlsplit(setting(JWKS) or "")
        if url.scheme == "file" and url.path:
            file = KeyFile(Path(unquote(url.path)))
            return file, file.load()
        if url.scheme == "https" and url.hostname:
            return KeyEndpoint(url, setting), {}
    except ValueError as error:  # of a port that is none
        raise ConfigError(f"{JWKS}: {error}") from None
    raise ConfigError(f"{JWKS}: file:///… or https://… has to say where the keys of tokens are")


class KeyFile:
    """Looked at for every login, and read if it has changed."""

    refresh_seconds = 0.0
    retry_seconds = (0.0, 0.0)

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: object = None
        self._keys: Keys = {}

    def load(self) -> Keys:
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._keys = parse_keys(JWKS, self._file.read_bytes())
                self._stamp = stamp
        except OSError as error:
            raise ConfigError(f"{JWKS}: {self._file}: {error.strerror or error}") from None
        return self._keys


class KeyEndpoint:
    """Its certificate has to be of an authority in ssl.truststore.location, or of one that the system trusts where that is not
    set. Redirects are not followed."""

    def __init__(self, url: SplitResult, setting: Setting) -> None:
        self._url = url
        self._address = url.hostname or "", url.port
        self._path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        self._tls = tls.client_context(setting)
        self.refresh_seconds = max(0, setting("sasl.oauthbearer.jwks.endpoint.refresh.ms")) / 1000
        self.retry_seconds = (
            setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        )

    def load(self) -> Keys:
        connection = HTTPSConnection(*self._address, timeout=FETCH_SECONDS, context=self._tls)
        try:
            return parse_keys(f"{JWKS}: {self._url.geturl()}", self._fetch(connection))
        except (HTTPException, OSError, UnicodeError) as error:
            raise ConfigError(f"{JWKS}: {self._url.geturl()}: {error}") from None
        finally:
            connection.close()

    def _fetch(self, connection: HTTPSConnection) -> bytes:
        ends = monotonic() + FETCH_SECONDS
        connection.request("GET", self._path, headers={"Accept": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConfigError(f"{JWKS}: {self._url.geturl()} answers {answer.status}")
        found = b""
        while part := answer.read1(MOST_BYTES):
            found += part
            if len(found) > MOST_BYTES or monotonic() > ends:
                raise ConfigError(f"{JWKS}: {self._url.geturl()} is too long, or comes too slowly")
        return found
