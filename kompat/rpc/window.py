"""Limits the calls and bytes in flight to one broker. Further calls wait, in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST_CALLS = 256
MOST_BYTES = 32 << 20


class Window:
    """One call of any size is admitted if nothing else is in flight."""

    def __init__(self, most_calls: int = MOST_CALLS, most_bytes: int = MOST_BYTES) -> None:
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.calls = 0
        self.bytes = 0

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Admit a call, while it is in flight."""
        if self._waiting or not self._has_room(size):
            await self._wait(size)
        else:
            self._enter(size)
        try:
            yield
        finally:
            self._leave(size)

    async def _wait(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, turn)
        self._waiting.append(place)
        try:
            await turn
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
                self._admit()  # smaller ones behind it may fit
            else:
                self._leave(size)  # it was admitted, but cancelled
            raise

    def _has_room(self, size: int) -> bool:
        return self.calls == 0 or (self.calls < self._most_calls and self.bytes + size <= self._most_bytes)

    def _enter(self, size: int) -> None:
        self.calls += 1
        self.bytes += size

    def _leave(self, size: int) -> None:
        self.calls -= 1
        self.bytes -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._enter(size)
                turn.set_result(None)
