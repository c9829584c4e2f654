"""Buffers events for the recorder, which writes them a moment later."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from kompat.extensions.tracing.events import Happening

MOST_GATHERED: Final = 20_000  # events
AT_ONCE: Final = 500  # events that are written before other tasks get their turn


class EventBuffer:
    """If there are more events than can be written, the newest are dropped and counted."""

    def __init__(self) -> None:
        self._gathered: deque[Happening] = deque()
        self._filled = asyncio.Event()
        self.count = 0  # of events in it
        self.dropped = 0

    @property
    def has_room(self) -> bool:
        return self.count < MOST_GATHERED

    def add(self, happening: Happening) -> None:
        count = len(happening.entries)
        if self.count + count > MOST_GATHERED:
            self.dropped += count
            return
        if count <= AT_ONCE:
            self._gathered.append(happening)
        else:
            self._gathered.extend(happening.parts(AT_ONCE))
        self.count += count
        if not self._filled.is_set():
            self._filled.set()

    async def filled(self) -> None:
        """Wait until there is an event."""
        await self._filled.wait()

    def take_some(self) -> list[Happening]:
        """The oldest."""
        some, count = [], 0
        while self._gathered and count < AT_ONCE:
            happening = self._gathered.popleft()
            some.append(happening)
            count += len(happening.entries)
        self.count -= count
        if not self._gathered:
            self._filled.clear()
        return some
