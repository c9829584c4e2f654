"""Connections whose clients have to say who they are: by SASL, or by a certificate.

Before that little is heard of them: requests are few, short, one at a time, and have to come soon. Connections that
nobody has to prove anything on are not touched by this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from kompat.errors import KafkaError
from kompat.protocol.frames import SHORTEST_FRAME
from kompat.security import principals
from kompat.server.clients import client_of
from kompat.server.connection import Connection
from kompat.server.dispatch import Answer, Client, Exchange
from kompat.server.limits import Strangers
from kompat.server.owner import Owner

if TYPE_CHECKING:
    from kompat.handlers.sasl_session import SaslSession

log = logging.getLogger(__name__)

# A message of a client that sends them bare, as the request that others put it into: SaslAuthenticate v0, no client id.
_REQUEST = Struct(">hhihi")
_ANSWERED = Struct(">iih")  # length, correlation id, error code
_NO_MESSAGE = 2  # bytes
_LENGTH = Struct(">i")
SASL_AUTHENTICATE = 36


class StrangersOwner(Owner, Protocol):
    strangers: Strangers[Connection]


class CertifiedConnection(Connection):
    """Its client is who its certificate says, if it has shown one."""

    def __init__(self, owner: StrangersOwner, listener: str, rules: principals.PrincipalRules) -> None:
        super().__init__(owner, listener)
        self._strangers = owner.strangers
        self._rules = rules

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if certificate is None:
            return
        try:
            self.client.principal = self._rules.principal(principals.subject(certificate))
        except KafkaError as error:
            log.info("a client is not let in", extra=self.facts() | {"reason": error})
            self._strangers.refused[self._listener] += 1
            self.abort()


class SaslConnection(Connection):
    def __init__(
        self,
        owner: StrangersOwner,
        listener: str,
        session: Callable[[SaslConnection], SaslSession],
        longest_request: int,
    ) -> None:
        super().__init__(owner, listener)
        self._strangers = owner.strangers
        self._admitted = self._dispatch
        self._dispatch = self._gate
        self._session = session(self)
        self._reader.allow(longest_request, 0)
        self._max_requests = 1
        self._since = owner.loop.time()
        self._is_stranger = True
        self._is_bare = False  # the request under way came without a header, and so goes its answer
        self._half_received = 0  # bytes of an incomplete request, counted with those of other strangers

    def _identified(self, transport: Any) -> Client:
        client = client_of(transport, self._listener)
        client.sasl = self._session
        return client

    # -- what the transport tells ------------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        leaving = self._strangers.come(self)
        if leaving is not None:
            if self._strangers.may_warn(self._since):
                log.warning("too many clients that nobody knows, closing the quietest", extra=leaving.facts())
            leaving.abort()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._frames
        super().buffer_updated(nbytes)
        if self._is_stranger:
            if self._frames != frames:
                self._strangers.heard(self)
            self._hold(self._reader.room)
            if self._strangers.budget.is_spent and self._half_received:
                if self._strangers.may_warn(self._owner.loop.time()):
                    log.warning("too much is under way from clients that nobody knows", extra=self.facts())
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(0)
        self._strangers.leave(self)
        super().connection_lost(exc)
        self._dispatch = self._admitted  # or the connection would keep itself in memory, and so would its session
        self.client.sasl = None
        del self._session

    def check(self, now: float, *, is_memory_short: bool) -> None:
        if self._is_stranger and now - self._since >= self._owner.limits.login_seconds:
            log.info("a client has not said who it is", extra=self.facts())
            self.abort()
        else:
            super().check(now, is_memory_short=is_memory_short)

    def _hold(self, size: int) -> None:
        self._strangers.budget.take(size - self._half_received)
        self._half_received = size

    # -- what the session tells --------------------------------------------------------------------------------------
    def known(self, principal: str) -> None:
        self.client.principal = principal
        if self._is_stranger:
            limits = self._owner.limits
            self._is_stranger = False
            self._strangers.leave(self)
            self._hold(0)
            self._max_requests = limits.connection_requests
            self._reader.allow(limits.request_bytes)

    def failed(self, error: KafkaError) -> None:
        """The answer under way is the last one."""
        log.info("a client could not show who it is", extra=self.facts() | {"reason": error})
        self._strangers.refused[self._listener] += 1
        self._is_draining = True
        self._backlog.clear()

    # -- requests and answers ----------------------------------------------------------------------------------------
    def _gate(self, client: Client, frame: memoryview) -> Answer | Exchange:
        if self._is_stranger:
            if self._session.expects_bare_message:
                self._is_bare = True
                head = _REQUEST.pack(SASL_AUTHENTICATE, 0, 0, -1, len(frame))
                return self._admitted(client, memoryview(head + bytes(frame)))
            if len(frame) < SHORTEST_FRAME:
                return None
        key = frame[0] << 8 | frame[1]
        if self._session.admits(key):
            return self._admitted(client, frame)
        log.info("a request that is not for strangers, closing the connection", extra=self.facts() | {"api": key})
        return None

    def _write(self, buffers: list[Any], size: int) -> None:
        if self._is_bare:
            self._is_bare = False
            buffers = _bare(b"".join(buffers))
            size = sum(map(len, buffers))
        super()._write(buffers, size)


def _bare(answer: bytes) -> list[bytes]:
    """The message in a SaslAuthenticate answer alone. Errors have no place to be told: the connection is closed."""
    _, _, error = _ANSWERED.unpack_from(answer)
    if error:
        return []
    message = answer[_ANSWERED.size + _NO_MESSAGE + _LENGTH.size :]
    return [_LENGTH.pack(len(message)), message]
