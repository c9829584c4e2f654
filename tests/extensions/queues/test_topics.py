"""Queue topics: deliveries are made for who asks, and acknowledged by records that leave no trace in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from kompat.cluster.requests import MorePartitions
from kompat.errors import ErrorCode, KafkaError
from kompat.log.packing import BATCH_BYTES
from kompat.log.validation import InvalidRecordsError
from kompat.protocol.records import Compression, Record, build_batch
from kompat.types import LogId
from tests.extensions.queues.support import House, Reader, ack_id, delivery_count, until, values


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        house = await House().start()
        stack.push_async_callback(lambda: house.close())
        await house.create("orders")
        yield house


async def test_a_delivery_is_the_record_and_says_how_to_acknowledge_it(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a", headers=(("trace", b"7"), ("kompat-ack", b"mine")))
    [delivered] = await Reader(house, "work").poll()

    assert (delivered.key, delivered.value, delivery_count(delivered)) == (b"k", b"a", 1)
    assert [name for name, _ in delivered.headers] == ["trace", "kompat-ack-id", "kompat-delivery-count"]


async def test_deliveries_come_in_batches_that_any_client_can_unpack(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    texts = [str(number) + "x" * 50_000 for number in range(40)]
    await house.send("orders", *texts, codec=Compression.ZSTD)
    reader = Reader(house, "work")
    found: list[str] = []
    while len(found) < len(texts):
        found += values(await reader.poll())

    assert found == texts
    assert max(house.plain_sizes("work")) <= BATCH_BYTES


async def test_nothing_is_delivered_that_nobody_asks_for(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    await asyncio.sleep(0.05)
    assert house.texts("work") == []
    reader = Reader(house, "work")
    assert values(await reader.poll()) == ["a"]
    await house.send("orders", "b")
    await asyncio.sleep(0.05)
    assert house.texts("work") == ["a"]


async def test_an_acknowledgement_gets_an_offset_of_its_own_and_leaves_it_empty(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a", "b")
    reader = Reader(house, "work")
    a, b = await reader.take(2)

    assert await house.acknowledge("work", "accept", ack_id(a)) == 2
    assert await house.acknowledge("work", "accept", ack_id(b)) == 3
    assert house.log("work").high_watermark == 4
    assert await reader.poll(0.1) == []
    told = await house.queues.statistics("work", "orders")
    assert (told.available, told.in_flight) == (0, 0)


async def test_the_log_forgets_what_is_settled_but_nothing_that_a_reader_has_not_passed(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_lock_ms=60_000)
    await house.send("orders", "a", "b", "c")
    reader = Reader(house, "work")
    a, b, c = await reader.take(3)
    await house.acknowledge("work", "accept", ack_id(b))
    await house.acknowledge("work", "accept", ack_id(a))
    await until(lambda: house.log("work").log_start_offset == 2)
    assert values(await Reader(house, "work", at_start=True).poll()) == ["c"]
    await house.acknowledge("work", "accept", ack_id(c))
    await until(lambda: house.log("work").log_start_offset == 3)
    assert house.log("work").log_start_offset <= reader.position


async def test_a_lock_that_ends_makes_a_new_delivery_and_too_many_a_dead_letter(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_lock_ms=40, kompat_queue_max_deliveries=2)
    await house.send("orders", "poison")
    reader = Reader(house, "work")
    first, second = await reader.take(2)

    assert [delivery_count(each) for each in (first, second)] == [1, 2]
    assert second.offset > first.offset
    with pytest.raises(InvalidRecordsError):
        await house.acknowledge("work", "accept", ack_id(first))
    await until(lambda: house.cluster.topic("dlq.orders") is not None and house.texts("dlq.orders") == ["poison"])
    assert await reader.poll(0.1) == []
    with pytest.raises(InvalidRecordsError, match=r"given up|done with"):
        await house.acknowledge("work", "release", ack_id(second))
    await until(lambda: house.log("work").log_start_offset == house.log("work").high_watermark)


async def test_what_is_released_comes_again_and_what_is_rejected_does_not(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.configure_group("work", kompat_share_release_backoff_ms=10)
    await house.send("orders", "again", "never")
    reader = Reader(house, "work")
    again, never = await reader.take(2)
    await house.acknowledge("work", "release", ack_id(again))
    await house.acknowledge("work", "reject", ack_id(never))
    [back] = await reader.take(1)
    assert (values([back]), delivery_count(back)) == (["again"], 2)


async def test_a_release_and_a_renewal_may_say_how_long(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_lock_ms=400)
    await house.send("orders", "a", "b")
    reader = Reader(house, "work")
    a, b = await reader.take(2)
    await house.acknowledge("work", "renew", ack_id(a), more=[("kompat-delay-ms", b"60000")])
    await house.acknowledge("work", "release", ack_id(b), more=[("kompat-delay-ms", b"0")])
    assert values(await reader.take(1)) == ["b"]
    assert values(await reader.take(1, seconds=1)) == ["b"]
    for kind, text, told in (
        ("accept", b"5", "only"),
        ("release", b"soon", "'soon' is not"),
        ("renew", b"9" * 12, "up to"),
    ):
        with pytest.raises(InvalidRecordsError, match=told):
            await house.acknowledge("work", kind, ack_id(a), more=[("kompat-delay-ms", text)])


async def test_a_lock_is_renewed(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_lock_ms=300)
    await house.send("orders", "a")
    reader = Reader(house, "work")
    [mine] = await reader.take(1)
    for _ in range(4):
        await asyncio.sleep(0.15)
        await house.acknowledge("work", "renew", ack_id(mine))
    assert house.texts("work") == ["a"]
    await house.acknowledge("work", "accept", ack_id(mine))


async def test_no_more_are_in_flight_than_allowed_and_room_is_used_at_once(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_max_in_flight=3)
    await house.send("orders", *(str(i) for i in range(8)))
    reader = Reader(house, "work")
    found = await reader.take(3)
    assert values(found) == ["0", "1", "2"]
    waiting = asyncio.ensure_future(reader.poll(3))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await house.acknowledge("work", "accept", ack_id(found[1]))
    assert values(await waiting) == ["3"]
    await house.acknowledge("work", "accept", *(ack_id(each) for each in (found[0], found[2])))
    assert values(await reader.take(2)) == ["4", "5"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [("done", "'done' is not one of accept, release, reject, renew"), ("", "is not one of"), ("accept", "receipt")],
)
async def test_what_is_no_acknowledgement_is_refused_with_a_reason(house: House, kind: str, told: str) -> None:
    await house.create("work", kompat_queue_source="orders")
    with pytest.raises(InvalidRecordsError, match=told) as raised:
        await house.acknowledge("work", kind, b"nonsense")
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert house.log("work").high_watermark == 0


async def test_plain_records_and_transactions_are_refused(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    with pytest.raises(InvalidRecordsError, match="queue topic"):
        await house.send("work", "hello")
    record = Record(0, house.clock.now(), None, b"")
    batch = build_batch([record], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    with pytest.raises(KafkaError, match="transaction"):
        house.log("work").append(memoryview(batch))


async def test_an_acknowledgement_of_another_queue_is_refused(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.create("other", kompat_queue_source="orders")
    await house.send("orders", "a")
    [mine] = await Reader(house, "work").take(1)
    [theirs] = await Reader(house, "other").take(1)
    with pytest.raises(InvalidRecordsError, match="one of other, not of work"):
        await house.acknowledge("work", "accept", ack_id(theirs))
    await house.acknowledge("work", "accept", ack_id(mine))
    await house.acknowledge("other", "accept", ack_id(theirs))


async def test_a_batch_of_acknowledgements_counts_as_a_whole_or_not_at_all(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a", "b")
    a, b = await Reader(house, "work").take(2)
    with pytest.raises(InvalidRecordsError) as raised:
        await house.acknowledge("work", "accept", ack_id(a), b"nonsense", ack_id(b))
    assert [error.batch_index for error in raised.value.record_errors] == [1]
    assert (await house.queues.statistics("work", "orders")).in_flight == 2
    await house.acknowledge("work", "accept", ack_id(a), ack_id(b), ack_id(a))
    assert (await house.queues.statistics("work", "orders")).in_flight == 0


async def test_an_accept_may_be_repeated_but_not_taken_back(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    [a] = await Reader(house, "work").take(1)
    await house.acknowledge("work", "accept", ack_id(a))
    await house.acknowledge("work", "accept", ack_id(a))
    with pytest.raises(InvalidRecordsError, match="was accepted"):
        await house.acknowledge("work", "release", ack_id(a))


async def test_a_retry_of_an_idempotent_producer_is_one_acknowledgement(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    [a] = await Reader(house, "work").take(1)
    record = Record(0, house.clock.now(), None, b"", [("kompat-ack", b"release"), ("kompat-ack-id", ack_id(a))])
    batches = [build_batch([record], producer_id=9, producer_epoch=0, base_sequence=0) for _ in range(2)]
    first, second = (house.log("work").append(memoryview(batch)) for batch in batches)
    await second.pending
    assert first.base_offset == second.base_offset


async def test_the_most_urgent_is_delivered_first_and_what_is_too_old_is_not(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_max_in_flight=1)
    await house.send("orders", "short-lived", headers=(("kompat-ttl-ms", b"1"), ("kompat-priority", b"8")))
    await house.send("orders", "usual")
    await house.send("orders", "urgent", headers=(("kompat-priority", b"9"),))
    await asyncio.sleep(0.01)
    reader, order = Reader(house, "work"), []
    for _ in range(2):
        [record] = await reader.take(1)
        order += values([record])
        await house.acknowledge("work", "accept", ack_id(record))
    assert order == ["urgent", "usual"]
    assert await reader.poll(0.1) == []


async def test_partitions_share_the_sources_partitions_and_any_takes_acknowledgements(house: House) -> None:
    await house.create("parts", 4)
    await house.create("work", 2, kompat_queue_source="parts")
    await house.create("wide", 3, kompat_queue_source="orders")
    for partition in range(4):
        await house.send("parts", f"p{partition}", partition=partition)
    even, odd = await Reader(house, "work", 0).take(2), await Reader(house, "work", 1).take(2)
    assert (sorted(values(even)), sorted(values(odd))) == (["p0", "p2"], ["p1", "p3"])
    await house.acknowledge("work", "accept", *(ack_id(each) for each in (*even, *odd)), partition=1)

    await house.send("orders", "x")
    assert values(await Reader(house, "wide", 2).take(1)) == ["x"]


async def test_a_queue_serves_what_its_source_gets_later(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    waiting = asyncio.ensure_future(Reader(house, "work").poll(4))
    await asyncio.sleep(0.02)
    await house.cluster.create_partitions([MorePartitions("orders", 2)])
    await house.send("orders", "second", partition=1)
    assert values(await waiting) == ["second"]


async def test_after_a_crash_only_what_was_not_acknowledged_comes_again(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a", "b", "c")
    a, b, c = await Reader(house, "work").take(3)
    await house.acknowledge("work", "accept", ack_id(a))
    await house.acknowledge("work", "reject", ack_id(c))
    house = await house.crash()
    try:
        found = await Reader(house, "work", at_start=True).take(2, seconds=0.5)
        assert values(found) == ["b"]
        await until(lambda: house.texts("dlq.orders") == ["c"])
        with pytest.raises(InvalidRecordsError, match="somebody else"):
            await house.acknowledge("work", "accept", ack_id(b))
        await house.acknowledge("work", "accept", ack_id(found[0]))
    finally:
        await house.close()


async def test_a_delivery_from_before_a_crash_can_be_acknowledged_until_it_comes_again(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    [a] = await Reader(house, "work").take(1)
    house = await house.crash()
    try:
        await house.shares.use("work", LogId(house.log("orders").log_id.topic_id, 0))
        await house.acknowledge("work", "accept", ack_id(a))
        assert await Reader(house, "work").poll(0.1) == []
    finally:
        await house.close()


async def test_an_acknowledgement_that_the_disk_refuses_did_not_happen(house: House) -> None:
    await house.create("work", kompat_queue_source="orders", kompat_queue_lock_ms=100)
    await house.send("orders", "a")
    reader = Reader(house, "work")
    [a] = await reader.take(1)
    house.disk.is_full = True
    with pytest.raises(KafkaError):
        await house.acknowledge("work", "accept", ack_id(a))
    house.disk.is_full = False
    [again] = await reader.take(1)
    await house.acknowledge("work", "accept", ack_id(again))


async def test_a_queue_made_again_begins_anew(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    [a] = await Reader(house, "work").take(1)
    await house.acknowledge("work", "accept", ack_id(a))
    await house.cluster.delete_topics(["work"])
    async with asyncio.timeout(30):
        while await house.shares.offsets.partitions_of("work"):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    await house.create("work", kompat_queue_source="orders")
    assert values(await Reader(house, "work").take(1)) == ["a"]


async def test_a_queue_whose_source_is_gone_says_nothing(house: House) -> None:
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a")
    [a] = await Reader(house, "work").take(1)
    await house.cluster.delete_topics(["orders"])
    assert await Reader(house, "work").poll(0.05) == []
    with pytest.raises(InvalidRecordsError, match="source"):
        await house.acknowledge("work", "accept", ack_id(a))


async def test_trap_4_what_is_in_flight_is_not_delivered_to_whoever_reads_next(house: House) -> None:
    """A poll that begins at what was acknowledged last gives out again what others hold."""
    await house.create("work", kompat_queue_source="orders")
    await house.send("orders", "a", "b", "c")
    one, two = Reader(house, "work"), Reader(house, "work")
    a, b, c = await one.take(3)
    await house.acknowledge("work", "accept", ack_id(c))
    two.position = house.log("work").high_watermark
    assert await two.poll(0.1) == []
    assert (await house.queues.acquire("work", "orders", max_records=5)) == []
    await house.acknowledge("work", "accept", ack_id(a), ack_id(b))
