"""The service: what is promised is kept through crashes and full disks, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from kompat.clock import ManualClock
from kompat.errors import DamagedData, ErrorCode, KafkaError
from kompat.log.partition import Partition, ReadResult
from kompat.protocol.records import ControlType
from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import AckType, Span
from kompat.share.machine.order import ByOffset, Choice, Moment
from kompat.share.machine.settings import ShareSettings
from kompat.share.offset_reset import duration_ms
from kompat.types import LogId, Offset
from tests.share.support import EARLIEST, GROUP, ORDERS, Shop, until

ACCEPT, RELEASE, REJECT, RENEW = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW


@pytest.fixture
async def shops() -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Shop:
            shop = Shop(*args, **kwargs)
            stack.push_async_callback(shop.close)
            return shop

        yield make


async def test_acknowledged_records_never_come_again_and_others_do_after_a_crash(shops: Any) -> None:
    shop = shops()
    await shop.produce(10)
    assert await shop.fetch_offsets("alice") == list(range(10))
    assert await shop.acknowledge("alice", (0, 2, ACCEPT), (5, 5, ACCEPT), (6, 6, REJECT)) is None

    shop = await shop.crash()
    fetched = await shop.fetch("bob")
    assert [tuple(span) for span in fetched.acquired] == [(3, 4, 1), (7, 9, 1)]
    await shop.close()


async def test_an_acknowledgement_that_was_not_committed_was_not_made(shops: Any) -> None:
    shop = shops()
    await shop.produce(4)
    await shop.fetch_offsets("alice")
    shop.disk.is_full = True
    error = await shop.acknowledge("alice", (0, 3, ACCEPT))
    assert error is not None
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    shop.disk.is_full = False

    assert await shop.fetch_offsets("bob") == [0, 1, 2, 3]
    assert await shop.acknowledge("bob", (0, 3, ACCEPT)) is None
    assert await shop.fetch_offsets("carol", max_wait_ms=0) == []


async def test_delivery_counts_outlive_the_broker(shops: Any) -> None:
    shop = shops()
    await shop.produce(2)
    await shop.fetch_offsets("alice")
    await shop.acknowledge("alice", (0, 1, RELEASE))
    shop = await shop.crash()
    fetched = await shop.fetch("bob")
    assert [tuple(span) for span in fetched.acquired] == [(0, 1, 2)]
    await shop.close()


async def test_a_group_that_begins_at_the_end_misses_nothing_that_comes_after(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, offset_reset="latest"))
    await shop.produce(3)
    assert await shop.fetch_offsets("alice", max_wait_ms=50) == []
    shop = await shop.crash()
    await shop.produce(2)
    assert await shop.fetch_offsets("alice") == [3, 4]
    await shop.close()


async def test_locks_end_and_the_records_go_to_who_waits(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, lock_ms=100))
    await shop.produce(5)
    await shop.fetch_offsets("alice")
    fetched = await shop.fetch("bob")
    assert [tuple(span) for span in fetched.acquired] == [(0, 4, 2)]
    error = await shop.acknowledge("alice", (0, 4, ACCEPT))
    assert error is not None
    assert error.code is ErrorCode.INVALID_RECORD_STATE


async def test_released_records_wait_for_their_back_off(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, backoff_ms=150, max_backoff_ms=1000))
    await shop.produce(2)
    await shop.fetch_offsets("alice")
    before = shop.clock.monotonic()
    await shop.acknowledge("alice", (0, 1, RELEASE))
    assert await shop.fetch_offsets("bob") == [0, 1]
    assert shop.clock.monotonic() - before >= 0.15


async def test_who_fetches_waits_for_records(shops: Any) -> None:
    shop = shops()
    waiting = [asyncio.ensure_future(shop.fetch_exactly(name, 2)) for name in ("alice", "bob")]
    await asyncio.sleep(0.05)
    await shop.produce(4)
    assert [await each for each in waiting] == [[0, 1], [2, 3]]


async def test_min_bytes_are_waited_for(shops: Any) -> None:
    shop = shops()
    waiting = asyncio.ensure_future(shop.fetch_offsets("alice", min_bytes=200, max_wait_ms=5000))
    await asyncio.sleep(0.02)
    await shop.produce(1)
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await shop.produce(30)
    assert await waiting == list(range(31))


async def test_a_fetch_that_is_given_up_acquires_nothing(shops: Any) -> None:
    shop = shops()
    await shop.fetch_offsets("alice", max_wait_ms=0)
    waiting = asyncio.ensure_future(shop.fetch_offsets("alice"))
    await asyncio.sleep(0.02)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await shop.produce(3)
    assert await shop.fetch_offsets("bob") == [0, 1, 2]


async def test_records_come_from_the_store_where_memory_has_them_no_more(shops: Any) -> None:
    shop = shops(cache_bytes=0)
    for _ in range(20):
        await shop.produce(10)
    assert shop.orders.read(Offset(0), 1, 0) is None
    found = await asyncio.gather(*(shop.fetch_exactly(name, 50) for name in ("alice", "bob", "carol", "dave")))
    assert sorted(offset for each in found for offset in each) == list(range(200))


async def test_offsets_without_records_are_passed_over(shops: Any) -> None:
    shop = shops()
    await shop.produce(2, producer_id=7, producer_epoch=0, is_transactional=True)
    await shop.end_transaction(7, ControlType.COMMIT)
    await shop.produce(2)
    assert await shop.fetch_offsets("alice") == [0, 1, 3, 4]
    await shop.acknowledge("alice", (0, 1, ACCEPT), (3, 4, ACCEPT))
    described = await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))
    assert (described.start_offset, described.lag) == (5, 0)


async def test_an_end_marker_at_the_end_leaves_no_lag(shops: Any) -> None:
    shop = shops()
    await shop.produce(2, producer_id=7, producer_epoch=0, is_transactional=True)
    await shop.end_transaction(7, ControlType.COMMIT)
    assert await shop.fetch_offsets("alice") == [0, 1]
    await shop.acknowledge("alice", (0, 1, ACCEPT))
    assert await shop.fetch_offsets("alice", max_wait_ms=0) == []
    described = await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))
    assert (described.start_offset, described.lag) == (3, 0)


async def test_read_committed_leaves_out_what_was_aborted(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, is_read_committed=True))
    await shop.produce(2, producer_id=7, producer_epoch=0, is_transactional=True)
    await shop.produce(2, producer_id=8, producer_epoch=0, is_transactional=True)
    await shop.produce(1)
    assert await shop.fetch_offsets("alice", max_wait_ms=0) == []
    assert await shop.fetch_offsets("alice", max_wait_ms=20) == []
    await shop.end_transaction(7, ControlType.ABORT)
    await shop.end_transaction(8, ControlType.COMMIT)
    assert await shop.fetch_offsets("alice") == [2, 3, 4]
    await shop.acknowledge("alice", (2, 4, ACCEPT))
    assert await shop.fetch_offsets("alice", max_wait_ms=0) == []
    described = await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))
    assert (described.start_offset, described.lag) == (7, 0)


async def test_what_the_log_has_no_more_is_done_with(shops: Any) -> None:
    shop = shops()
    await shop.produce(5)
    await shop.produce(5)
    assert await shop.fetch_offsets("alice", 5) == [0, 1, 2, 3, 4]
    await shop.orders.delete_records(Offset(7))
    assert await shop.acknowledge("alice", (0, 4, ACCEPT)) is None
    assert await shop.fetch_offsets("bob") == [7, 8, 9]


async def test_a_record_that_fails_for_ever_is_given_up(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, backoff_ms=1, max_backoff_ms=1, delivery_limit=3))
    await shop.produce(1)
    for _ in range(3):
        assert await shop.fetch_offsets("alice") == [0]
        await shop.acknowledge("alice", (0, 0, RELEASE))
    assert await shop.fetch_offsets("alice", max_wait_ms=50) == []


@pytest.mark.slow
async def test_thousands_of_acknowledgements_are_snapshotted_and_none_is_lost(shops: Any) -> None:
    shop = shops(updates_per_snapshot=50)
    states = shop.states
    total = 0
    while all(state.log_start_offset == 0 for state in states):
        await shop.produce(1)
        await shop.produce(1)
        [first, last] = await shop.fetch_offsets("alice")
        await asyncio.gather(*(shop.acknowledge("alice", (o, o, ACCEPT)) for o in (last, first)))
        total += 2
        assert total < 40_000
    await shop.produce(2)
    shop = await shop.crash()
    assert await shop.fetch_offsets("alice") == [total, total + 1]
    await shop.close()


class EvenFirst:
    """An order of priority: even offsets are more urgent."""

    def next_spans(
        self, partition: AcquisitionState, settings: ShareSettings, max_records: int, moment: Moment
    ) -> Choice:
        free = [o for first, last, _ in partition.available(0, 99, moment.now) for o in range(first, last + 1)]
        return Choice([Span(o, o) for o in sorted(free, key=lambda o: (o % 2, o))[:max_records]])


async def test_another_order_takes_the_best_first_and_delivers_in_ascending_order(shops: Any) -> None:
    shop = shops(order=EvenFirst())
    for _ in range(10):
        await shop.produce(10)
    assert await shop.fetch_offsets("alice", 5) == [0, 2, 4, 6, 8]
    assert await shop.fetch_exactly("bob", 45) == list(range(10, 100, 2))
    assert await shop.acknowledge("bob", *((o, o, ACCEPT) for o in range(10, 100, 2))) is None
    shop = await shop.crash(order=EvenFirst())
    # What lies before what is done with is neither lost nor skipped.
    assert await shop.fetch_exactly("carol", 500) == [0, 1, 2, 3, 4, 5, 6, 7, 8, *range(9, 100, 2)]
    await shop.close()


async def test_locks_are_limited(shops: Any) -> None:
    shop = shops(settings=replace(EARLIEST, max_locks=100))
    for _ in range(20):
        await shop.produce(10)
    assert len(await shop.fetch_offsets("alice")) == 100
    waiting = asyncio.ensure_future(shop.fetch_offsets("bob"))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await shop.acknowledge("alice", (30, 59, ACCEPT))
    assert await waiting == list(range(100, 130))


async def test_share_partitions_that_nobody_uses_take_no_room(shops: Any) -> None:
    shop = shops()
    await shop.produce(3)
    partition = LogId(ORDERS, 0)
    shop.service.sessions.open(GROUP, "alice", "connection", [partition])
    await shop.fetch_offsets("alice")
    shop.service.disconnected("connection")
    await until(lambda: not shop.service._live)
    fetched = await shop.fetch("bob")
    assert [tuple(span) for span in fetched.acquired] == [(0, 2, 2)]


async def test_offsets_set_behind_its_back_take_effect(shops: Any) -> None:
    shop = shops()
    await shop.produce(10)
    await shop.fetch_offsets("alice")
    await shop.service.offsets.alter(GROUP, {LogId(ORDERS, 0): Offset(4)})
    assert await shop.fetch_offsets("bob") == [4, 5, 6, 7, 8, 9]
    error = await shop.acknowledge("alice", (5, 6, ACCEPT))
    assert error is not None


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1H", 3_600_000), ("p1dt2h", 93_600_000), ("PT0.5S", 500), ("PT1M30S", 90_000), ("P2D", 172_800_000)],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


async def test_a_group_may_begin_some_time_ago(shops: Any) -> None:
    clock = ManualClock()
    shop = shops(settings=replace(EARLIEST, offset_reset="by_duration:PT1H"), clock=clock)
    await shop.produce(3)
    clock.advance(7_200_000)
    await shop.produce(2)
    assert await shop.fetch_offsets("alice", max_wait_ms=500) == [3, 4]


class Breaking(ByOffset):
    """An order that has a bug in it, from some moment on."""

    is_broken = False

    def next_spans(self, *args: Any) -> Choice:
        if self.is_broken:
            raise ZeroDivisionError("a bug")
        return super().next_spans(*args)


async def test_a_fetch_that_waits_is_answered_even_where_a_bug_is_met(shops: Any) -> None:
    order = Breaking()
    shop = shops(order=order)
    waiting = shop.service.fetch(shop.request("alice", max_wait_ms=60_000))
    await until(lambda: waiting._timer is not None and not waiting._loading)
    order.is_broken = True

    await shop.produce(1)

    async with asyncio.timeout(30):
        [found] = await waiting
    assert found.error is not None
    assert found.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    order.is_broken = False
    assert await shop.fetch_offsets("alice") == [0]


async def test_a_fetch_of_what_the_disk_has_damaged_is_answered(shops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def damaged(*_: Any, **__: Any) -> ReadResult:
        raise DamagedData("bad checksum")

    shop = shops(cache_bytes=0)
    await shop.produce(1)
    with monkeypatch.context() as patched:
        patched.setattr(Partition, "read_stored", damaged)
        async with asyncio.timeout(30):
            [found] = await shop.service.fetch(shop.request("alice", max_wait_ms=60_000))
    assert found.error is not None
    assert "bad checksum" in found.error.message
    assert await shop.fetch_offsets("alice") == [0]


async def test_what_cannot_be_loaded_keeps_nobody_waiting(shops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    shop = shops()
    await shop.produce(1)
    with monkeypatch.context() as patched:
        patched.setattr("kompat.share.service.initial_offset", broken)
        async with asyncio.timeout(30):
            with pytest.raises(KafkaError, match="a bug"):
                await shop.service.use(GROUP, LogId(ORDERS, 0))
    assert await shop.fetch_offsets("alice") == [0]
