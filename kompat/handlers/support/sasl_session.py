"""The SASL authentication of one connection: SaslHandshake names a mechanism, SaslAuthenticate has its messages.

Wrong credentials end the connection: the response is delayed, and nothing is served after it. A client may re-authenticate on
the same connection, as the same principal by the same mechanism, and has to where sessions have a lifetime.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from kompat.clock import Clock
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.api_keys import ApiKey
from kompat.security import plain, principals
from kompat.security.failure import SaslFailure
from kompat.security.oauthbearer import BearerConversation, Verify
from kompat.security.scram import Conversation, Mechanism

if TYPE_CHECKING:
    from kompat.cluster.users import Users

LOGIN = frozenset({ApiKey.SaslHandshake, ApiKey.SaslAuthenticate})
BEFORE_LOGIN = LOGIN | {ApiKey.ApiVersions}
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
NONCE_BYTES = 24
AGAIN_AFTER = 1.0  # seconds between two renewals of a login


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Of one listener."""

    mechanisms: tuple[str, ...]
    lifetimes_ms: Mapping[str, int] = field(default_factory=dict)  # by mechanism: the session lifetime; 0: unlimited
    failure_delay: float = 0.1  # seconds
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    longest_request: int = 524288  # before the login
    verify_token: Verify | None = None  # where OAUTHBEARER is enabled


@dataclass(frozen=True, slots=True)
class Step:
    """The response to one message of the client."""

    token: bytes
    lifetime_ms: int = 0


class SaslSession:
    def __init__(
        self,
        settings: SaslSettings,
        users: Users,
        clock: Clock,
        *,
        known: Callable[[str], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        """`known` is called with the principal, `failed` with the reason when the response under way is the last one."""
        self._settings = settings
        self._users = users
        self._clock = clock
        self._tell_known = known
        self._tell_failed = failed
        self._principal: str | None = None
        self._mechanism = ""  # of the principal
        self._ends: float | None = None  # the login, by the steady clock
        self._renewed: float | None = None  # when it was begun to be, the last time
        self._requested_mechanism = ""  # its mechanism
        self._conversation: Conversation | BearerConversation | None = None
        self._is_over = False
        self._has_bare_messages = False  # the client is so old that its messages are no requests

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._settings.mechanisms

    @property
    def expects_bare_message(self) -> bool:
        return self._has_bare_messages and bool(self._requested_mechanism) and not self._is_over

    def admits(self, api_key: int) -> bool:
        """Whether such a request is accepted."""
        if self._principal is None or self._is_over:
            return api_key in BEFORE_LOGIN and not self._is_over
        return self._ends is None or api_key in LOGIN or self._clock.monotonic() < self._ends

    # -- SaslHandshake ---------------------------------------------------------------------------------------------
    async def begin(self, mechanism: str, *, has_bare_messages: bool) -> None:
        """Raises KafkaError, and UNSUPPORTED_SASL_MECHANISM is the end of the connection."""
        now = self._clock.monotonic()
        is_soon = self._renewed is not None and now - self._renewed < AGAIN_AFTER
        if self._principal is not None and (is_soon or has_bare_messages):
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in self._settings.mechanisms:
            await self._end(KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM))
        self._renewed = now if self._principal is not None else None
        self._requested_mechanism = mechanism
        self._has_bare_messages = has_bare_messages
        self._conversation = self._conversation_by(mechanism)

    def _conversation_by(self, mechanism: str) -> Conversation | BearerConversation | None:
        """None: it is a single message."""
        kind = Mechanism.named(mechanism)
        if kind is not None:
            return Conversation(kind, lambda user: self._users.credential(kind, user), _nonce())
        verify = self._settings.verify_token
        return BearerConversation(verify) if mechanism == OAUTHBEARER and verify is not None else None

    # -- SaslAuthenticate ------------------------------------------------------------------------------------------
    async def respond(self, message: bytes) -> Step:
        """Raises KafkaError."""
        if not self._requested_mechanism and self._principal is None:
            early = "Unexpected Kafka request of type SASL_AUTHENTICATE during SASL handshake."
            await self._end(KafkaError(ErrorCode.ILLEGAL_SASL_STATE, early))
        if not self._requested_mechanism:
            late = "SaslAuthenticate request received after successful authentication"
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, late)
        try:
            token, user, ends_ms = await self._heard(message)
            return self._logged_in(token, user, ends_ms) if user is not None else Step(token)
        except SaslFailure as failure:
            await self._end(failure if failure.message else SaslFailure(self._reason()))

    async def _heard(self, message: bytes) -> tuple[bytes, str | None, int | None]:
        """The response message; the user, once it is authenticated; and the end of its session, if the token has one."""
        if self._principal is not None and self._requested_mechanism != self._mechanism:
            raise SaslFailure(
                f"SASL mechanism '{self._requested_mechanism}' requested by client is not supported for re-authentication of mechanism"
                f" '{self._mechanism}'"
            )
        if isinstance(self._conversation, Conversation):
            return self._conversation.respond(message), self._conversation.user, None
        if isinstance(self._conversation, BearerConversation):
            answer = await self._conversation.respond(message, self._clock.now())
            if self._conversation.is_refused:
                # Or a client that does not wait for the end could guess on at once.
                await asyncio.sleep(self._settings.failure_delay)
            bearer = self._conversation.bearer
            return (answer, bearer.user, bearer.ends_ms) if bearer is not None else (answer, None, None)
        user, password = plain.name_and_password(message)
        is_right = plain.is_listed(self._settings.plain_users, user, password)
        if not is_right and not await self._users.verify(user, password):
            raise SaslFailure("Authentication failed: Invalid username or password")
        return b"", user, None

    def _logged_in(self, token: bytes, user: str, ends_ms: int | None) -> Step:
        principal = principals.user(user)
        if self._principal not in (None, principal):
            before, now = str(self._principal).partition(":")[2], user
            raise SaslFailure(f"Cannot change principals during re-authentication from User.{before}: User.{now}")
        most = self._settings.lifetimes_ms.get(self._requested_mechanism, 0)
        left = [*([most] if most > 0 else ()), *([ends_ms - self._clock.now()] if ends_ms is not None else ())]
        lifetime_ms = max(0, min(left, default=0))
        self._ends = self._clock.monotonic() + lifetime_ms / 1000 if left else None
        self._principal, self._mechanism = principal, self._requested_mechanism
        self._requested_mechanism = ""
        self._conversation = None
        self._tell_known(principal)
        return Step(token, lifetime_ms)

    def _reason(self) -> str:
        """Nothing more: clients must not learn which users exist."""
        what = "authentication" if self._principal is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._requested_mechanism}"

    async def _end(self, error: KafkaError) -> NoReturn:
        self._is_over = True
        await asyncio.sleep(self._settings.failure_delay)
        self._tell_failed(error)
        raise error


def _nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)
