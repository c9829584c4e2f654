"""What a group gives up is written to its dead-letter topic: once, whenever the broker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.messages import AckType, Dead
from kompat.share.partition import SharePartition
from kompat.types import LogId
from tests.share.support import EARLIEST, GROUP, ORDERS, Shop, until

ACCEPT, RELEASE, REJECT = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT
WITH_LETTERS = replace(EARLIEST, has_dead_letters=True, backoff_ms=1, max_backoff_ms=1, delivery_limit=2)


@pytest.fixture
async def shops() -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Shop:
            shop = Shop(*args, **{"settings": WITH_LETTERS, **kwargs})
            stack.push_async_callback(shop.close)
            return shop

        yield make


async def start_offset(shop: Shop) -> int:
    return (await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))).start_offset


async def until_started_at(shop: Shop, offset: int) -> None:
    """The end of records is written after their dead-letter records."""
    async with asyncio.timeout(30):
        while await start_offset(shop) != offset:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


async def test_a_rejected_record_becomes_a_letter_that_tells_whence_and_why(shops: Any) -> None:
    shop = shops()
    await shop.produce(3)
    await shop.fetch_offsets("alice")
    assert await shop.acknowledge("alice", (0, 0, ACCEPT), (1, 1, REJECT), (2, 2, ACCEPT)) is None
    await until(lambda: len(shop.read_letters()) == 1)

    [letter] = shop.read_letters()
    assert letter.value == b"1"
    headers = dict(letter.headers)
    assert headers.pop("__dlq.errors.message")
    assert headers == {
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"group",
        "__dlq.errors.delivery.count": b"1",
    }
    await until_started_at(shop, 3)


async def test_a_record_that_was_delivered_too_often_becomes_a_letter(shops: Any) -> None:
    shop = shops()
    await shop.produce(1)
    for _ in range(2):
        assert await shop.fetch_offsets("alice") == [0]
        await shop.acknowledge("alice", (0, 0, RELEASE))
    await until(lambda: len(shop.read_letters()) == 1)
    assert await shop.fetch_offsets("alice", max_wait_ms=20) == []


async def test_letters_are_written_by_the_broker_that_follows_where_the_first_could_not(shops: Any) -> None:
    shop = shops()
    shop.is_letterbox_shut = True
    await shop.produce(3)
    await shop.fetch_offsets("alice")
    assert await shop.acknowledge("alice", (0, 2, REJECT)) is None
    await asyncio.sleep(0.02)
    assert await start_offset(shop) == 0
    assert await shop.fetch_offsets("bob", max_wait_ms=20) == []

    shop = await shop.crash()
    await until(lambda: len(shop.read_letters()) == 3)
    assert [letter.value for letter in shop.read_letters()] == [b"0", b"1", b"2"]
    await until_started_at(shop, 3)
    shop = await shop.crash()
    assert await start_offset(shop) == 3
    assert await shop.fetch_offsets("bob", max_wait_ms=20) == []
    assert shop.letters.high_watermark == 3
    await shop.close()


async def test_letters_that_the_disk_refuses_are_written_later_and_once(shops: Any) -> None:
    shop = shops()
    shop.is_letterbox_shut = True
    await shop.produce(2)
    await shop.fetch_offsets("alice")
    await shop.acknowledge("alice", (0, 1, REJECT))
    shop.disk.is_full = True
    shop.is_letterbox_shut = False
    await asyncio.sleep(0.15)
    shop.disk.is_full = False
    assert await shop.fetch_offsets("bob", max_wait_ms=50) == []
    await until(lambda: len(shop.read_letters()) == 2)
    await until_started_at(shop, 2)


async def test_many_letters_are_written_a_few_at_a_time(shops: Any) -> None:
    shop = shops(settings=replace(WITH_LETTERS, max_locks=10_000), cache_bytes=0)
    for _ in range(4):
        await shop.produce(2_000)
    taken = 0
    while taken < 8_000:
        taken += len(await shop.fetch_offsets("alice", 2_000))
    await shop.acknowledge("alice", (0, 7_999, REJECT))
    await until_started_at(shop, 8_000)
    assert shop.letters.high_watermark == 8_000


async def test_without_a_dead_letter_topic_records_are_forgotten(shops: Any) -> None:
    shop = shops(settings=replace(WITH_LETTERS, has_dead_letters=False))
    await shop.produce(2)
    await shop.fetch_offsets("alice")
    await shop.acknowledge("alice", (0, 1, REJECT))
    assert await start_offset(shop) == 2
    assert shop.read_letters() == []


async def test_letters_of_records_whose_end_was_refused_are_not_written_again(
    shops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shops()
    refusals = iter([KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "not now")])
    finish = SharePartition.finish

    def refused_once(live: SharePartition, dead: Dead) -> Promise[None]:
        error = next(refusals, None)
        if error is None:
            return finish(live, dead)
        return Promise.failed(error)

    monkeypatch.setattr(SharePartition, "finish", refused_once)
    await shop.produce(2)
    await shop.fetch_offsets("alice")
    await shop.acknowledge("alice", (0, 1, REJECT))
    await until(lambda: shop.letters.high_watermark == 2)
    assert await start_offset(shop) == 0
    await until_started_at(shop, 2)
    assert [letter.value for letter in shop.read_letters()] == [b"0", b"1"]
