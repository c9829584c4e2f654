"""Who somebody is that came by HTTP: a user of the cluster, by name and password, where security is on."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING

from kompat.admin.problems import UNAUTHORIZED, Problem
from kompat.admin.requests import Caller

if TYPE_CHECKING:
    from starlette.requests import Request

    from kompat.config.broker import BrokerConfig
    from kompat.handlers.services import Services

CHALLENGE = {"www-authenticate": 'Basic realm="kompat", charset="UTF-8"'}
LONGEST = 4096


def is_on(services: Services, config: BrokerConfig) -> bool:
    """Where clients of Kafka's protocol have to say who they are, or it matters who they are, so it does here."""
    return services.authorizer.is_enabled or any(listener.protocol.has_sasl for listener in config.listeners)


async def authenticate(services: Services, request: Request) -> str:
    """The principal. Everybody is the same while security is off. Raises a problem of status 401."""
    if not is_on(services, services.config):
        return Caller().principal
    user, password = _credentials(request.headers.get("authorization", ""))
    if not await services.users.verify(user, password):
        await asyncio.sleep(services.config["connection.failed.authentication.delay.ms"] / 1000)
        raise _stranger("The name or the password is wrong.")
    return f"User:{user}"


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
