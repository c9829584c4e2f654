"""Dead letters are looked at, put back once, and thrown away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from struct import pack

import pytest

from kompat.errors import KafkaError
from kompat.extensions.dead_letters.redrive import Marks, Selection
from kompat.extensions.dead_letters.share_groups import Profile
from kompat.log.packing import BATCH_BYTES
from kompat.protocol.records import Compression, Record, build_batch, read_header
from kompat.types import Millis, Offset
from tests.extensions.queues.support import House, until

GROUP = "workers"
LETTERS = "dlq.orders"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        house = await House().start()
        stack.push_async_callback(lambda: house.close())
        await house.create("orders")
        await house.configure_group(GROUP, share_auto_offset_reset="earliest")
        yield house


async def bury(
    house: House, *texts: str, group: str = GROUP, headers: object = (), codec: Compression = Compression.NONE
) -> None:
    """Let records become dead letters."""
    await house.send("orders", *texts, headers=headers, codec=codec)
    found = await house.queues.acquire(group, "orders", max_records=100)
    before = letters(house)
    doomed = [each.receipt for each in found if (each.record.value or b"").decode() in texts]
    assert await house.queues.reject(doomed) == [None] * len(texts)
    await until(lambda: letters(house) == before + len(texts))


def letters(house: House) -> int:
    found = house.logs.find(LETTERS, 0)
    return 0 if found is None else found.high_watermark


def headers_of(record: Record) -> dict[str, bytes | None]:
    return dict(record.headers)


async def test_letters_are_browsed_page_by_page_with_whence_and_why(house: House) -> None:
    await bury(house, "a", "b", "c", headers=(("mine", b"1"),))
    first = await house.letters.browse(LETTERS, limit=2)
    rest = await house.letters.browse(LETTERS, limit=2, cursor=first.cursor)

    assert [letter.record.value for letter in (*first.items, *rest.items)] == [b"a", b"b", b"c"]
    assert rest.cursor is None
    letter = first.items[1]
    assert letter.origin is not None
    assert letter.origin[:5] == ("orders", 0, 1, GROUP, 1)
    assert "rejected" in letter.origin.cause
    assert (letter.record.headers, letter.redrives, letter.is_redriven) == ([("mine", b"1")], 0, False)
    assert house.letters.topics() == [LETTERS]
    with pytest.raises(KafkaError, match="cursor"):
        await house.letters.browse(LETTERS, cursor="7:x")


async def test_a_redriven_record_is_a_new_one_that_tells_how_often(house: House) -> None:
    await bury(house, "a", headers=(("mine", b"1"), ("kompat-delay-ms", b"0"), ("kompat-msg-id", b"m1")))
    outcome = await house.letters.redrive(LETTERS)
    assert (outcome.count, outcome.failed) == (1, {})
    [again] = await house.queues.acquire(GROUP, "orders", max_records=10)

    assert (again.record.key, again.record.value, again.record.offset, again.deliveries) == (b"k", b"a", 1, 1)
    assert headers_of(again.record) == {
        "mine": b"1",
        "kompat-delay-ms": b"0",
        "kompat-msg-id": b"m1",
        "kompat-redrive-count": b"1",
    }
    await house.queues.reject([again.receipt])
    await until(lambda: letters(house) == 2)
    assert (await house.letters.redrive(LETTERS)).count == 1
    assert [headers_of(record)["kompat-redrive-count"] for record in house.records("orders", start=1)] == [b"1", b"2"]


async def test_a_delay_or_a_message_id_does_not_act_a_second_time(house: House) -> None:
    """It would wait again, or be dropped as repeated."""
    await house.send("orders", "delayed", headers=(("kompat-delay-ms", b"30"), ("kompat-msg-id", b"m1")))
    [found] = await house.queues.acquire(GROUP, "orders", max_wait_ms=3000)
    await house.queues.reject([found.receipt])
    await until(lambda: letters(house) == 1)
    await house.letters.redrive(LETTERS)
    assert len(await house.queues.acquire(GROUP, "orders")) == 1


async def test_a_redriven_record_is_as_urgent_as_before(house: House) -> None:
    await bury(house, "urgent", headers=(("kompat-priority", b"9"),))
    await house.send("orders", "usual")
    await house.letters.redrive(LETTERS)
    [first] = await house.queues.acquire(GROUP, "orders")
    assert first.record.value == b"urgent"


async def test_letters_and_what_is_put_back_come_in_batches_that_any_client_can_unpack(house: House) -> None:
    texts = [str(number) + "x" * 50_000 for number in range(40)]
    await bury(house, *texts, codec=Compression.ZSTD)

    assert house.texts(LETTERS) == texts
    assert max(house.plain_sizes(LETTERS)) <= BATCH_BYTES
    assert {read_header(batch).compression for batch in house.batches(LETTERS)} == {Compression.ZSTD}

    assert (await house.letters.redrive(LETTERS)).count == 40
    assert house.texts("orders")[40:] == texts
    assert max(house.plain_sizes("orders", start=40)) <= BATCH_BYTES
    assert (await house.letters.redrive(LETTERS)).count == 0


async def test_each_letter_is_redriven_once(house: House) -> None:
    await bury(house, "a", "b", "c")
    some = await house.letters.redrive(LETTERS, Selection(offsets={0: frozenset([1])}))
    rest = await house.letters.redrive(LETTERS)
    none = await house.letters.redrive(LETTERS)
    assert (some.count, rest.count, none.count) == (1, 2, 0)
    assert house.texts("orders") == ["a", "b", "c", "b", "a", "c"]
    page = await house.letters.browse(LETTERS)
    assert [letter.is_redriven for letter in page.items] == [True] * 3
    assert (await house.letters.redrive(LETTERS, Selection(with_redriven=True))).count == 3
    told = await house.letters.statistics(LETTERS)
    assert (told.dead_letters, told.redriven) == (3, 3)


async def test_letters_are_selected_by_group_cause_topic_and_time(house: House) -> None:
    await house.configure_group("others", share_auto_offset_reset="earliest", share_delivery_count_limit=2)
    await bury(house, "a")
    [first] = await house.queues.acquire("others", "orders")
    await house.queues.release([first.receipt], delay_ms=0)
    [second] = await house.queues.acquire("others", "orders", max_wait_ms=3000)
    await asyncio.sleep(0.002)
    now = house.clock.now()
    await house.queues.release([second.receipt])
    await until(lambda: letters(house) == 2)

    async def offsets(**by: object) -> list[int]:
        page = await house.letters.browse(LETTERS, selection=Selection(**by))  # type: ignore[arg-type]
        return [letter.offset for letter in page.items]

    assert await offsets(group_id=GROUP) == [0]
    assert await offsets(group_id="others") == [1]
    assert await offsets(cause="REJECTED") == [0]
    assert await offsets(cause="limit") == [1]
    assert await offsets(topic="orders") == [0, 1]
    assert await offsets(topic="other") == []
    assert await offsets(since=now) == [1]
    assert await offsets(until=now) == [0]


@pytest.mark.parametrize("steps", range(12))
async def test_a_crash_in_the_middle_of_a_redrive_loses_and_doubles_nothing(house: House, steps: int) -> None:
    await bury(house, "a", "b")
    redriving = asyncio.ensure_future(house.letters.redrive(LETTERS))
    for _ in range(steps):
        await asyncio.sleep(0)
    redriving.cancel()  # it is dead from here on
    house = await house.crash()
    with contextlib.suppress(asyncio.CancelledError, KafkaError):
        await redriving
    try:
        await house.letters.redrive(LETTERS)
        assert house.texts("orders") == ["a", "b", "a", "b"]
        assert (await house.letters.redrive(LETTERS)).count == 0
    finally:
        await house.close()


async def test_a_full_disk_is_told_and_leaves_the_letters_to_be_redriven(house: House) -> None:
    await bury(house, "a", "b")
    house.disk.is_full = True
    with pytest.raises(KafkaError):
        await house.letters.redrive(LETTERS)
    house.disk.is_full = False
    assert (await house.letters.redrive(LETTERS)).count == 2
    assert house.texts("orders") == ["a", "b", "a", "b"]


async def test_what_cannot_go_back_is_told_and_stays(house: House) -> None:
    await bury(house, "a")
    await house.send(LETTERS, "somebody's")
    await house.cluster.delete_topics(["orders"])
    outcome = await house.letters.redrive(LETTERS)
    assert outcome.count == 0
    assert "no topic orders" in outcome.failed[0, 0]
    assert "no dead letter" in outcome.failed[0, 1]
    assert [letter.is_redriven for letter in (await house.letters.browse(LETTERS)).items] == [False, False]


async def test_two_letters_of_one_record_put_it_back_once(house: House) -> None:
    await bury(house, "a")
    [letter] = house.records(LETTERS)
    log = house.log(LETTERS)

    copy = Record(0, letter.timestamp, letter.key, letter.value, letter.headers)
    await log.append(memoryview(build_batch([copy]))).pending
    outcome = await house.letters.redrive(LETTERS)
    assert (outcome.count, outcome.repeated) == (1, 1)
    assert house.texts("orders") == ["a", "a"]
    assert (await house.letters.statistics(LETTERS)).redriven == 2


async def test_letters_are_purged_all_or_up_to_a_point(house: House) -> None:
    await bury(house, "a", "b", "c", "d", "e")
    assert await house.letters.purge(LETTERS, before=Offset(1)) == 1
    await house.letters.redrive(LETTERS, Selection(offsets={0: frozenset([1, 2, 4])}))
    assert await house.letters.purge(LETTERS, only_redriven=True) == 2
    assert (await house.letters.statistics(LETTERS)).redriven == 1
    assert await house.letters.purge(LETTERS, until=Millis(0)) == 0
    assert [letter.offset for letter in (await house.letters.browse(LETTERS)).items] == [3, 4]
    assert await house.letters.purge(LETTERS) == 2
    assert (await house.letters.browse(LETTERS)).items == []
    assert house.log(LETTERS).store.state_range(b"r/d", b"r/e", 10, 1000) == []


@pytest.mark.parametrize("profile", Profile)
async def test_letters_tell_in_the_words_that_the_group_asks_for(house: House, profile: Profile) -> None:
    await house.configure_group(GROUP, kompat_deadletter_headers=profile.value)
    await bury(house, "a")
    [record], [original] = house.records(LETTERS), house.records("orders")
    told = headers_of(record)

    assert ("__dlq.errors.topic" in told) is (profile is not Profile.SPRING)
    spring = {name: value for name, value in told.items() if name.startswith("kafka_dlt-")}
    if profile is Profile.KAFKA:
        assert spring == {}
    else:
        message = spring.pop("kafka_dlt-exception-message")
        assert spring == {
            "kafka_dlt-original-topic": b"orders",
            "kafka_dlt-original-partition": pack(">i", 0),
            "kafka_dlt-original-offset": pack(">q", 0),
            "kafka_dlt-original-timestamp": pack(">q", original.timestamp),
            "kafka_dlt-original-timestamp-type": b"CreateTime",
            "kafka_dlt-original-consumer-group": GROUP.encode(),
            "kafka_dlt-exception-fqcn": b"kompat.RecordRejected",
        }
        assert b"rejected" in (message or b"")
    assert (await house.letters.redrive(LETTERS)).count == 1
    assert [name for name, _ in house.records("orders")[1].headers] == ["kompat-redrive-count"]


def test_marks_are_runs_that_grow_together_and_are_forgotten_with_the_log() -> None:
    marks = Marks()
    stored: dict[bytes, bytes] = {}

    def write(offsets: list[int], log_start: int = 0) -> None:
        for name, value in marks.add(offsets, log_start):
            if value is None:
                del stored[name]
            else:
                stored[name] = value

    write([1, 2, 5])
    write([3, 9])
    write([4])
    assert len(stored) == 2
    again = Marks.decode(sorted(stored.items()))
    assert [offset for offset in range(12) if offset in again] == [1, 2, 3, 4, 5, 9]
    assert (again.end_of_run(1), again.end_of_run(6), again.count(4)) == (6, 6, 3)
    write([], 6)
    assert [offset for offset in range(12) if offset in marks] == [9]
    assert len(stored) == 1
