"""Measures for how long a request holds the event loop without a break, and warns by its name where that is too long."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

from kompat.repeated import Repeated, times

log = logging.getLogger(__name__)

WARN_SECONDS = 0.1

_repeated = Repeated()


def warn(name: str, seconds: float) -> None:
    """`name`: of the API or the route."""
    count = _repeated.count(name, perf_counter())
    if count:
        facts = {"request": name, "milliseconds": round(seconds * 1000)}
        log.warning("a request held the event loop, and everybody waited" + times(count), extra=facts)


@types.coroutine
def watched(work: Any, held: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """A coroutine; `held` is told how long each of its steps has taken."""
    step, value = work.send, None
    while True:
        begun = perf_counter()
        try:
            awaited = step(value)
        except StopIteration as done:
            return done.value
        finally:
            held(perf_counter() - begun)
        try:
            step, value = work.send, (yield awaited)
        except BaseException as error:  # noqa: BLE001 - it is the work's to deal with
            step, value = work.throw, error
