"""Authentication of HTTP clients, by user name and password or by a certificate, if security is on.

Users are those of the cluster (SCRAM), and those of listeners for PLAIN. In settings, HTTP is the name of a listener, too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from kompat.admin.http_server import HTTP, JAAS, PLAIN
from kompat.admin.problems import UNAUTHORIZED, Problem
from kompat.admin.requests import Caller
from kompat.security.plain import is_listed, listed_users

if TYPE_CHECKING:
    from starlette.requests import Request

    from kompat.config.broker import BrokerConfig
    from kompat.handlers.support.services import Services

log = logging.getLogger(__name__)

SHOWN = "principal"  # the principal of a certificate, in the state of a connection
CHALLENGE = {"www-authenticate": 'Basic realm="kompat", charset="UTF-8"'}
LONGEST = 4096


def is_on(services: Services, config: BrokerConfig) -> bool:
    """Whether HTTP clients have to authenticate: if clients of Kafka's protocol have to, if HTTP has users of its own, or if there is an authorizer."""
    return (
        services.authorizer.is_enabled
        or bool(config.of_listener(HTTP, JAAS, PLAIN))
        or any(_requires_authentication(config))
    )


def _requires_authentication(config: BrokerConfig) -> Iterator[bool]:
    for listener in config.listeners:
        has_certificates = config.of_listener(listener.name, "ssl.client.auth") == "required"
        yield listener.protocol.has_sasl or (listener.protocol.has_tls and has_certificates)


def warn_of_plaintext(services: Services) -> None:
    """Warn of passwords in plaintext on a network, which the operator may not intend."""
    host = services.config["kompat.http.host"]
    if is_on(services, services.config) and not _is_loopback(host):
        log.warning(
            "clients send passwords to the HTTP port in clear text: set kompat.http.security.protocol=SSL",
            extra={"host": host},
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost")


async def authenticate(services: Services, request: Request) -> str:
    """The principal, which is ANONYMOUS while security is off. Raises a problem with status 401."""
    header = request.headers.get("authorization", "")
    shown: str | None = request.scope.get("state", {}).get(SHOWN)
    if shown is not None and not header:
        return shown
    if not is_on(services, services.config):
        return Caller().principal
    user, password = _credentials(header)
    if not _has_listed(services.config, user, password) and not await services.users.verify(user, password):
        await asyncio.sleep(services.config["connection.failed.authentication.delay.ms"] / 1000)
        services.meters.http_refused_logins += 1
        raise _unauthenticated("The user name or the password is wrong.")
    return f"User:{user}"


def _has_listed(config: BrokerConfig, user: str, password: str) -> bool:
    """Whether the settings have the user with this password, for PLAIN or for HTTP alone."""
    names = [
        each.name for each in config.listeners if PLAIN in config.of_listener(each.name, "sasl.enabled.mechanisms")
    ]
    texts = {config.of_listener(name, JAAS, PLAIN) for name in (*names, HTTP)}
    return any(is_listed(listed_users(JAAS, text), user, password) for text in texts if text)


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > LONGEST:
        raise _unauthenticated("This broker requires authentication.")
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise _unauthenticated("The header Authorization is malformed.") from None
    if not colon or not user:
        raise _unauthenticated("The header Authorization has no user name and password.")
    return user, password


def _unauthenticated(reason: str) -> Problem:
    advice = "Send a user name and password by HTTP Basic authentication."
    return Problem(UNAUTHORIZED, f"{reason} {advice}", name="unauthenticated", headers=CHALLENGE)
