"""The receipt door: records are acquired, and their holders say by receipt what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.messages import AckBatch, AckType
from kompat.share.machine.settings import ShareSettings
from kompat.share.receipts import Receipt
from kompat.share.requests import FetchRequest
from kompat.types import LogId
from tests.extensions.queues.support import House, until

GROUP = "workers"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        house = await House().start()
        stack.push_async_callback(lambda: house.close())
        await house.configure_group(GROUP, share_auto_offset_reset="earliest", kompat_share_release_backoff_ms=20)
        yield house


async def texts(house: House, count: int, **options: Any) -> list[str]:
    found = await house.queues.acquire(GROUP, "orders", max_records=count, **options)
    return [(each.record.value or b"").decode() for each in found]


async def test_a_record_is_with_one_receiver_at_a_time_until_it_is_accepted(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a", "b", "c")

    [first] = await house.queues.acquire(GROUP, "orders")
    assert (first.record.value, first.partition, first.deliveries, first.lock_ms) == (b"a", 0, 1, 30_000)
    assert await texts(house, 10) == ["b", "c"]
    assert await texts(house, 10) == []
    assert await house.queues.accept([first.receipt]) == [None]

    told = await house.queues.statistics(GROUP, "orders")
    assert (told.available, told.in_flight, told.deliveries) == (0, 2, {1: 2})


async def test_an_acquisition_waits_for_what_comes(house: House) -> None:
    await house.create("orders")
    waiting = asyncio.ensure_future(texts(house, 5, max_wait_ms=5000))
    await asyncio.sleep(0.02)
    await house.send("orders", "late")
    assert await waiting == ["late"]


async def test_a_lock_that_ends_gives_the_record_to_the_next(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a")
    [lost] = await house.queues.acquire(GROUP, "orders", lock_ms=30)
    [again] = await house.queues.acquire(GROUP, "orders", max_wait_ms=3000)

    assert (lost.deliveries, again.deliveries) == (1, 2)
    [stale] = await house.queues.accept([lost.receipt])
    assert stale is not None
    assert stale.code is ErrorCode.INVALID_RECORD_STATE
    assert "somebody else" in stale.message
    assert await house.queues.accept([again.receipt]) == [None]


async def test_a_lock_is_extended(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a")
    [mine] = await house.queues.acquire(GROUP, "orders", lock_ms=150)
    assert await house.queues.extend([mine.receipt], lock_ms=60_000) == [None]
    assert await texts(house, 1, max_wait_ms=300) == []
    assert await house.queues.accept([mine.receipt]) == [None]


async def test_the_last_holders_word_counts_while_nobody_else_has_had_the_record(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a")
    [slow] = await house.queues.acquire(GROUP, "orders", lock_ms=10)
    live = await house.shares.use(GROUP, LogId(house.log("orders").log_id.topic_id, 0))
    await until(lambda: live.machine.next_deadline() is None)

    assert await house.queues.accept([slow.receipt]) == [None]
    assert await house.queues.accept([slow.receipt]) == [None]
    assert await texts(house, 1) == []


async def test_what_is_released_comes_again_after_its_delay(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a", "b")
    soon, late = await house.queues.acquire(GROUP, "orders", max_records=2)
    assert await house.queues.release([late.receipt], delay_ms=60_000) == [None]
    assert await house.queues.release([soon.receipt], delay_ms=0) == [None]

    assert await texts(house, 10, max_wait_ms=2000) == ["a"]
    told = await house.queues.statistics(GROUP, "orders")
    assert (told.available, told.in_flight, told.backing_off, told.deliveries) == (0, 1, 1, {1: 1, 2: 1})


async def test_what_is_rejected_becomes_a_dead_letter(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "good", "bad")
    good, bad = await house.queues.acquire(GROUP, "orders", max_records=2)
    assert await house.queues.reject([bad.receipt]) == [None]
    assert await house.queues.reject([bad.receipt]) == [None]
    assert await house.queues.accept([good.receipt]) == [None]
    await until(lambda: house.cluster.topic("dlq.orders") is not None and house.texts("dlq.orders") == ["bad"])


async def test_a_dead_letter_tells_why_it_was_rejected(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "bad", "worse")
    bad, worse = await house.queues.acquire(GROUP, "orders", max_records=2)
    assert await house.queues.reject([bad.receipt], reason="no such dish") == [None]
    assert await house.queues.reject([worse.receipt]) == [None]
    await until(lambda: house.cluster.topic("dlq.orders") is not None and len(house.texts("dlq.orders")) == 2)

    causes = {record.value: dict(record.headers)["__dlq.errors.message"] for record in house.records("dlq.orders")}
    assert causes == {
        b"bad": b"The record was rejected by a consumer: no such dish",
        b"worse": b"The record was rejected by a consumer.",
    }
    await until(lambda: not any(live.reasons for live in house.shares.live))


async def test_reasons_are_not_kept_where_there_are_no_dead_letters(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.create("orders")
    await house.send("orders", "bad")
    [bad] = await house.queues.acquire(GROUP, "orders")
    [live] = house.shares.live
    monkeypatch.setattr(live, "_settings", lambda: ShareSettings(has_dead_letters=False))
    assert await house.queues.reject([bad.receipt], reason="no such dish") == [None]
    assert live.reasons == {}


async def test_receipts_are_judged_one_by_one(house: House) -> None:
    await house.create("orders")
    await house.create("gone")
    await house.send("orders", "a", "b")
    await house.send("gone", "x")
    a, b = await house.queues.acquire(GROUP, "orders", max_records=2)
    [gone] = await house.queues.acquire(GROUP, "gone")
    await house.cluster.delete_topics(["gone"])
    garbled = a.receipt[:-2] + ("A" if a.receipt[-2] != "A" else "B") + a.receipt[-1]
    outcomes = await house.queues.accept([a.receipt, "nonsense", garbled, gone.receipt, b.receipt])

    assert [outcome and outcome.code for outcome in outcomes] == [
        None,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD_STATE,
        None,
    ]
    assert "is not a receipt" in str(outcomes[1])
    assert (await house.queues.statistics(GROUP, "orders")).in_flight == 0


async def test_receipts_outlive_the_broker(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a", "b", "c")
    a, b, _ = await house.queues.acquire(GROUP, "orders", max_records=3)
    house = await house.crash()
    try:
        assert await house.queues.accept([a.receipt]) == [None]
        assert await texts(house, 10) == ["b", "c"]
        [stale] = await house.queues.accept([b.receipt])
        assert stale is not None
        house = await house.crash()
        assert await texts(house, 10) == ["b", "c"]
    finally:
        await house.close()


async def test_a_group_that_begins_anew_has_given_nothing_out(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a")
    [old] = await house.queues.acquire(GROUP, "orders")
    partition = LogId(house.log("orders").log_id.topic_id, 0)
    await house.shares.offsets.alter(GROUP, {partition: house.log("orders").log_start_offset})
    [refused] = await house.queues.accept([old.receipt])
    assert refused is not None
    assert "anew" in refused.message
    assert await texts(house, 1) == ["a"]


async def test_partitions_take_turns(house: House) -> None:
    await house.create("orders", 3)
    for partition in range(3):
        await house.send("orders", *(f"{partition}-{i}" for i in range(4)), partition=partition)
    taken = [each for _ in range(6) for each in await texts(house, 2)]
    assert sorted(text[0] for text in taken[:6]) == ["0", "0", "1", "1", "2", "2"]
    assert len(taken) == 12
    await house.send("orders", "one", partition=1)
    assert await texts(house, 2, partition=1) == ["one"]


async def test_members_of_the_share_group_and_holders_of_receipts_share_the_records(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a", "b")
    [mine] = await house.queues.acquire(GROUP, "orders")
    partition = LogId(house.log("orders").log_id.topic_id, 0)
    request = FetchRequest(group_id=GROUP, member_id="alice", partitions=[partition], max_records=10)
    [fetched] = await house.shares.fetch(request)
    assert [(span.first, span.last) for span in fetched.acquired] == [(1, 1)]

    [outcome] = house.shares.acknowledge(GROUP, "alice", {partition: [AckBatch(0, 0, [AckType.ACCEPT])]})
    assert outcome.promise.error is not None
    [outcome] = house.shares.acknowledge(GROUP, "alice", {partition: [AckBatch(1, 1, [AckType.ACCEPT])]})
    await outcome.promise
    assert await house.queues.accept([mine.receipt]) == [None]
    assert (await house.queues.statistics(GROUP, "orders")).in_flight == 0


@pytest.mark.parametrize(
    ("group", "topic", "partition"), [(GROUP, "nothere", None), ("", "orders", None), (GROUP, "orders", 7)]
)
async def test_what_does_not_exist_is_told(house: House, group: str, topic: str, partition: int | None) -> None:
    await house.create("orders")
    with pytest.raises(KafkaError):
        await house.queues.acquire(group, topic, partition=partition)


async def test_a_group_that_has_not_begun_has_nothing_in_flight_and_does_not_begin_by_being_asked(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "a")
    assert (await house.queues.statistics(GROUP, "orders")).available == 0
    assert await house.shares.offsets.partitions_of(GROUP) == []


async def test_a_receipt_that_nobody_was_given_makes_no_group(house: House) -> None:
    topic = await house.create("orders")
    await house.send("orders", "a")
    place = LogId(topic.id, 0)
    forged = Receipt("strangers", place, 0, 1, 0, b"8 bytes!").encode()

    [refusal] = await house.queues.accept([forged])

    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_RECORD_STATE
    assert await house.shares.offsets.partitions_of("strangers") == []
    assert not house.shares._live


async def test_groups_that_nobody_uses_any_more_take_no_room(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.shares, "_most_live", 3)
    monkeypatch.setattr("kompat.share.service.MOST_LIVE", 3)
    await house.create("orders")
    await house.send("orders", "a", "b")
    [kept] = await house.queues.acquire(GROUP, "orders")
    for number in range(10):
        name = f"once-{number}"
        await house.configure_group(name, share_auto_offset_reset="earliest")
        [given] = await house.queues.acquire(name, "orders")
        assert await house.queues.accept([given.receipt]) == [None]

    assert len(house.shares._live) <= 4
    assert GROUP in {key.group_id for key in house.shares._live}
    assert await house.queues.accept([kept.receipt]) == [None]
    assert await texts(house, 5) == ["b"]


async def test_depth_is_told_by_class_of_what_nobody_holds(house: House) -> None:
    await house.create("orders")
    for values, headers in (
        (("a", "b", "c"), ()),
        (("now", "soon"), (("kompat-priority", b"9"),)),
        (("some day",), (("kompat-priority", b"0"),)),
    ):
        await house.send("orders", *values, headers=headers)

    [urgent] = await house.queues.acquire(GROUP, "orders", max_records=1)
    assert urgent.record.value == b"now"
    told = await house.queues.statistics(GROUP, "orders")
    assert (told.classes, told.available, told.in_flight) == ({0: 1, 4: 3, 9: 1}, 5, 1)

    await house.queues.accept([urgent.receipt])
    assert (await house.queues.statistics(GROUP, "orders")).classes == {0: 1, 4: 3, 9: 1}
    assert len(await house.queues.acquire(GROUP, "orders", max_records=2)) == 2
    told = await house.queues.statistics(GROUP, "orders")
    assert sum(told.classes.values()) == told.available == 3


async def test_a_group_begins_where_whoever_asks_first_says_unless_its_settings_do(house: House) -> None:
    await house.create("orders")
    await house.send("orders", "before")

    assert await house.queues.acquire("late", "orders", begin="latest") == []
    found = await house.queues.acquire("early", "orders", begin="earliest")
    assert [each.record.value for each in found] == [b"before"]
    assert await house.queues.acquire("late", "orders", begin="earliest") == []
    await house.configure_group("strict", share_auto_offset_reset="latest")
    assert await house.queues.acquire("strict", "orders", begin="earliest") == []
    topics = {group_id for group_id, topic_id in await house.shares.persister.topics()}
    assert topics == {"late", "early", "strict"}


async def test_what_does_not_pass_with_time_is_told_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.create("orders")

    async def refused(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    monkeypatch.setattr(house.shares, "use", refused)
    async with asyncio.timeout(10):
        with pytest.raises(KafkaError, match="no space left"):
            await house.queues.acquire(GROUP, "orders", max_wait_ms=3_600_000)
