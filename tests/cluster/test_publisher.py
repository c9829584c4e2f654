"""Steps are taken in order, in slices, and one that fails holds up nothing behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

import pytest

from kompat.cluster import publisher as publisher_module
from kompat.cluster.publisher import Publisher
from kompat.common.slices import SLICE_SECONDS, Slice


def steps(taken: list[str], name: str, count: int = 1) -> Iterator[None]:
    for number in range(count):
        taken.append(f"{name}{number}")
        yield


def long_steps(taken: list[str], name: str, count: int = 3) -> Iterator[None]:
    """Each takes a slice."""
    for number in range(count):
        taken.append(f"{name}{number}")
        begun = perf_counter()
        while perf_counter() - begun < SLICE_SECONDS:
            pass
        yield


def broken() -> Iterator[None]:
    yield
    raise ValueError("a bug")


async def test_what_is_short_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        publisher_module, "Slice", lambda: Slice(60.0)
    )  # on a busy machine, three steps may take longer
    taken: list[str] = []

    Publisher().publish(steps(taken, "a", 3))

    assert taken == ["a0", "a1", "a2"]


async def test_what_is_long_lets_others_have_their_turns_and_what_comes_behind_it_waits() -> None:
    taken: list[str] = []
    publisher = Publisher()
    publisher.publish(long_steps(taken, "a"))
    publisher.publish(steps(taken, "b"))
    asyncio.get_running_loop().call_soon(taken.append, "somebody else")

    await publisher.published()

    assert taken == ["a0", "somebody else", "a1", "a2", "b0"]


async def test_nothing_has_to_be_waited_for_where_all_is_done() -> None:
    publisher = Publisher()
    publisher.publish(steps([], "a"))

    await asyncio.wait_for(publisher.published(), 5)


async def test_what_takes_the_place_of_the_rest_is_what_others_have_waited_for() -> None:
    taken: list[str] = []
    publisher = Publisher()
    publisher.publish(long_steps(taken, "a"))
    publisher.publish(steps(taken, "b"))
    waiting = asyncio.ensure_future(publisher.published())
    await asyncio.sleep(0)

    publisher.replace(steps(taken, "c"))
    await waiting

    assert taken[-1] == "c0"
    assert "b0" not in taken


async def test_steps_may_hand_in_more() -> None:
    taken: list[str] = []
    publisher = Publisher()

    def nested() -> Iterator[None]:
        publisher.publish(steps(taken, "b"))
        taken.append("a0")
        yield

    publisher.publish(nested())
    await publisher.published()

    assert taken == ["a0", "b0"]


async def test_a_failure_is_told_to_whoever_handed_it_in() -> None:
    publisher = Publisher()

    with pytest.raises(ValueError, match="a bug"):
        publisher.publish(broken())

    await publisher.published()


async def test_a_later_failure_is_told_and_holds_up_nothing() -> None:
    taken: list[str] = []
    publisher = Publisher(on_failed=lambda: taken.append("failed"))
    publisher.publish(long_steps(taken, "a", 1))
    publisher.publish(broken())
    publisher.publish(steps(taken, "b"))

    await publisher.published()

    assert taken == ["a0", "failed", "b0"]


async def test_closing_it_leaves_nobody_waiting() -> None:
    publisher = Publisher()
    publisher.publish(long_steps([], "a", 1000))
    waiting = asyncio.ensure_future(publisher.published())
    await asyncio.sleep(0)

    await publisher.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
