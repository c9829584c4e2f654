"""Long work on the event loop is done in slices: between two of them everybody else has a turn.

    async for name in sliced(names):
        answer.append(look_up(name))

What cannot be cut, because it is one call of the native module, which works without the interpreter's lock, is done `aside`.

No request may hold the loop for more than 10 ms. A slice is shorter than that, because what is done with one item also takes its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

SLICE_SECONDS = 0.004

T = TypeVar("T")

# Few, because each may unpack a batch of 128 MiB. All brokers of a process share them: they have no state.
_aside = ThreadPoolExecutor(2, "kompat-aside")


class Slice:
    """How long the work has had the event loop to itself. `await pause()` gives others a turn and begins the next slice."""

    __slots__ = ("_ends", "_seconds")

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._ends = perf_counter() + seconds

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._ends

    async def pause(self) -> None:
        await asyncio.sleep(0)
        self._ends = perf_counter() + self._seconds


async def sliced(items: Iterable[T], seconds: float = SLICE_SECONDS) -> AsyncIterator[T]:
    """The items in their order; whenever a slice is over, others have a turn before the next item."""
    current = Slice(seconds)
    for item in items:
        if current.is_over:
            await current.pause()
        yield item


async def aside(work: Callable[[], T]) -> T:
    """What it comes to in a worker thread. It must look at nothing that the event loop changes meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_aside, work)
