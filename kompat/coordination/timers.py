"""Timeouts as commands: at a machine's next deadline, a tick is run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.types import Millis

logger = logging.getLogger(__name__)

_SOONEST = 0.001  # seconds: a machine with a deadline in the past must not keep the loop busy
_RETRY = 1.0  # seconds, after a command that could not be committed


class Alarm:
    """One timer of the event loop for all deadlines of a machine."""

    def __init__(
        self, clock: Clock, next_deadline: Callable[[], Millis | None], ring: Callable[[], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._next_deadline = next_deadline
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._set_for = Millis(0)
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def arm(self) -> None:
        """To be called whenever deadlines may have moved. A later deadline needs no change: the alarm then rings too early."""
        due = self._next_deadline()
        if due is None or self._is_closed or self._task is not None:
            return
        if self._handle is not None:
            if self._set_for <= due:
                return
            self._handle.cancel()
        self._set_for = due
        self._start(max(_SOONEST, (due - self._clock.now()) / 1000))

    def clock_moved(self) -> None:
        """Deadlines and the clock have moved together, so the time that the alarm is set for is invalid."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.arm()

    def _start(self, seconds: float) -> None:
        self._handle = asyncio.get_running_loop().call_later(seconds, self._due)

    def _due(self) -> None:
        self._handle = None
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self._ring()
        except KafkaError as error:
            logger.warning("what a deadline demands could not be written: %s", error)
            self._task = None
            if not self._is_closed and self._handle is None:
                self._set_for = Millis(0)
                self._start(_RETRY)
        else:
            self._task = None
            self.arm()

    def close(self) -> None:
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
