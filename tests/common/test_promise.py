"""A promise: who is called when, in which order, and what becomes of those that fail. None of it needs an event loop."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kompat.common.promise import Promise, all_of, within
from kompat.errors import ErrorCode, KafkaError

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
GONE = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "gone")


def test_callbacks_run_in_their_order_where_it_is_resolved_and_at_once_where_it_is_done() -> None:
    promise: Promise[str] = Promise()
    called: list[tuple[int, str]] = []
    for number in range(4):
        promise.add_done_callback(lambda done, number=number: called.append((number, done.result())))  # type: ignore[misc]
    assert not called

    promise.resolve("kept")

    assert called == [(number, "kept") for number in range(4)]
    promise.add_done_callback(lambda done: called.append((4, done.result())))
    assert called[-1] == (4, "kept")


def test_a_callback_that_comes_while_others_are_called_is_called_at_once() -> None:
    promise: Promise[None] = Promise()
    called: list[str] = []

    def first(done: Promise[None]) -> None:
        done.add_done_callback(lambda _: called.append("within"))
        called.append("first")

    promise.add_done_callback(first)
    promise.add_done_callback(lambda _: called.append("second"))
    promise.resolve()

    assert called == ["within", "first", "second"]


def test_a_failed_one_raises_its_error_to_each_who_wants_the_result() -> None:
    promise: Promise[int] = Promise()
    promise.fail(FULL)

    for _ in range(3):
        with pytest.raises(KafkaError) as raised:
            promise.result()
        assert raised.value is FULL
    traceback: Any = FULL.__traceback__
    assert sum(1 for _ in iter_frames(traceback)) <= 2  # it does not grow with each who waits


def iter_frames(traceback: Any) -> Any:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


@pytest.mark.parametrize("failing", range(3))
def test_a_callback_that_fails_does_not_starve_the_others(failing: int) -> None:
    promise: Promise[None] = Promise()
    called: list[int] = []

    def call(number: int) -> None:
        if number == failing:
            raise ZeroDivisionError
        called.append(number)

    for number in range(3):
        promise.add_done_callback(lambda _, number=number: call(number))  # type: ignore[misc]

    with pytest.raises(ZeroDivisionError):  # there is no event loop that could be told of it
        promise.resolve()

    assert called == [number for number in range(3) if number != failing]


async def test_the_event_loop_is_told_of_a_callback_that_fails_and_whoever_resolves_is_not() -> None:
    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    promise: Promise[None] = Promise()
    promise.add_done_callback(lambda _: 1 / 0)

    promise.resolve()

    assert [type(each) for each in told] == [ZeroDivisionError]


async def test_a_coroutine_can_wait_for_it() -> None:
    promise: Promise[str] = Promise()
    asyncio.get_running_loop().call_soon(promise.resolve, "kept")

    assert await promise == "kept"
    assert await Promise.resolved("before") == "before"
    with pytest.raises(KafkaError):
        await Promise.failed(GONE)


async def test_a_coroutine_that_is_cancelled_while_it_waits_tells_the_promise() -> None:
    class Poll(Promise[None]):
        is_cancelled = False

        def cancel(self) -> None:
            self.is_cancelled = True

    promise = Poll()

    async def wait() -> None:
        await promise

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert promise.is_cancelled
    promise.resolve()  # whoever waited is gone


# -- of several ----------------------------------------------------------------------------------------------------------
def test_a_promise_of_several_is_kept_when_all_are() -> None:
    first, second = Promise[None](), Promise[None]()
    whole = all_of([first, second, first])
    first.resolve()
    assert not whole.is_done
    second.resolve()
    assert whole.is_done
    assert whole.error is None


def test_it_fails_as_the_first_that_does_but_not_before_all_have_ended() -> None:
    first, second, third = Promise[None](), Promise[None](), Promise[None]()
    whole = all_of([first, second, third])
    third.fail(GONE)
    first.resolve()
    assert not whole.is_done
    second.fail(FULL)
    assert whole.error is FULL  # by their order, not by that in which they failed


def test_of_one_it_is_that_one_and_of_kept_ones_it_is_kept() -> None:
    only: Promise[None] = Promise()
    assert all_of([only, only]) is only
    assert all_of([Promise.resolved(None), Promise.resolved(None)]).is_done
    assert all_of([]).is_done


@pytest.mark.parametrize("seed", range(20))
def test_however_they_end_the_whole_ends_with_the_last(seed: int) -> None:
    rng = random.Random(seed)
    promises = [Promise[None]() for _ in range(rng.randrange(1, 6))]
    errors = [rng.choice([None, FULL, GONE]) for _ in promises]
    whole = all_of(promises)
    order = rng.sample(range(len(promises)), len(promises))
    for number in order:
        assert not whole.is_done
        promises[number].end(errors[number])

    assert whole.is_done
    assert whole.error is next((error for error in errors if error is not None), None)


# -- in time -------------------------------------------------------------------------------------------------------------
async def test_what_is_done_in_time_is_told_so_however_it_ends() -> None:
    kept, failed = Promise[None](), Promise[None]()
    outcomes = [within(kept, 60), within(failed, 60), within(Promise.resolved(None), 60)]
    kept.resolve()
    failed.fail(GONE)

    assert [each.result() for each in outcomes] == [True, True, True]


async def test_what_is_not_done_in_time_is_told_so_once() -> None:
    late: Promise[None] = Promise()
    outcome = within(late, 0)

    assert await outcome is False
    late.resolve()  # nobody waits for it any more
    assert outcome.result() is False
