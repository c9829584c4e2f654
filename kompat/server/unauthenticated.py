"""Connections whose clients have to authenticate, by SASL or by a certificate.

Before that their requests are restricted: they are few, short, one at a time, and have to arrive soon. Connections without
authentication do not use this module.
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
from kompat.server.limits import Unauthenticated
from kompat.server.owner import Owner

if TYPE_CHECKING:
    from kompat.handlers.support.sasl_session import SaslSession

log = logging.getLogger(__name__)

# A message of a client that sends them bare, as the request that others put it into: SaslAuthenticate v0, no client id.
_REQUEST = Struct(">hhihi")
_ANSWERED = Struct(">iih")  # length, correlation id, error code
_NO_MESSAGE = 2  # bytes
_LENGTH = Struct(">i")
SASL_AUTHENTICATE = 36


class AuthenticatingOwner(Owner, Protocol):
    unauthenticated: Unauthenticated[Connection]


class CertifiedConnection(Connection):
    """The client's principal comes from its certificate, if it has sent one."""

    def __init__(self, owner: AuthenticatingOwner, listener: str, rules: principals.PrincipalRules) -> None:
        super().__init__(owner, listener)
        self._unauthenticated = owner.unauthenticated
        self._rules = rules

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if certificate is None:
            return
        try:
            self.client.principal = self._rules.principal(principals.subject(certificate))
        except KafkaError as error:
            log.info("a client's certificate is not accepted", extra=self.facts() | {"reason": error})
            self._unauthenticated.refused[self._listener] += 1
            self.abort()


class SaslConnection(Connection):
    def __init__(
        self,
        owner: AuthenticatingOwner,
        listener: str,
        session: Callable[[SaslConnection], SaslSession],
        longest_request: int,
    ) -> None:
        super().__init__(owner, listener)
        self._unauthenticated = owner.unauthenticated
        self._admitted = self._dispatch
        self._dispatch = self._gate
        self._session = session(self)
        self._reader.allow(longest_request, 0)
        self._max_requests = 1
        self._since = owner.loop.time()
        self._is_unauthenticated = True
        self._is_bare = False  # the request under way has no header, and so has its response
        self._half_received = 0  # bytes of an incomplete request, counted with those of other unauthenticated clients

    def _identified(self, transport: Any) -> Client:
        client = client_of(transport, self._listener)
        client.sasl = self._session
        return client

    # -- calls of the transport --------------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        leaving = self._unauthenticated.come(self)
        if leaving is not None:
            if self._unauthenticated.may_warn(self._since):
                log.warning(
                    "too many unauthenticated clients, closing the one that has been silent for longest",
                    extra=leaving.facts(),
                )
            leaving.abort()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._frames
        super().buffer_updated(nbytes)
        if self._is_unauthenticated:
            if self._frames != frames:
                self._unauthenticated.heard(self)
            self._hold(self._reader.room)
            if self._unauthenticated.budget.is_spent and self._half_received:
                if self._unauthenticated.may_warn(self._owner.loop.time()):
                    log.warning("too many request bytes are under way from unauthenticated clients", extra=self.facts())
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(0)
        self._unauthenticated.leave(self)
        super().connection_lost(exc)
        self._dispatch = self._admitted  # or the connection would keep itself in memory, and so would its session
        self.client.sasl = None
        del self._session

    def check(self, now: float, *, is_memory_short: bool) -> None:
        if self._is_unauthenticated and now - self._since >= self._owner.limits.login_seconds:
            log.info("a client has not authenticated in time", extra=self.facts())
            self.abort()
        else:
            super().check(now, is_memory_short=is_memory_short)

    def _hold(self, size: int) -> None:
        self._unauthenticated.budget.take(size - self._half_received)
        self._half_received = size

    # -- calls of the SASL session -----------------------------------------------------------------------------------
    def known(self, principal: str) -> None:
        self.client.principal = principal
        if self._is_unauthenticated:
            limits = self._owner.limits
            self._is_unauthenticated = False
            self._unauthenticated.leave(self)
            self._hold(0)
            self._max_requests = limits.connection_requests
            self._reader.allow(limits.request_bytes)

    def failed(self, error: KafkaError) -> None:
        """Authentication has failed: the response under way is the last one."""
        log.info("authentication failed", extra=self.facts() | {"reason": error})
        self._unauthenticated.refused[self._listener] += 1
        self._is_draining = True
        self._backlog.clear()

    # -- requests and answers ----------------------------------------------------------------------------------------
    def _gate(self, client: Client, frame: memoryview) -> Answer | Exchange:
        if self._is_unauthenticated:
            if self._session.expects_bare_message:
                self._is_bare = True
                head = _REQUEST.pack(SASL_AUTHENTICATE, 0, 0, -1, len(frame))
                return self._admitted(client, memoryview(head + bytes(frame)))
            if len(frame) < SHORTEST_FRAME:
                return None
        key = frame[0] << 8 | frame[1]
        if self._session.admits(key):
            return self._admitted(client, frame)
        log.info("a request before authentication, closing the connection", extra=self.facts() | {"api": key})
        return None

    def _write(self, buffers: list[Any], size: int) -> None:
        if self._is_bare:
            self._is_bare = False
            buffers = _bare(b"".join(buffers))
            size = sum(map(len, buffers))
        super()._write(buffers, size)


def _bare(answer: bytes) -> list[bytes]:
    """The SASL message in a SaslAuthenticate response, alone. It cannot carry errors: the connection is closed."""
    _, _, error = _ANSWERED.unpack_from(answer)
    if error:
        return []
    message = answer[_ANSWERED.size + _NO_MESSAGE + _LENGTH.size :]
    return [_LENGTH.pack(len(message)), message]
