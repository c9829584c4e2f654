"""The two ends of a stream. The receiver gives credit for what its reader has taken, the sender stops without any.

A chunk may be begun while there is some credit, however little: so a chunk may be larger than the window, and the
receiver holds at most a window and a chunk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kompat.errors import PeerError, ProtocolError

WINDOW = 2 * 1024 * 1024
CHUNK_COST = 64  # on top of its bytes, so that empty chunks are not free


def cost(size: int) -> int:
    return size + CHUNK_COST


class Assembly:
    """A body that comes in pieces. One that comes whole is handed on without a copy."""

    __slots__ = ("_limit", "_parts", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[memoryview] = []
        self.size = 0

    def add(self, piece: memoryview, *, is_last: bool) -> memoryview | None:
        """The whole body, when it is there."""
        self.size += len(piece)
        if self.size > self._limit:
            raise ProtocolError(f"a body is above the limit of {self._limit} bytes")
        if is_last and not self._parts:
            self.size = 0
            return piece
        self._parts.append(piece)
        if not is_last:
            return None
        whole = bytearray().join(self._parts)  # may be written to, as frames may
        self._parts, self.size = [], 0
        return memoryview(whole)


class Incoming:
    """What a peer streams to us, as an iterator over its chunks."""

    def __init__(self, limit: int, give_credit: Callable[[int], None]) -> None:
        self._assembly = Assembly(limit)
        self._give_credit = give_credit
        self._chunks: deque[memoryview] = deque()
        self._taken = 0  # since credit was last given
        self._held = 0
        self._is_ended = False
        self._error: PeerError | None = None
        self._waiter: asyncio.Future[None] | None = None

    # -- calls of the link -------------------------------------------------------------------------------------------
    def feed(self, piece: memoryview, *, is_last: bool) -> None:
        if self._held >= WINDOW:
            raise ProtocolError("a stream goes on without credit")
        chunk = self._assembly.add(piece, is_last=is_last)
        if chunk is not None:
            self._held += cost(len(chunk))
            self._chunks.append(chunk)
            self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def fail(self, error: PeerError) -> None:
        self._error = error
        self._chunks.clear()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- calls of the reader -----------------------------------------------------------------------------------------
    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> memoryview:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._is_ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = self._chunks.popleft()
        self._held -= cost(len(chunk))
        self._taken += cost(len(chunk))
        if self._taken >= WINDOW // 4:
            self._give_credit(self._taken)
            self._taken = 0
        return chunk


class Answer:
    """The pending response to a call or a stream that this broker began; of a stream, also the credit that is left."""

    __slots__ = ("_credit", "_outcome", "_waiter", "assembly")

    def __init__(self, limit: int) -> None:
        self.assembly = Assembly(limit)
        self._credit = WINDOW
        self._outcome: memoryview | Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_there(self) -> bool:
        return self._outcome is not None

    def complete(self, outcome: memoryview | Exception) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._wake()

    def add_credit(self, size: int) -> None:
        self._credit += size
        self._wake()

    def spend(self, size: int) -> None:
        self._credit -= size

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def credit(self) -> None:
        """Wait until there is credit, or the response."""
        while self._credit <= 0 and self._outcome is None:
            await self._changed()

    async def wait(self) -> memoryview:
        while self._outcome is None:
            await self._changed()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def _changed(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
