"""Who somebody is that came by HTTP: by name and password, or by a certificate, where security is on.

Names and passwords are those of the cluster's users, and those that listeners have for PLAIN. To the settings, HTTP is a listener too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from kompat.admin.door import HTTP, JAAS, PLAIN
from kompat.admin.problems import UNAUTHORIZED, Problem
from kompat.admin.requests import Caller
from kompat.security.plain import is_listed, listed_users

if TYPE_CHECKING:
    from starlette.requests import Request

    from kompat.config.broker import BrokerConfig
    from kompat.handlers.services import Services

log = logging.getLogger(__name__)

SHOWN = "principal"  # of a certificate, in the state of a connection
CHALLENGE = {"www-authenticate": 'Basic realm="kompat", charset="UTF-8"'}
LONGEST = 4096


def is_on(services: Services, config: BrokerConfig) -> bool:
    """Where clients of Kafka's protocol have to say who they are, or it matters who they are, so it does here."""
    return services.authorizer.is_enabled or bool(config.of_listener(HTTP, JAAS, PLAIN)) or any(_asks(config))


def _asks(config: BrokerConfig) -> Iterator[bool]:
    for listener in config.listeners:
        has_certificates = config.of_listener(listener.name, "ssl.client.auth") == "required"
        yield listener.protocol.has_sasl or (listener.protocol.has_tls and has_certificates)


def warn_of_plaintext(services: Services) -> None:
    """Where passwords come over a network as they are, which an operator may not have meant."""
    host = services.config["kompat.http.host"]
    if is_on(services, services.config) and not _is_loopback(host):
        log.warning(
            "passwords come to the HTTP port in the clear: kompat.http.security.protocol=SSL ends that",
            extra={"host": host},
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost")


async def authenticate(services: Services, request: Request) -> str:
    """The principal. Everybody is the same while security is off. Raises a problem of status 401."""
    told = request.headers.get("authorization", "")
    shown: str | None = request.scope.get("state", {}).get(SHOWN)
    if shown is not None and not told:
        return shown
    if not is_on(services, services.config):
        return Caller().principal
    user, password = _credentials(told)
    if not _has_listed(services.config, user, password) and not await services.users.verify(user, password):
        await asyncio.sleep(services.config["connection.failed.authentication.delay.ms"] / 1000)
        services.meters.http_refused_logins += 1
        raise _stranger("The name or the password is wrong.")
    return f"User:{user}"


def _has_listed(config: BrokerConfig, user: str, password: str) -> bool:
    """Whether the settings have such a user, for PLAIN or for HTTP alone."""
    names = [
        each.name for each in config.listeners if PLAIN in config.of_listener(each.name, "sasl.enabled.mechanisms")
    ]
    texts = {config.of_listener(name, JAAS, PLAIN) for name in (*names, HTTP)}
    return any(is_listed(listed_users(JAAS, text), user, password) for text in texts if text)


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > LONGEST:
        raise _stranger("This broker wants to know who asks.")
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise _stranger("The header Authorization cannot be read.") from None
    if not colon or not user:
        raise _stranger("The header Authorization has no name and password.")
    return user, password


def _stranger(reason: str) -> Problem:
    advice = "Send the name and password of a user of the cluster by HTTP Basic."
    return Problem(UNAUTHORIZED, f"{reason} {advice}", name="unauthenticated", headers=CHALLENGE)
