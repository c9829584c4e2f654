"""What one client, or many, may take of the broker: bytes that are half received, under way or unread, time for bodies to arrive, streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from starlette.requests import ClientDisconnect

from kompat.admin.problems import TOO_LARGE, UNAVAILABLE, Problem, invalid

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_SECONDS = 30.0  # for a body to arrive
DISCARD_SECONDS = 2.0
SLOW_SECONDS = 2.0  # after which a body has to give way to others, if there is no room for all
ROOM_SECONDS = 5.0  # that a request waits for room
SHARE_BYTES = 128 << 20  # of the broker's budget that HTTP may take: the rest is left to Kafka's port
LEAST_BYTES = 128 << 10  # of records that any answer may hold, however little room is left
PARTS = 8  # no answer may hold more than such a part of what is left
BUSY = {"retry-after": "1"}


class Budget(Protocol):
    """Bytes that the connections of both ports hold."""

    @property
    def is_spent(self) -> bool: ...
    def take(self, size: int) -> None: ...
    def give_back(self, size: int) -> None: ...
    def wait(self, who: object, wake: Callable[[], None]) -> None: ...


class Share:
    """HTTP's part of the broker's one budget."""

    def __init__(self, limit: int = SHARE_BYTES) -> None:
        self._limit = limit
        self._whole: Budget | None = None  # until the broker is up
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
        """Raises a problem where there is none for so long."""
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
        """For one request, until it is answered."""
        room = Room(self)
        try:
            yield room
        finally:
            room.hold(0)


class Room:
    """What one request holds of the share: its body, what is read for it, and then its answer."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._held = 0

    def take(self, size: int) -> None:
        self._held += size
        self._share.take(size)

    def allowed(self, wanted: int) -> int:
        """How much may be read for an answer that would like to have `wanted`: the less room is left, the less."""
        return min(wanted, max(LEAST_BYTES, self._share.left // PARTS))

    def reserve(self, wanted: int) -> int:
        """The same, and it is taken at once: not for what may have to be waited for."""
        granted = self.allowed(wanted)
        self.take(granted)
        return granted

    def hold(self, size: int) -> None:
        """So much from now on, instead of what it was."""
        self._share.take(size)
        self._share.give_back(self._held)
        self._held = size


class Bodies:
    """Reads bodies, each to its end or not at all. What counts is what has come: a promise takes no room."""

    def __init__(self, share: Share, seconds: float = BODY_SECONDS, slow_seconds: float = SLOW_SECONDS) -> None:
        self._share = share
        self._seconds = seconds
        self._slow_seconds = slow_seconds
        self._coming: dict[asyncio.Timeout, float] = {}  # since when, the longest first

    async def read(self, request: Request, most: int, room: Room) -> bytes:
        """Raises a problem where the body is longer than `most`, does not come in time, or there is no room for it."""
        told = _told_length(request)
        if told is not None and told > most:
            if request.headers.get("expect", "").lower() != "100-continue":  # then nothing of it is sent
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
        """None where it is longer."""
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
        """Whose body is longest on its way, and long enough, has to give way."""
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
        "Too many large requests are under way. Try again in a moment.",
        name="busy",
        headers={**BUSY, **(headers or {})},
    )


async def _discard(request: Request) -> None:
    """Read on for a moment: a client that is still sending when the connection is closed may never see the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while True:
                message = await request.receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return


def _told_length(request: Request) -> int | None:
    told = request.headers.get("content-length")
    if told is None:
        return None
    if not (told.isascii() and told.isdigit()):
        raise invalid("Content-Length is no number.")
    return int(told)


def too_large(most: int) -> Problem:
    # What is still to come would be taken for the next request: the connection ends.
    return Problem(
        TOO_LARGE,
        f"The body has more than {most} bytes. Send less at a time, or raise kompat.http.max.body.bytes.",
        name="body-too-large",
        headers={"connection": "close"},
    )


class Streams:
    """Answers without an end: each keeps a connection and some memory for as long as its client likes."""

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
