"""Long work on the event loop is done in slices: other tasks get a turn between two of them.

    async for name in sliced(names):
        answer.append(look_up(name))

A single long call of the native module, which releases the interpreter's lock, cannot be sliced: it runs in a thread (`aside`).

No request may hold the loop for more than 10 ms. A slice is shorter than that, because the work on its last item takes time, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

SLICE_SECONDS = 0.004

T = TypeVar("T")

# Few threads, because each may decompress a batch of 128 MiB. All brokers of a process share them: they have no state.
_aside = ThreadPoolExecutor(2, "kompat-aside")


class Turn:
    """Since when the request that is carried out has had the event loop; 0 where no request has it.

    What it has done before in the same turn counts for its slices, too: three stages of a slice each would be too long.
    """

    begun = 0.0


class Slice:
    """Measures how long the work has held the event loop. `await pause()` gives other tasks a turn and begins the next slice."""

    __slots__ = ("_ends", "_seconds")

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._ends = (Turn.begun or perf_counter()) + seconds

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._ends

    async def pause(self) -> None:
        await asyncio.sleep(0)
        self._ends = perf_counter() + self._seconds


async def sliced(items: Iterable[T], seconds: float = SLICE_SECONDS) -> AsyncIterator[T]:
    """The items in order; when a slice is over, other tasks get a turn before the next item."""
    current = Slice(seconds)
    for item in items:
        if current.is_over:
            await current.pause()
        yield item


async def driven(steps: Generator[None, None, T]) -> T:
    """Run the steps and return their result; other tasks get a turn when a slice is over."""
    turn = Slice()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if turn.is_over:
            await turn.pause()


async def aside(work: Callable[[], T]) -> T:
    """Run the work in a thread and return its result. It must not read what the event loop changes meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_aside, work)
