"""What is under way to one broker is bounded, and nobody passes those who wait."""

from __future__ import annotations

import asyncio

from kompat.rpc.window import Window
from tests.rpc.network import run


class Crowd:
    def __init__(self, window: Window) -> None:
        self.window = window
        self.inside: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, size: int) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.ensure_future(self._stay(name, size))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _stay(self, name: str, size: int) -> None:
        async with self.window.room(size):
            self.inside.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.inside.remove(name)

    async def go(self, name: str) -> None:
        self._ends[name].set()
        await asyncio.sleep(0.001)

    async def give_up(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        await asyncio.sleep(0.001)


def test_calls_and_bytes_are_bounded_and_the_first_to_wait_is_the_first_to_go() -> None:
    async def work() -> None:
        crowd = Crowd(Window(3, 100))
        for name, size in (("a", 60), ("b", 60), ("c", 10), ("d", 10)):
            await crowd.come(name, size)
        assert crowd.inside == ["a"]  # c would fit, but b was first
        await crowd.go("a")
        assert crowd.inside == ["b", "c", "d"]
        await crowd.come("e", 1)
        assert crowd.inside == ["b", "c", "d"]
        await crowd.go("c")
        assert crowd.inside == ["b", "d", "e"]
        for name in ("b", "d", "e"):
            await crowd.go(name)
        assert (crowd.window.calls, crowd.window.bytes) == (0, 0)

    run(work())


def test_what_is_larger_than_the_window_goes_alone() -> None:
    async def work() -> None:
        crowd = Crowd(Window(3, 100))
        await crowd.come("huge", 1000)
        await crowd.come("small", 1)
        assert crowd.inside == ["huge"]
        await crowd.go("huge")
        assert crowd.inside == ["small"]
        await crowd.go("small")

    run(work())


def test_who_gives_up_leaves_its_place_to_those_behind() -> None:
    async def work() -> None:
        crowd = Crowd(Window(2, 100))
        for name, size in (("a", 50), ("large", 90), ("b", 50)):
            await crowd.come(name, size)
        assert crowd.inside == ["a"]
        await crowd.give_up("large")
        assert crowd.inside == ["a", "b"]
        await crowd.give_up("a")
        await crowd.give_up("b")
        assert (crowd.window.calls, crowd.window.bytes) == (0, 0)

    run(work())


def test_who_is_let_in_and_gives_up_at_the_same_moment_leaves() -> None:
    async def work() -> None:
        window = Window(1, 100)
        crowd = Crowd(window)
        await crowd.come("a", 1)
        await crowd.come("b", 1)
        await crowd.come("c", 1)
        crowd._ends["a"].set()
        for _ in range(3):
            await asyncio.sleep(0)
            crowd.tasks["b"].cancel()
        await asyncio.gather(crowd.tasks["b"], return_exceptions=True)
        await asyncio.sleep(0.001)
        assert crowd.inside == ["c"]
        await crowd.go("c")
        assert (window.calls, window.bytes) == (0, 0)

    run(work())
