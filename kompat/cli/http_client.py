"""A client of kompat's HTTP port, for what Kafka's protocol has no requests for."""

from __future__ import annotations

import argparse
import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from kompat.cli.command import CommandError, UsageError, password

SECONDS: Final = 30.0
PAGE: Final = 100


class HttpError(CommandError):
    """The broker has returned an HTTP error."""

    def __init__(self, message: str, http_status: int) -> None:
        super().__init__(message)
        self.http_status = http_status


class HttpClient:
    def __init__(self, url: str, opener: OpenerDirector, authorization: str | None) -> None:
        self.url = url.rstrip("/")
        self._opener = opener
        self._authorization = authorization

    def get(self, path: str, seconds: float = SECONDS, **query: Any) -> Any:
        return self.ask("GET", path, query=query, seconds=seconds)

    def post(self, path: str, body: Mapping[str, Any], seconds: float = SECONDS) -> Any:
        return self.ask("POST", path, body=body, seconds=seconds)

    def items(self, path: str, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """The items of all pages of a list, or at most `limit` of them."""
        cursor, left = None, limit
        while left is None or left > 0:
            page = self.get(path, **query, limit=PAGE if left is None else min(PAGE, left), cursor=cursor)
            yield from page["items"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return
            left = left - len(page["items"]) if left is not None else None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = SECONDS,
    ) -> Any:
        """Send a request. Returns the JSON of the response; None if it is empty."""
        parameters = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = self.url + path + (f"?{urlencode(parameters)}" if parameters else "")
        request = Request(url, method=method, headers={"Accept": "application/json"})  # noqa: S310 - `http_client` checks it
        if body is not None:
            request.data = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
            request.add_header("Content-Type", "application/json")
        if self._authorization is not None:
            request.add_header("Authorization", self._authorization)
        try:
            with self.open(request, seconds) as answer:
                return _read(answer.read(), url)
        except HTTPError as error:
            raise _refused(error, has_login=self._authorization is not None) from None
        except URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def open(self, request: Request, seconds: float) -> Any:
        """The raw response."""
        return self._opener.open(request, timeout=seconds)

    def _unreachable(self, reason: object) -> CommandError:
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = f"the certificate of {self.url} is not trusted: {reason.verify_message}"
            return CommandError(f"{why}; --tls-ca names the authority to trust")
        cause = getattr(reason, "strerror", None) or reason
        return CommandError(f"kompat's HTTP port cannot be reached at {self.url}: {cause}; set its URL with --http")


def segment(text: object) -> str:
    """A path segment, percent-encoded."""
    return quote(str(text), safe="")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(content: bytes, url: str) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise CommandError(f"{url} did not return JSON: check that --http is the URL of kompat's HTTP port") from None


def _refused(error: HTTPError, *, has_login: bool = False) -> HttpError:
    """The error of a response, from its problem details (RFC 9457) if it has them."""
    try:
        problem = json.loads(error.read())
        message = problem.get("detail") or problem.get("title")
        code = problem.get("code")
    except (ValueError, AttributeError, OSError):
        message, code = None, None
    if not message:
        message = (
            f"{error.url} returned {error.code} {error.reason}: check that --http is the URL of kompat's HTTP port"
        )
    if error.code == 401:
        hint = "check the password" if has_login else "authenticate with --user and --password-file"
        message = f"{message}; {hint}"
    return HttpError(f"{message} ({code})" if code else message, error.code)


def http_client(given: argparse.Namespace) -> HttpClient:
    parts = urlsplit(given.http if "://" in given.http else f"http://{given.http}")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"--http {given.http!r} is not a URL such as http://127.0.0.1:8080")
    handlers: list[Any] = [ProxyHandler({})]  # a broker is not reached by the web proxy
    if parts.scheme == "https":
        handlers.append(HTTPSHandler(context=_tls(given)))
    secret = password(given)
    authorization = None
    if given.user:
        authorization = "Basic " + base64.b64encode(f"{given.user}:{secret or ''}".encode()).decode()
    return HttpClient(parts.geturl(), build_opener(*handlers), authorization)


def _tls(given: argparse.Namespace) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.tls_ca)
        if given.tls_cert:
            context.load_cert_chain(given.tls_cert, given.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(f"the certificates cannot be used: {error}") from None
    return context
