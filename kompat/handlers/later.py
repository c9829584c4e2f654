"""An answer that is not there yet.

Lighter than an asyncio.Future: callbacks run where the result is set, without another turn of the event loop. It has
the part of a Future's interface that the dispatcher uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    __slots__ = ("_callbacks", "_error", "_result", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._callbacks: list[Callable[[Later[T]], None]] = []
        self._result: T | None = None
        self._error: BaseException | None = None

    def set_result(self, result: T) -> None:
        self._result = result
        self._finish()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._finish()

    def result(self) -> T | None:
        if self._error is not None:
            raise self._error
        return self._result

    def add_done_callback(self, callback: Callable[[Later[T]], None]) -> None:
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _finish(self) -> None:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Any, None, T | None]:
        """For callers that are coroutines anyway: tests, and handlers that call handlers."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: None if waiter.done() else waiter.set_result(None))
            yield from waiter.__await__()
        return self.result()
