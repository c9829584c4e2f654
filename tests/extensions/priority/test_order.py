"""Priorities and times to live, from the headers of a batch to what members are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from kompat.clock import ManualClock
from kompat.extensions.priority import index as priority_index
from kompat.extensions.priority import order as classes
from kompat.protocol.records import ControlType
from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.requests import FetchedPartition
from kompat.types import LogId, Offset
from tests.share.support import EARLIEST, GROUP, ORDERS, Shop, until

ACCEPT, RELEASE, REJECT = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT
URGENT, HIGH, IDLE = {"kompat-priority": "9"}, {"kompat-priority": "high"}, {"kompat-priority": "0"}
SHORT = {"kompat-ttl-ms": "1000"}
TRANSACTION = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


@pytest.fixture
async def shops() -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Shop:
            shop = Shop(*args, **{"is_extended": True, **kwargs})
            stack.push_async_callback(shop.close)
            return shop

        yield make


async def drain(shop: Shop, size: int = 1) -> list[int]:
    """All that can be had, so many at a time, each accepted before the next is asked for."""
    seen: list[int] = []
    while found := acquired(await shop.fetch("alice", size, mode=AcquireMode.RECORD_LIMIT, max_wait_ms=50)):
        seen += found
        assert await shop.acknowledge("alice", *((offset, offset, ACCEPT) for offset in found)) is None
    return seen


def acquired(fetched: FetchedPartition) -> list[int]:
    return [offset for span in fetched.acquired for offset in range(span.first, span.last + 1)]


async def lag(shop: Shop) -> int:
    return (await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))).lag


async def test_the_highest_class_comes_first_and_within_a_class_the_oldest(shops: Any) -> None:
    shop = shops()
    await shop.send(IDLE, {}, HIGH, URGENT)
    await shop.send({}, URGENT, {"kompat-priority": "4"}, IDLE)
    assert await drain(shop) == [3, 5, 2, 1, 4, 6, 0, 7]
    assert await lag(shop) == 0


async def test_names_that_others_use_count_where_their_values_do(shops: Any) -> None:
    shop = shops()
    await shop.send({"priority": "soon"}, {"x-priority": "7"}, {"priority": "9"}, {"x-priority": "12"})
    assert await drain(shop) == [2, 1, 0, 3]


async def test_who_waits_longer_counts_for_more(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(clock=clock)
    await shop.send(IDLE)
    clock.advance(4 * 30_000 + 1)
    await shop.send({}, IDLE)
    clock.advance(1)
    await shop.send(URGENT)
    assert await drain(shop) == [3, 0, 1, 2]


async def test_what_nothing_is_known_of_does_not_wait_for_ever(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(clock=clock)
    await shop.produce(2)
    await shop.send(URGENT)
    assert await shop.fetch_exactly("alice", 1) == [2]  # and what lies before it has been looked at
    await shop.produce(1)
    await shop.send(URGENT)
    clock.advance(5 * 30_000 + 1)
    await shop.send(URGENT)
    assert await drain(shop) == [4, 0, 1, 3, 5]


async def test_classes_are_strict_where_a_topic_says_so(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(clock=clock)
    shop.orders.configure(replace(shop.orders.config, kompat_priority_aging_ms=0))
    await shop.send({}, IDLE)
    clock.advance(10_000_000)
    await shop.send(HIGH)
    assert await drain(shop) == [2, 0, 1]


async def test_a_delayed_record_has_its_class_and_its_time_when_it_comes(shops: Any) -> None:
    shop = shops()
    await shop.send({**URGENT, "kompat-delay-ms": "30"}, {**HIGH, "kompat-delay-ms": "30", "kompat-ttl-ms": "1"}, {})
    await until(lambda: shop.orders.log_end_offset == 5)
    clock = shop.clock.now()
    await until(lambda: shop.clock.now() > clock + 5)
    # Whoever gets an offset within a batch that has no record, says so.
    assert [offset for offset in await drain(shop) if offset > 1] == [3, 2]
    assert await lag(shop) == 0


@pytest.mark.parametrize("is_read_committed", [True, False])
async def test_transactions_keep_their_own_order_of_events(shops: Any, is_read_committed: bool) -> None:
    shop = shops(settings=replace(EARLIEST, is_read_committed=is_read_committed))
    await shop.send({}, IDLE)
    await shop.send({}, URGENT, **TRANSACTION)
    await shop.send(HIGH)
    assert await shop.fetch_exactly("alice", 1) == ([0] if is_read_committed else [3])
    await shop.end_transaction(7, ControlType.ABORT)
    expected = [4, 1] if is_read_committed else [4, 0, 2, 1]
    assert await drain(shop) == expected
    if is_read_committed:
        assert await shop.acknowledge("alice", (0, 0, ACCEPT)) is None
    else:
        assert await shop.acknowledge("alice", (3, 3, ACCEPT)) is None
    assert await shop.fetch_exactly("alice", 1, max_wait_ms=0) == []
    assert await lag(shop) == 0


async def test_what_was_released_comes_again_before_what_is_less_urgent(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, backoff_ms=1, max_backoff_ms=1))
    await shop.send({}, IDLE, URGENT)
    assert await shop.fetch_exactly("alice", 1) == [2]
    assert await shop.acknowledge("alice", (2, 2, RELEASE)) is None
    await until(lambda: next(iter(shop.service._live.values())).machine.next_deadline() is None)
    shop = await shop.crash(is_extended=True)
    assert await drain(shop) == [2, 0, 1]
    await shop.close()


async def test_batches_that_are_not_in_memory_are_read_where_they_lie(shops: Any) -> None:
    shop = shops(cache_bytes=0)
    for index in range(60):
        await shop.send(*({} if each % 7 or index % 3 else URGENT for each in range(10)))
    urgent = [index * 10 + each for index in range(0, 60, 3) for each in (0, 7)]
    assert await shop.fetch_exactly("alice", len(urgent)) == urgent
    rest = await shop.fetch_exactly("bob", 600)
    assert sorted([*urgent, *rest]) == list(range(600))


async def test_no_more_is_sent_than_asked_for_and_that_is_the_best(shops: Any) -> None:
    shop = shops()
    for index in range(10):
        await shop.send({}, URGENT if index == 8 else IDLE, value=b"x" * 1000)
    fetched = await shop.fetch("alice", max_bytes=4500)
    assert fetched.size <= 4500
    assert acquired(fetched) == [0, 17]


async def test_locks_are_limited_also_far_ahead(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, max_locks=10))
    for _ in range(10):
        await shop.send({}, {}, {}, URGENT)
    assert await shop.fetch_exactly("alice", 500) == list(range(3, 40, 4))
    assert await shop.fetch_exactly("bob", 5, max_wait_ms=0) == []
    assert await shop.acknowledge("alice", (7, 7, ACCEPT), (39, 39, ACCEPT)) is None
    assert await shop.fetch_exactly("bob", 5) == [0, 1]


async def test_gaps_are_closed_before_the_state_grows_too_large(shops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "MOST_RUNS", 20)
    shop = shops()
    for _ in range(100):
        await shop.send({}, URGENT)
    seen: list[int] = []
    while found := await shop.fetch_exactly("alice", 2, max_wait_ms=50):
        seen += found
        assert await shop.acknowledge("alice", *((offset, offset, ACCEPT) for offset in found)) is None
        assert len(next(iter(shop.service._live.values())).machine.runs()) <= 23
    assert sorted(seen) == list(range(200))
    assert seen[:20] == list(range(1, 40, 2))


async def test_what_the_log_has_no_more_is_forgotten_bit_by_bit(shops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority_index, "FORGOTTEN_AT_ONCE", 3)
    shop = shops()
    for _ in range(20):
        await shop.send({}, URGENT, SHORT)
    await shop.orders.delete_records(Offset(31))
    await until(lambda: len(list(shop.orders.store.states(b"p/c"))) == 20)
    assert await shop.fetch_exactly("alice", 2) == [31, 34]
    await shop.orders.delete_records(Offset(60))
    await until(lambda: not list(shop.orders.store.states(b"p/c")))
    await shop.send({}, URGENT)
    assert await shop.fetch_exactly("alice", 1) == [61]


async def test_a_record_is_not_given_out_after_its_time(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(clock=clock)
    await shop.send({}, SHORT, {**URGENT, **SHORT}, {**IDLE, "kompat-ttl-ms": "5000"})
    assert await shop.fetch_exactly("alice", 1) == [2]
    clock.advance(1000)
    assert await shop.fetch_exactly("bob", 500) == [0, 3]
    assert await shop.acknowledge("bob", (0, 0, ACCEPT)) is None
    # Who has it may still say what became of it; if nobody is done with it, nobody else gets it.
    assert await shop.acknowledge("alice", (2, 2, RELEASE)) is None
    clock.advance(5000)
    assert await shop.fetch_exactly("carol", 500, max_wait_ms=0) == []
    assert await shop.acknowledge("bob", (3, 3, ACCEPT)) is None
    assert await lag(shop) == 0
    assert shop.read_letters() == []
    assert len(shop.read_orders()) == 4  # the log keeps it


async def test_many_that_are_past_their_time_hide_none_that_is_not(shops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "MOST_EXPIRED", 5)
    monkeypatch.setattr(classes, "PAGE", 3)
    monkeypatch.setattr(classes, "MOST_PAGES", 20)
    shop = shops()
    for _ in range(50):
        await shop.send({"kompat-ttl-ms": "0"}, {**URGENT, "kompat-ttl-ms": "0"})
    await shop.send({})
    assert await shop.fetch_exactly("alice", 10) == [100]


async def test_who_waits_for_bytes_is_not_disturbed_by_what_is_past_its_time(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(clock=clock)
    await shop.send({})
    assert await shop.fetch_exactly("alice", 1) == [0]
    await shop.send(SHORT, {})
    waiting = asyncio.ensure_future(shop.fetch("bob", 10, min_bytes=1000, max_wait_ms=5000))
    await asyncio.sleep(0.02)
    clock.advance(1000)
    await shop.send({}, value=b"x" * 1000)
    assert acquired(await waiting) == [2, 3]
    assert await shop.acknowledge("bob", (2, 3, ACCEPT)) is None


async def test_a_record_of_a_compacted_log_may_be_gone(shops: Any) -> None:
    shop = shops()
    await shop.send({}, URGENT, key=b"a")
    await shop.send(URGENT, {}, key=b"k")
    shop.orders.configure(replace(shop.orders.config, compact=True, delete=False, min_cleanable_dirty_ratio=0.0))
    await shop.send(URGENT, key=b"k")
    shop.orders.log.roll(shop.clock.now())
    await shop.send({}, key=b"b")
    await shop.logs.clean(shop.clock.now())
    assert [record.offset for record in shop.read_orders()] == [1, 4, 5]
    # Whoever gets an offset within a batch that has no record any more, says so.
    assert [offset for offset in await drain(shop, 2) if offset != 0] == [1, 4, 5]
    assert await lag(shop) == 0


async def test_a_share_group_costs_nothing_more_where_nobody_asks_for_anything(shops: Any) -> None:
    shop = shops()
    await shop.produce(10)
    await shop.send({"other": "header"})
    live = await shop.service.use(GROUP, LogId(ORDERS, 0))
    assert [tuple(span) for span in live.next_spans(5)] == [(0, (1 << 63) - 1)]
    assert list(shop.orders.store.states(b"p/")) == []
