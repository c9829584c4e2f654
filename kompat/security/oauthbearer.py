"""SASL OAUTHBEARER (RFC 7628): the messages that carry a token, which has the client's principal and lifetime.

`tokens.py` validates tokens.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kompat.security.failure import SaslFailure

MECHANISM = "OAUTHBEARER"
INVALID = '{"status":"invalid_token"}'
LONGEST_MESSAGE = 32768  # tokens are a few kilobytes; checking one of this size takes 4 ms

_MESSAGE = r"n,(?:a=(?P<authzid>(?:[^=,\x00]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]+\x01)*)\x01"
_AUTH = r"(?:^|\x01)auth=(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)\x01"


class InvalidToken(Exception):  # noqa: N818 - it is an outcome, not a bug
    """The reason is for the log; the client only learns that its token is invalid."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """The principal of a token."""

    user: str
    ends_ms: int


Verify = Callable[[str, int], Awaitable[Bearer]]  # takes a token and the time in ms; raises InvalidToken


@dataclass(slots=True)
class BearerConversation:
    """One client's authentication by a token: accepted at once, or rejected after its second message, whatever that is."""

    verify: Verify
    bearer: Bearer | None = None  # set once the token is accepted
    why: str = ""  # the token was rejected
    is_refused: bool = False

    async def respond(self, message: bytes, now_ms: int) -> bytes:
        """The response to the client's next message. Raises SaslFailure."""
        if self.is_refused:  # the client knows the reason; another token would be a guess
            raise SaslFailure(INVALID)
        if len(message) > LONGEST_MESSAGE:
            raise SaslFailure
        authorization, token = _parse(message)
        try:
            bearer = await self.verify(token, now_ms)
        except InvalidToken as wrong:
            self.is_refused, self.why = True, str(wrong)
            return INVALID.encode()
        if authorization not in ("", bearer.user):
            raise SaslFailure(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from the"
                f" token's principal name ({bearer.user})"
            )
        self.bearer = bearer
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """The authorization id, if any, and the token."""
    try:
        found = re.fullmatch(_MESSAGE, message.decode())
    except UnicodeDecodeError:
        raise SaslFailure from None
    auth = re.search(_AUTH, found["pairs"]) if found is not None else None
    if found is None or auth is None:
        raise SaslFailure
    return (found["authzid"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"]
