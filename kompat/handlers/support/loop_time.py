"""Measures the time of one request on the event loop."""

from __future__ import annotations

import types
from collections.abc import Generator
from time import perf_counter
from typing import Any


class LoopTime:
    __slots__ = ("_since", "spent")

    def __init__(self, begun: float) -> None:
        self._since = begun
        self.spent = 0.0  # seconds, until the last pause

    def pause(self) -> None:
        """The request waits."""
        self.spent += perf_counter() - self._since

    def go_on(self) -> None:
        self._since = perf_counter()

    @types.coroutine
    def timed(self, work: Any) -> Generator[Any, Any, Any]:
        """A handler's coroutine, by the time of its steps."""
        step, value = work.send, None
        while True:
            self.go_on()
            try:
                awaited = step(value)
            except StopIteration as done:
                return done.value
            finally:
                self.pause()
            try:
                step, value = work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - it is the handler's to deal with
                step, value = work.throw, error
