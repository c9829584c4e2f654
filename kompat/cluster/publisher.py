"""Applies committed metadata on this broker in the order of its log: short steps at once, long ones in slices.

For a topic of 10,000 partitions, 10,000 logs have to be opened or dropped. That is done in slices between other tasks, and
later records wait behind it. `published` waits for the effects of committed records.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from kompat.common.slices import Slice

logger = logging.getLogger(__name__)

Steps = Iterator[None]  # other tasks may run after each of them


class Publisher:
    def __init__(self, on_failed: Callable[[], None] = lambda: None) -> None:
        """`on_failed`: called if steps raise an exception after their caller has returned."""
        self._on_failed = on_failed
        self._queue: deque[Steps | asyncio.Future[None]] = deque()
        self._is_working = False
        self._task: asyncio.Task[None] | None = None

    def publish(self, steps: Steps) -> None:
        """Run these steps after all earlier ones."""
        self._queue.append(steps)
        self._begin()

    def replace(self, steps: Steps) -> None:
        """As `publish`, but instead of all steps that have not been run yet."""
        waiting = [each for each in self._queue if isinstance(each, asyncio.Future)]
        self._queue.clear()
        self._queue.extend((steps, *waiting))
        self._begin()

    async def published(self) -> None:
        """Wait for all steps so far."""
        if self._queue:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            await done

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for each in self._queue:
            if isinstance(each, asyncio.Future):
                each.cancel()

    def _begin(self) -> None:
        if self._task is None and not self._is_working:
            try:
                self._work()
            finally:
                if self._queue:
                    self._task = asyncio.ensure_future(self._rest())

    async def _rest(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)
                try:
                    self._work()
                except Exception:
                    logger.exception("committed metadata could not be made true on this broker")
                    self._on_failed()
        finally:
            self._task = None

    def _work(self) -> None:
        """Run the steps of one slice. Steps that raise an exception are dropped: those behind them must not wait for ever."""
        turn = Slice()
        self._is_working = True
        try:
            while self._queue:
                first = self._queue.popleft()
                if isinstance(first, asyncio.Future):
                    if not first.done():
                        first.set_result(None)
                    continue
                for _ in first:
                    if turn.is_over:
                        self._queue.appendleft(first)
                        return
        finally:
            self._is_working = False
