"""What HTTP clients may hold of the broker's memory."""

from __future__ import annotations

import asyncio

import pytest

from kompat.admin.limits import LongAnswers, Share
from kompat.admin.problems import Problem

SOON = 0.05


async def test_long_answers_are_encoded_one_after_the_other() -> None:
    answers = LongAnswers()
    at_once, most = 0, 0

    async def encode() -> None:
        nonlocal at_once, most
        async with answers.turn():
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1

    await asyncio.gather(*(encode() for _ in range(5)))

    assert most == 1


async def test_no_long_answer_is_encoded_while_too_much_is_unread() -> None:
    answers, share = LongAnswers(limit=1000, seconds=SOON), Share()
    with share.room() as slow_reader:
        async with answers.turn():
            answers.hold(slow_reader, 1000)
        with pytest.raises(Problem) as refused:
            async with answers.turn():
                pass
        assert refused.value.status == 503
        assert share.used == 1000

    async with answers.turn():  # the slow reader is gone, and with it what it held
        pass
    assert share.used == 0


async def test_an_answer_whose_turn_does_not_come_is_refused() -> None:
    answers = LongAnswers(seconds=SOON)
    async with answers.turn():
        with pytest.raises(Problem) as refused:
            async with answers.turn():
                pass

    assert refused.value.status == 503


async def test_an_answer_that_waits_for_room_goes_on_when_another_was_read() -> None:
    answers, share = LongAnswers(limit=1000), Share()
    with share.room() as room:
        async with answers.turn():
            answers.hold(room, 1000)
        waiting = asyncio.ensure_future(answers.turn().__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()

    await asyncio.wait_for(waiting, 5)
