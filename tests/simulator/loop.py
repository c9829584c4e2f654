"""An event loop whose time passes when nothing else is left to do."""

import asyncio
import selectors
from collections.abc import Callable
from random import Random
from typing import Any


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.slept: Callable[[float], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.slept(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    def __init__(self, random: Random) -> None:
        selector = _Selector()
        self.now = 1_000.0
        self._random = random
        super().__init__(selector)
        selector.slept = self._sleep
        self.failures: list[BaseException] = []
        self.set_exception_handler(self._note)

    def _sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0)

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(context.get("exception") or AssertionError(context["message"]))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Later, by itself: a thread's work, without the thread."""
        future: asyncio.Future[Any] = self.create_future()
        begin = getattr(getattr(func, "__self__", None), "begin_sync", None)
        if begin is not None:
            begin()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - handed on, as an executor does
                future.set_exception(error)

        self.call_later(self._random.uniform(0.0001, 0.01), work)
        return future


class SimClock:
    """The wall clock of one broker: it may be wrong."""

    def __init__(self, loop: SimLoop, ahead_ms: int = 0) -> None:
        self._loop = loop
        self.ahead_ms = ahead_ms

    def now(self) -> int:
        return 1_700_000_000_000 + int(self._loop.now * 1000) + self.ahead_ms

    def monotonic(self) -> float:
        return self._loop.now
