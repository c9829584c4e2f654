"""Keeps a link to one broker: dials while there is none, with a growing backoff."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
# Either side may dial, but the higher node id gives the lower one a head start: mostly only one of them does.
HEAD_START = 0.1
STEADY_SECONDS = 5.0  # a link that was up this long resets the backoff


def next_wait(wait: float) -> float:
    return min(LONGEST_WAIT, 2 * wait)


class Dialler:
    def __init__(self, host: str, port: int, dial: Callable[[str, int], Awaitable[bool]], *, is_higher: bool) -> None:
        """`dial` tries once, and returns whether there is a link."""
        self.address = (host, port)
        self._dial = dial
        self._head_start = HEAD_START if is_higher else 0.0
        self._loop = asyncio.get_running_loop()
        self._is_linked = False
        self._since = 0.0
        self._wait = FIRST_WAIT
        self._news = asyncio.Event()  # a link was lost, or there is another address
        self._task = self._loop.create_task(self._run())

    def move(self, host: str, port: int) -> None:
        if self.address != (host, port):
            self.address = (host, port)
            self._wait = FIRST_WAIT
            self._news.set()

    def linked(self) -> None:
        self._is_linked = True
        self._since = self._loop.time()

    def lost(self) -> None:
        self._is_linked = False
        if self._loop.time() - self._since >= STEADY_SECONDS:
            self._wait = FIRST_WAIT
        self._news.set()

    def stop(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        await asyncio.sleep(self._head_start)
        while True:
            self._news.clear()
            if self._is_linked or await self._dial(*self.address):
                await self._news.wait()
                await self._rest()
                continue
            await self._rest()

    async def _rest(self) -> None:
        """Not all brokers at the same moment; and at once where the address has changed."""
        self._news.clear()
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - only spreads load
        try:
            async with asyncio.timeout(self._wait * jitter + self._head_start):
                await self._news.wait()
        except TimeoutError:
            self._wait = next_wait(self._wait)
