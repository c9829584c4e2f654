"""What one client, or many, may take of the broker: bytes of bodies, time for them to arrive, streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from kompat.admin.problems import TOO_LARGE, UNAVAILABLE, Problem, invalid

if TYPE_CHECKING:
    from starlette.requests import Request

BODY_SECONDS = 30.0  # for a body to arrive
DISCARD_SECONDS = 2.0
ALL_BODIES_BYTES = 64 * 1024 * 1024  # of all that are being read or worked on
BUSY = {"retry-after": "1"}


class Bodies:
    """Reads bodies, each to its end or not at all."""

    def __init__(self, seconds: float = BODY_SECONDS, all_bytes: int = ALL_BODIES_BYTES) -> None:
        self._seconds = seconds
        self._room = all_bytes

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        if size > self._room:
            raise Problem(
                UNAVAILABLE, "Too many large requests are under way. Try again in a moment.", name="busy", headers=BUSY
            )
        self._room -= size
        try:
            yield
        finally:
            self._room += size

    async def read(self, request: Request, most: int) -> bytes:
        """Raises a problem where the body is longer than `most`, or does not come in time."""
        told = _told_length(request)
        if told is not None and told > most:
            if request.headers.get("expect", "").lower() != "100-continue":  # then nothing of it is sent
                await _discard(request)
            raise too_large(most)
        try:
            async with asyncio.timeout(self._seconds):
                body = await _all(request, most)
        except TimeoutError:
            raise Problem(
                408,
                f"The body has not arrived within {self._seconds:.0f} seconds. Send it faster, or less of it.",
                headers={"connection": "close"},
            ) from None
        if body is None:
            await _discard(request)
            raise too_large(most)
        return body


async def _all(request: Request, most: int) -> bytes | None:
    """None where it is longer."""
    parts, size = [], 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        if size > most:
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


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
