"""Reads of a topic from one point to another."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kompat.errors import KafkaError
from kompat.extensions.reads import cursors
from kompat.extensions.reads import lanes as read_lanes
from kompat.extensions.reads import sources as read_sources
from kompat.extensions.reads.service import ReadRange, ReadRecord
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, iterate
from kompat.types import Millis
from tests.extensions.tracing.traced_broker import TracedBroker
from tests.log.support import run


async def read_all(broker: TracedBroker, wanted: ReadRange, limit: int = 3) -> list[ReadRecord]:
    found: list[ReadRecord] = []
    cursor = None
    while True:
        page = await broker.reads.read(wanted, limit=limit, cursor=cursor)
        assert len(page.records) <= limit
        found += page.records
        cursor = page.cursor
        if cursor is None:
            return found


def places(found: list[ReadRecord]) -> list[tuple[int, int]]:
    return [(each.partition, each.record.offset) for each in found]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(
    partitions=st.lists(
        st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), max_size=5), min_size=1, max_size=3
    ),
    first=st.none() | st.integers(0, 25),
    last=st.none() | st.integers(0, 25),
    by_time=st.booleans(),
    limit=st.integers(1, 7),
    cache=st.sampled_from([0, 1 << 20]),
)
def test_pages_hold_the_range_once_each_partition_in_order(
    partitions: list[list[list[int]]],
    first: int | None,
    last: int | None,
    by_time: bool,
    limit: int,
    cache: int,
) -> None:
    if first is not None and last is not None:
        first, last = min(first, last), max(first, last)

    async def check() -> None:
        broker = TracedBroker(cache=cache)
        logs = broker.open("topic", len(partitions))
        for log, batches in zip(logs, partitions, strict=True):
            for times in batches:
                await broker.send_at(log, *times)
        if by_time:
            wanted = ReadRange(topic="topic", from_time=_millis(first), to_time=_millis(last))
        else:
            wanted = ReadRange(topic="topic", from_offset=first, to_offset=last)

        found = await read_all(broker, wanted, limit)

        expected = set()
        for number, batches in enumerate(partitions):
            times = [time for batch in batches for time in batch]
            expected |= {(number, offset) for offset in _range(times, first, last, by_time=by_time)}
        assert len(found) == len(expected)
        assert set(places(found)) == expected
        for number in range(len(partitions)):
            offsets = [offset for partition, offset in places(found) if partition == number]
            assert offsets == sorted(offsets)
        assert [place async for place in _streamed(broker, wanted)] == places(found)

    run(check())


async def _streamed(broker: TracedBroker, wanted: ReadRange):  # type: ignore[no-untyped-def]
    async for each in broker.reads.stream(wanted, page=4):
        yield each.partition, each.record.offset


def _millis(time: int | None) -> Millis | None:
    return None if time is None else Millis(time)


def _range(times: list[int], first: int | None, last: int | None, *, by_time: bool) -> list[int]:
    if not by_time:
        return list(range(len(times)))[slice(first, last)]
    return [o for o, time in enumerate(times) if (first is None or time >= first) and (last is None or time < last)]


@pytest.mark.parametrize("backward", [False, True])
async def test_a_range_of_times_has_all_of_its_records_when_clocks_are_not_in_order(backward: bool) -> None:
    broker = TracedBroker()
    [log] = broker.open("topic", 1)
    for times in ((10, 50), (90,), (20,), (95, 30), (40, 99)):
        await broker.send_at(log, *times)

    wanted = ReadRange(topic="topic", from_time=Millis(20), to_time=Millis(50))
    page = await broker.reads.read(wanted, limit=10, backward=backward)

    assert page.cursor is None
    assert sorted(each.record.timestamp for each in page.records) == [20, 30, 40]


async def test_batches_without_a_record_of_the_range_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[list[int]] = []

    def noted(batch: memoryview) -> Iterator[Record]:
        opened.append([record.timestamp for record in iterate(batch)])
        return iterate(batch)

    monkeypatch.setattr(read_sources, "iterate", noted)
    broker = TracedBroker()
    [log] = broker.open("topic", 1)
    for times in ((10, 11), (21, 22), (12, 13), (31, 30), (40,), (41, 19), (50, 51)):
        await broker.send_at(log, *times)

    found = await read_all(broker, ReadRange(topic="topic", from_time=Millis(20), to_time=Millis(30)))

    assert [each.record.timestamp for each in found] == [21, 22]
    assert opened == [[21, 22], [41, 19]]


async def test_partitions_are_told_in_the_order_of_their_times() -> None:
    broker = TracedBroker()
    first, second = broker.open("topic", 2)
    await broker.send_at(first, 10, 30, 50)
    await broker.send_at(second, 20, 40, 60)

    found = await read_all(broker, ReadRange(topic="topic"), limit=2)

    assert [each.record.timestamp for each in found] == [10, 20, 30, 40, 50, 60]
    one = await read_all(broker, ReadRange(topic="topic", partitions=[1]))
    assert places(one) == [(1, 0), (1, 1), (1, 2)]


async def test_what_comes_after_the_first_page_does_not_lengthen_the_range() -> None:
    broker = TracedBroker()
    [log] = broker.open("topic")
    await broker.send_at(log, 1, 2, 3)
    page = await broker.reads.read(ReadRange(topic="topic"), limit=2)
    await broker.send_at(log, 4)

    rest = await broker.reads.read(ReadRange(topic="topic"), limit=9, cursor=page.cursor)

    assert places(list(rest.records)) == [(0, 2)]
    assert rest.cursor is None


async def transaction(log: Partition, values: list[str], producer_id: int, end: ControlType | None) -> None:
    records = [Record(i, 5, None, value.encode()) for i, value in enumerate(values)]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    await log.append(memoryview(batch)).pending
    if end is not None:
        marker = control_batch(end, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=5)
        await log.append(memoryview(marker), origin=Origin.INTERNAL).pending


@pytest.mark.parametrize("cache", [0, 1 << 20])
async def test_transactions_are_read_as_their_isolation_says(cache: int) -> None:
    broker = TracedBroker(cache=cache)
    [log] = broker.open("topic")
    await transaction(log, ["a", "b"], 1, ControlType.ABORT)
    await transaction(log, ["c"], 2, ControlType.COMMIT)
    await transaction(log, ["d"], 3, None)

    everything = await read_all(broker, ReadRange(topic="topic"))
    committed = await read_all(broker, ReadRange(topic="topic", read_committed=True))

    assert [(each.record.value or b"").decode() for each in everything] == ["a", "b", "c", "d"]
    assert [(each.record.value or b"").decode() for each in committed] == ["c"]


async def test_a_page_reads_so_much_of_the_log_and_then_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_lanes, "SCANNED_BYTES", 40_000)
    monkeypatch.setattr(read_lanes, "CHUNK_BYTES", 16_000)
    broker = TracedBroker()
    [log] = broker.open("topic")
    for _ in range(20):
        await broker.send(log, "x" * 10_000)
    await broker.send(log, "wanted")

    pages, cursor, found = 0, None, []
    while pages == 0 or cursor is not None:
        page = await broker.reads.read(
            ReadRange(topic="topic"), cursor=cursor, keep=lambda record: record.value == b"wanted"
        )
        found += page.records
        cursor = page.cursor
        pages += 1

    assert places(found) == [(0, 20)]
    assert pages >= 3


async def test_a_record_larger_than_a_page_is_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_lanes, "SCANNED_BYTES", 100)
    monkeypatch.setattr(read_lanes, "PAGE_BYTES", 100)
    broker = TracedBroker()
    logs = broker.open("topic", 2)
    for log in logs:
        await broker.send(log, "x" * 1000)
        await broker.send(log, "y" * 1000)

    found = await read_all(broker, ReadRange(topic="topic"), limit=10)

    assert sorted(places(found)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_a_range_begins_where_the_log_does() -> None:
    broker = TracedBroker()
    [log] = broker.open("topic")
    await broker.send_at(log, 1, 2, 3)
    page = await broker.reads.read(ReadRange(topic="topic"), limit=1)
    await log.delete_records(log.high_watermark)

    assert await read_all(broker, ReadRange(topic="topic", from_offset=0)) == []
    rest = await broker.reads.read(ReadRange(topic="topic"), cursor=page.cursor)
    assert (list(rest.records), rest.cursor) == ([], None)


@pytest.mark.parametrize(
    ("wanted", "options", "why"),
    [
        (ReadRange(topic="nothing"), {}, "there is no"),
        (ReadRange(topic="topic", partitions=[0, 7]), {}, "there is no"),
        (ReadRange(topic="topic", from_offset=5, to_offset=4), {}, "before it begins"),
        (ReadRange(topic="topic", from_time=Millis(5), to_time=Millis(4)), {}, "before it begins"),
        (ReadRange(topic="topic", from_offset=-1), {}, "is no offset"),
        (ReadRange(topic="topic", to_time=Millis(-5)), {}, "is no time"),
        (ReadRange(topic="topic"), {"limit": 0}, "at least one"),
        (ReadRange(topic="topic"), {"cursor": "rubbish"}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": cursors.encode([])}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": cursors.encode([[9, 0, 1]])}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": cursors.encode([[0, -1, 1]])}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": cursors.encode([[0, 1]])}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": "Nw=="}, "cursor"),
        (ReadRange(topic="topic"), {"cursor": "ü"}, "cursor"),
    ],
)
async def test_what_makes_no_sense_is_refused(wanted: ReadRange, options: dict[str, object], why: str) -> None:
    broker = TracedBroker()
    [log] = broker.open("topic")
    await broker.send_at(log, 1)

    with pytest.raises(KafkaError, match=why):
        await broker.reads.read(wanted, **options)  # type: ignore[arg-type]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(
    partitions=st.lists(
        st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), max_size=5), min_size=1, max_size=3
    ),
    limit=st.integers(1, 7),
    window=st.integers(1, 5),
    held=st.sampled_from([1, 1 << 20]),
    even=st.booleans(),
)
def test_backward_is_the_same_from_its_end(
    partitions: list[list[list[int]]], limit: int, window: int, held: int, even: bool
) -> None:
    def keep(record: Record) -> bool:
        return not even or record.timestamp % 2 == 0

    async def check() -> None:
        broker = TracedBroker()
        for log, batches in zip(broker.open("topic", len(partitions)), partitions, strict=True):
            for times in batches:
                await broker.send_at(log, *times)
        found: list[ReadRecord] = []
        cursor, pages = None, 0
        while pages == 0 or cursor is not None:
            page = await broker.reads.read(
                ReadRange(topic="topic"), limit=limit, cursor=cursor, keep=keep, backward=True
            )
            assert len(page.records) <= limit
            found += page.records
            cursor, pages = page.cursor, pages + 1

        for number, batches in enumerate(partitions):
            times = [time for batch in batches for time in batch]
            offsets = [offset for partition, offset in places(found) if partition == number]
            expected = [offset for offset, time in enumerate(times) if not even or time % 2 == 0]
            assert offsets == expected[::-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_lanes, "FIRST_WINDOW", window)
        patch.setattr(read_lanes, "PAGE_BYTES", held)
        patch.setattr(read_lanes, "LEAST_CHUNK", held)
        run(check())


async def test_a_page_back_is_of_bounded_work_and_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_lanes, "SCANNED_BYTES", 40_000)
    monkeypatch.setattr(read_lanes, "CHUNK_BYTES", 16_000)
    monkeypatch.setattr(read_lanes, "FIRST_WINDOW", 2)
    broker = TracedBroker()
    [log] = broker.open("topic")
    await broker.send(log, "wanted")
    for _ in range(20):
        await broker.send(log, "x" * 10_000)

    pages, cursor, found = 0, None, []
    while pages == 0 or cursor is not None:
        page = await broker.reads.read(
            ReadRange(topic="topic"), cursor=cursor, keep=lambda record: record.value == b"wanted", backward=True
        )
        found += page.records
        cursor = page.cursor
        pages += 1

    assert places(found) == [(0, 0)]
    assert pages >= 3


async def test_a_cursor_from_outside_reads_no_more_than_there_is() -> None:
    broker = TracedBroker()
    [log] = broker.open("topic")
    await broker.send_at(log, 1, 2)
    cursor = cursors.encode([[0, 0, 2**62]])

    for backward in (False, True):
        page = await broker.reads.read(ReadRange(topic="topic"), cursor=cursor, backward=backward)
        assert sorted(places(list(page.records))) == [(0, 0), (0, 1)]
        assert page.cursor is None
