"""Measures how long a request holds the event loop without a break, and logs a warning with its name if that is too long."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

from kompat.common.repeated import Repeated, times
from kompat.common.slices import Turn

log = logging.getLogger(__name__)

WARN_SECONDS = 0.1

_repeated = Repeated()


def warn(name: str, seconds: float) -> None:
    """Log a warning. `name` is the API or the route."""
    count = _repeated.count(name, perf_counter())
    if count:
        facts = {"request": name, "milliseconds": round(seconds * 1000)}
        log.warning("a request held the event loop, and all other requests waited" + times(count), extra=facts)


@types.coroutine
def watched(work: Any, held: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Run a coroutine, and call `held` with the duration of each of its steps."""
    step, value = work.send, None
    while True:
        begun = Turn.begun = perf_counter()
        try:
            awaited = step(value)
        except StopIteration as done:
            return done.value
        finally:
            Turn.begun = 0.0
            held(perf_counter() - begun)
        try:
            step, value = work.send, (yield awaited)
        except BaseException as error:  # noqa: BLE001 - it is the work's to deal with
            step, value = work.throw, error
