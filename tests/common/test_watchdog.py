"""Steps of a request are timed, and one that holds the event loop for long is warned of by its name."""

import asyncio
import logging
import time

import pytest

from kompat.common.slices import Slice, Turn
from kompat.common.watchdog import WARN_SECONDS, warn, watched


def test_every_step_of_a_coroutine_is_timed_and_what_it_waits_for_is_not() -> None:
    held: list[float] = []

    async def work() -> str:
        time.sleep(0.02)  # noqa: ASYNC251 - it holds the loop
        await asyncio.sleep(0.05)
        return "done"

    async def run() -> str:
        result: str = await watched(work(), held.append)
        return result

    assert asyncio.run(run()) == "done"
    assert len(held) == 2
    assert held[0] >= 0.02
    assert held[1] < 0.05


def test_what_a_coroutine_raises_or_is_told_passes_through() -> None:
    async def refuses() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    async def run() -> None:
        task = asyncio.ensure_future(watched(refuses(), lambda _: None))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_a_warning_names_the_request_and_comes_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    for _ in range(100):
        warn("SomeApi", 2 * WARN_SECONDS)

    [record] = caplog.records
    assert vars(record)["request"] == "SomeApi"


def test_stages_of_one_step_share_a_slice() -> None:
    held: list[float] = []

    async def stage() -> None:
        turn = Slice(seconds=0.02)
        for _ in range(3):
            if turn.is_over:
                await turn.pause()
            time.sleep(0.01)  # noqa: ASYNC251 - it holds the loop

    async def work() -> None:
        for _ in range(3):
            await stage()

    async def run() -> None:
        await watched(work(), held.append)

    asyncio.run(run())
    assert len(held) >= 5, "each stage would have a slice of its own in the turn of the one before"

    assert Turn.begun == 0.0
