import asyncio

from kompat.common.slices import Slice, sliced


async def test_others_have_turns_while_a_long_list_is_worked_on() -> None:
    turns = 0

    async def innocent() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(innocent())
    seen = [item async for item in sliced(range(10), seconds=0.0)]
    beside.cancel()

    assert seen == list(range(10))
    assert turns >= 9


async def test_a_short_list_is_worked_on_in_one_turn() -> None:
    turns = 0

    async def innocent() -> None:
        nonlocal turns
        turns += 1

    beside = asyncio.create_task(innocent())
    seen = [item async for item in sliced(range(3), seconds=60.0)]

    assert seen == [0, 1, 2]
    assert turns == 0
    await beside


async def test_a_slice_begins_anew_after_a_pause() -> None:
    current = Slice(seconds=0.0)
    assert current.is_over

    longer = Slice(seconds=60.0)
    assert not longer.is_over
    await longer.pause()
    assert not longer.is_over
