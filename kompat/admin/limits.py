"""Limits on what HTTP clients may use: memory of requests and responses, time for bodies to arrive, and streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from starlette.requests import ClientDisconnect

from kompat.admin.problems import TOO_LARGE, UNAVAILABLE, Problem, invalid

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_SECONDS = 30.0  # for a body to arrive
DISCARD_SECONDS = 2.0
SLOW_SECONDS = 2.0  # after which a body may be rejected in favour of others, if there is no room for all
ROOM_SECONDS = 5.0  # that a request waits for memory
SHARE_BYTES = 128 << 20  # of the broker's budget that HTTP may use: the rest is for Kafka listeners
ANSWER_BYTES = 64 << 20  # of long responses that clients have not read yet; beyond it no others are encoded
LEAST_BYTES = 128 << 10  # of records that any response may have, however little memory is left
PARTS = 8  # a response may use at most one such part of what is left
BUSY = {"retry-after": "1"}


class Budget(Protocol):
    """The bytes that the connections of both ports hold."""

    @property
    def is_spent(self) -> bool: ...
    def take(self, size: int) -> None: ...
    def give_back(self, size: int) -> None: ...
    def wait(self, who: object, wake: Callable[[], None]) -> None: ...


class Share:
    """HTTP's share of the broker's budget."""

    def __init__(self, limit: int = SHARE_BYTES) -> None:
        self._limit = limit
        self._whole: Budget | None = None  # None until the broker is up
        self._waiting: list[asyncio.Future[None]] = []
        self.used = 0

    def join(self, whole: Budget) -> None:
        whole.take(self.used)
        self._whole = whole

    @property
    def is_spent(self) -> bool:
        return self.used >= self._limit or (self._whole is not None and self._whole.is_spent)

    @property
    def left(self) -> int:
        return max(0, self._limit - self.used)

    def take(self, size: int) -> None:
        self.used += size
        if self._whole is not None:
            self._whole.take(size)

    def give_back(self, size: int) -> None:
        self.used -= size
        if self._whole is not None:
            self._whole.give_back(size)
        if self._waiting and not self.is_spent:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def until_room(self, seconds: float = ROOM_SECONDS) -> None:
        """Wait for memory. Raises a problem after the timeout."""
        try:
            async with asyncio.timeout(seconds):
                while self.is_spent:
                    if self._whole is not None:
                        self._whole.wait(self, self._wake)
                    waiting = asyncio.get_running_loop().create_future()
                    self._waiting.append(waiting)
                    await waiting
        except TimeoutError:
            raise busy() from None

    @contextmanager
    def room(self) -> Iterator[Room]:
        """The room of one request, until it has its response."""
        room = Room(self)
        try:
            yield room
        finally:
            room.end()


class Room:
    """The memory of one request: its body, the records that are read for it, and then its response."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._held = 0
        self._ends: list[Callable[[], None]] = []

    def on_end(self, act: Callable[[], None]) -> None:
        """Call `act` when the request is over."""
        self._ends.append(act)

    def end(self) -> None:
        self.hold(0)
        for act in self._ends:
            act()

    def take(self, size: int) -> None:
        self._held += size
        self._share.take(size)

    def allowed(self, wanted: int) -> int:
        """How many bytes may be read for a response that wants `wanted`: fewer if less memory is left."""
        return min(wanted, max(LEAST_BYTES, self._share.left // PARTS))

    def reserve(self, wanted: int) -> int:
        """As `allowed`, and reserve them at once: not for reads that may have to wait."""
        granted = self.allowed(wanted)
        self.take(granted)
        return granted

    def hold(self, size: int) -> None:
        """Replace the size that the request holds."""
        self._share.take(size)
        self._share.give_back(self._held)
        self._held = size


class LongAnswers:
    """Encodes one long response at a time, and none while clients have too many of them unread.

    A response may be six times as long as the records in it. Encoded in parallel, all of them would be in memory at once.
    """

    def __init__(self, limit: int = ANSWER_BYTES, seconds: float = ROOM_SECONDS) -> None:
        self._turn = asyncio.Lock()
        self._unread = Share(limit)
        self._seconds = seconds

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn to encode. Raises a problem after a timeout."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise busy() from None
        try:
            await self._unread.until_room(self._seconds)
            yield
        finally:
            self._turn.release()

    def hold(self, room: Room, size: int) -> None:
        """The response is encoded. It counts until the client has read it."""
        room.hold(size)
        self._unread.take(size)
        room.on_end(lambda: self._unread.give_back(size))


class Bodies:
    """Reads bodies, each to its end or not at all. Only received bytes use memory, not a declared length."""

    def __init__(self, share: Share, seconds: float = BODY_SECONDS, slow_seconds: float = SLOW_SECONDS) -> None:
        self._share = share
        self._seconds = seconds
        self._slow_seconds = slow_seconds
        self._coming: dict[asyncio.Timeout, float] = {}  # start times, the oldest first

    async def read(self, request: Request, most: int, room: Room) -> bytes:
        """Raises a problem if the body is longer than `most`, does not arrive in time, or there is no memory for it."""
        declared = _content_length(request)
        if declared is not None and declared > most:
            if request.headers.get("expect", "").lower() != "100-continue":  # with it, the client has not sent the body
                await _discard(request)
            raise too_large(most)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._seconds) as limit:
                self._coming[limit] = begun
                try:
                    body = await self._all(request, most, room)
                finally:
                    del self._coming[limit]
        except TimeoutError:
            if loop.time() - begun < self._seconds:
                raise busy({"connection": "close"}) from None
            raise Problem(
                408,
                f"The body has not arrived within {self._seconds:.0f} seconds. Send it faster, or less of it.",
                headers={"connection": "close"},
            ) from None
        if body is None:
            await _discard(request)
            raise too_large(most)
        return body

    async def _all(self, request: Request, most: int, room: Room) -> bytes | None:
        """The body; None if it is longer than `most`."""
        parts, size = [], 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                return None
            room.take(len(part))
            if self._share.is_spent:
                self._make_room()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _make_room(self) -> None:
        """Reject the body that has been arriving longest, if that is long enough."""
        now = asyncio.get_running_loop().time()
        for limit, begun in self._coming.items():
            if now - begun < self._slow_seconds:
                return
            if not limit.expired():
                limit.reschedule(now)
                return


def busy(headers: dict[str, str] | None = None) -> Problem:
    return Problem(
        UNAVAILABLE,
        "Too many large requests are in progress. Try again in a moment.",
        name="busy",
        headers={**BUSY, **(headers or {})},
    )


async def _discard(request: Request) -> None:
    """Read and discard for a moment: a client that is still sending when the connection is closed may never see the response."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while True:
                message = await request.receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return


def _content_length(request: Request) -> int | None:
    declared = request.headers.get("content-length")
    if declared is None:
        return None
    if not (declared.isascii() and declared.isdigit()):
        raise invalid("Content-Length is not a number.")
    return int(declared)


def too_large(most: int) -> Problem:
    # The rest of the body would be parsed as the next request: the connection is closed.
    return Problem(
        TOO_LARGE,
        f"The body has more than {most} bytes. Send less at a time, or raise kompat.http.max.body.bytes.",
        name="body-too-large",
        headers={"connection": "close"},
    )


class Streams:
    """Responses without an end: each keeps a connection and some memory for as long as its client reads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        self.check()
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    def check(self) -> None:
        if self.count >= self._most:
            raise Problem(
                UNAVAILABLE,
                f"{self._most} streams are open already. Close one, or raise kompat.http.max.streams.",
                name="too-many-streams",
                headers=BUSY,
            )
