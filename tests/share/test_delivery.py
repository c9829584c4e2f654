"""Deliveries of share partitions with priorities and delays: each record once, nothing skipped, nothing held back."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kompat.share.machine.messages import AckType
from kompat.types import LogId
from tests.share.support import GROUP, ORDERS, Shop

ACCEPT = AckType.ACCEPT
URGENT, IDLE = {"kompat-priority": "9"}, {"kompat-priority": "0"}


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    made = Shop(is_extended=True)
    yield made
    await made.close()


async def test_what_is_passed_over_for_something_urgent_is_not_skipped(shop: Shop) -> None:
    """With one cursor that moves past the urgent record, the others would be lost."""
    await shop.send({}, {}, IDLE, {}, URGENT)
    assert await shop.fetch_exactly("alice", 1) == [4]
    assert await shop.acknowledge("alice", (4, 4, ACCEPT)) is None

    assert await shop.fetch_exactly("bob", 3) == [0, 1, 3]
    assert await shop.acknowledge("bob", (0, 1, ACCEPT), (3, 3, ACCEPT)) is None
    assert await shop.fetch_exactly("bob", 500) == [2]


async def test_a_batch_taken_in_another_order_is_delivered_once(shop: Shop) -> None:
    """With the last one's offset as the place to go on, what lies before it would come never, what lies after it twice."""
    await shop.send({}, URGENT, {}, URGENT, {}, IDLE)
    seen: list[int] = []
    while found := await shop.fetch_exactly("alice", 2, max_wait_ms=50):
        seen += found
        assert await shop.acknowledge("alice", *((offset, offset, ACCEPT) for offset in found)) is None
    assert seen == [1, 3, 0, 2, 4, 5]


async def test_what_is_in_flight_is_not_given_to_the_next_who_asks(shop: Shop) -> None:
    """A poll that begins with what was acknowledged last would give it out again."""
    await shop.send(IDLE, URGENT, {}, URGENT)
    held = [await shop.fetch_exactly(name, 1) for name in ("alice", "bob", "carol", "dave")]
    assert held == [[1], [3], [2], [0]]
    assert await shop.fetch_exactly("eve", 4, max_wait_ms=0) == []


async def test_the_slot_of_a_delayed_record_does_not_block_the_acknowledgement_mark(shop: Shop) -> None:
    """Were it to be waited for at its slot, the start could not move past it before its time."""
    for asked in ({}, {"kompat-delay-ms": "600000"}, {}):
        await shop.send(asked)
    assert await shop.fetch_exactly("alice", 3) == [0, 2]
    assert await shop.acknowledge("alice", (0, 0, ACCEPT), (2, 2, ACCEPT)) is None

    place = LogId(ORDERS, 0)
    live = await shop.service.use(GROUP, place)
    assert live.machine.start_offset == 3
    assert (await shop.service.offsets.describe(GROUP, place)).start_offset == 3


async def test_a_delayed_record_comes_to_a_group_that_has_passed_its_slot(shop: Shop) -> None:
    await shop.send({"kompat-delay-ms": "300"})
    await shop.send({})
    assert await shop.fetch_exactly("alice", 1) == [1]
    assert await shop.acknowledge("alice", (1, 1, ACCEPT)) is None

    fetched = await shop.fetch("bob", max_wait_ms=20_000)
    assert [tuple(span) for span in fetched.acquired] == [(2, 2, 1)]
