"""One HTTP connection: uvicorn's protocol, with limits on its use of the event loop, memory and time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kompat.admin.problems import MEDIA_TYPE, Problem
from kompat.admin.security import SHOWN

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from kompat.admin.certificates import Certificates
    from kompat.admin.limits import Share

HEAD_BYTES = 32 * 1024
MOST_HEADERS = 100
# The parser gets no more bytes at a time: all pipelined requests in them begin in one turn of the event loop.
PIECE_BYTES = 4 * 1024
HURRIED_SECONDS = 3.0  # for a client to continue to read, while memory is short
RESERVED = "reserved"  # in the state of a connection that may only use the health routes


class Owner(Protocol):
    """The server that has the connections."""

    loop: asyncio.AbstractEventLoop
    state: ServerState
    share: Share
    certificates: Certificates | None
    head_seconds: float
    unread_seconds: float

    def connected(self, connection: Connection) -> None: ...
    def waits(self, connection: Connection) -> None: ...
    def works(self, connection: Connection) -> None: ...
    def disconnected(self, connection: Connection) -> None: ...


class Connection(HttpToolsProtocol):
    """A connection, which is closed if it makes no progress: the client has to send the head of a request, and to read responses."""

    def __init__(self, owner: Owner, config: uvicorn.Config) -> None:
        super().__init__(config, owner.state, {}, owner.loop)
        self._owner = owner
        self._head_due = owner.loop.time() + owner.head_seconds
        self._head_bytes = 0
        self._head_size = 0  # bytes of the parsed headers
        self._has_head = False  # of the current request
        self._is_body_due = False  # of the current request: a response may be sent before the body is read
        self._unparsed: deque[memoryview] = deque()
        self._unread = 0  # bytes of responses that the client has not read yet
        self._unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._is_let_in(transport):
            transport.abort()
            return
        self._owner.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unparsed.clear()
        self._count_unread(0)
        self._owner.disconnected(self)

    def reserve(self) -> None:
        """All other connections are in use: this one may only use the health routes."""
        self.app_state = {**self.app_state, RESERVED: True}

    def _is_let_in(self, transport: asyncio.Transport) -> bool:
        """Whether the client may connect. Its certificate, if there is one, has its principal."""
        known = self._owner.certificates
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True) if known else None
        if known is None or certificate is None:
            return True
        principal = known.principal(certificate)
        self.app_state = {SHOWN: principal}
        return principal is not None

    # -- requests --------------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        self._unparsed.append(memoryview(data))
        self._parse()

    def _parse(self) -> None:
        """Parse the received bytes, unless a request waits for the previous one."""
        while self._unparsed and not self.pipeline and not self.transport.is_closing():
            data = self._unparsed.popleft()
            if len(data) > PIECE_BYTES:
                self._unparsed.appendleft(data[PIECE_BYTES:])
            self._parse_piece(data[:PIECE_BYTES])
        if self._unparsed:
            self.flow.pause_reading()

    def _parse_piece(self, piece: memoryview) -> None:
        if not self._has_head:
            self._head_bytes += len(piece)
        super().data_received(piece)  # type: ignore[arg-type]  # the parser takes any buffer
        if not self._has_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request head is too long.")

    def on_message_begin(self) -> None:
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._check_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._check_head(len(name) + len(value))

    def _check_head(self, more: int) -> None:
        self._head_size += more
        if self._head_size > HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            raise ValueError("the head is too long")  # the parser reports a malformed request

    def on_headers_complete(self) -> None:
        self._has_head = self._is_body_due = True
        self._owner.works(self)
        super().on_headers_complete()
        if RESERVED in self.app_state:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_body_due = False
        self._begin_anew()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin_anew()
        if self._unparsed:
            self.loop.call_soon(self._parse)

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _begin_anew(self) -> None:
        """Expect the next head, after the response and the rest of the body, which has the same timeout."""
        if self._is_answered:
            self._head_due = self.loop.time() + self._owner.head_seconds
            self._head_bytes = 0
            self._has_head = self._is_body_due
            self._owner.waits(self)

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are not HTTP, or to a head that is too long."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # in the middle of a response
            return
        detail = f"{msg} The limits are {HEAD_BYTES} bytes and {MOST_HEADERS} headers."
        body = msgspec.json.encode(Problem(400, detail, name="not-http").shape())
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    # -- timeouts --------------------------------------------------------------------------------------------------
    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        self._count_unread(self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._count_unread(0)
        super().resume_writing()

    def _count_unread(self, size: int) -> None:
        share = self._owner.share
        share.take(size)
        share.give_back(self._unread)
        self._unread = size

    def check(self, now: float, *, is_memory_short: bool) -> None:
        if self._unread and not self.transport.is_closing():
            left = self.transport.get_write_buffer_size()
            if left < self._unread:
                self._unread_since = now  # the client makes progress
            self._count_unread(left)
        patience = HURRIED_SECONDS if is_memory_short else self._owner.unread_seconds
        is_unread = self._unread > 0 and now > self._unread_since + patience
        is_late = now > self._head_due and (not self._has_head or self._is_answered)
        if is_late or is_unread:
            self.transport.abort()
