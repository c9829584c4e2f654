"""Traces as they are looked up: by id, by message id, by place, by time; and what retention leaves of them."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.dead_letters.forwarder import sender_of
from kompat.extensions.tracing.events import Place
from kompat.extensions.tracing.listeners import CommitTraces, ShareTraces
from kompat.extensions.tracing.requests import AppendEvents
from kompat.extensions.tracing.timeline import Timeline
from kompat.groups.commits import Moved
from kompat.log.partition import Partition
from kompat.protocol.records import Record, iterate, split_batches
from kompat.share import events as share_events
from kompat.share.machine.messages import AckType, AcquiredSpan, Span
from kompat.types import Millis, Offset
from tests.extensions.tracing.traced_broker import TracedBroker
from tests.log.support import UNCOMMITTED

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def kinds(trace: Timeline | None) -> list[str]:
    assert trace is not None
    return [step.event.event for step in trace.steps]


async def grown(log: Partition) -> None:
    """Wait for the next record of a log."""
    event = asyncio.Event()
    log.watch(lambda _: event.set())
    async with asyncio.timeout(10):
        await event.wait()


async def test_a_trace_is_found_by_its_id_its_message_and_every_place_it_was_at() -> None:
    broker = TracedBroker()
    [orders] = broker.open("orders")
    shares, commits = ShareTraces(broker.tracer), CommitTraces(broker.tracer, broker.logs)
    [letters] = broker.open("dlq.orders")
    slot = await broker.send(orders, "v", trace="1", delay_ms="20", msg_id="m-7")
    await grown(orders)
    offset = orders.high_watermark - 1

    assert shares.watches(orders)
    shares.acquired(orders, "g", "alice", [AcquiredSpan(offset, offset, 1)])
    shares.let_go(orders, "g", "alice", Span(offset, offset), is_late=True)
    shares.acquired(orders, "g", "bob", [AcquiredSpan(0, offset, 2)])
    shares.acknowledged(orders, "g", "bob", Span(0, offset), AckType.REJECT)
    record = Record(0, broker.clock.now(), None, b"v")
    sender = sender_of("a share group")
    assert await broker.forwarder.send(orders, letters.log_id, sender, {offset: record}) == {offset: 0}
    shares.dead_lettered(orders, "g", "rejected", {offset: share_events.Place("dlq.orders", 0, 0)})
    broker.tracer.fetched(letters, 0, 1, "operator")
    back = (await broker.forwarder.send(letters, orders.log_id, sender, {0: record}))[0]
    broker.tracer.redriven(letters, {0: Place("orders", 0, back)})
    commits.committed(Moved("plain", "m", "orders", 0, None, back + 1))

    trace = await broker.traces.by_record("orders", 0, slot)
    assert kinds(trace) == [
        *("PRODUCED", "REPLICATED", "PARKED", "FIRED", "DELIVERED", "LOCK_EXPIRED", "REDELIVERED", "REJECTED"),
        *("DEAD_LETTERED", "DELIVERED", "PRODUCED", "COMMITTED_PAST", "COMMITTED_PAST"),
    ]
    assert trace is not None
    moves = [(step.event.to_topic, step.event.to_offset) for step in trace.steps if step.event.to_offset is not None]
    assert moves == [("orders", offset), ("dlq.orders", 0), ("orders", back)]
    for place in (("orders", 0, offset), ("dlq.orders", 0, 0), ("orders", 0, back)):
        assert await broker.traces.by_record(*place) == trace
    assert await broker.traces.by_id(trace.trace_id) == await broker.traces.by_message_id("m-7") == [trace]
    assert await broker.traces.by_record("orders", 0, 99) is None
    assert await broker.traces.by_message_id("m-") == []
    assert broker.traces.statistics.dropped == 0
    await broker.recorder.close()


async def test_records_of_one_trace_are_told_apart_and_lie_in_one_partition() -> None:
    broker = TracedBroker()
    [orders] = broker.open("orders")
    traceparent = f"00-{TRACE}-00f067aa0ba902b7-01"
    await broker.send(orders, "a", "b", traceparent=traceparent)
    await broker.send(orders, "c", trace="1")

    traces = await broker.traces.by_id(TRACE)

    assert [(trace.record, kinds(trace)) for trace in traces] == [
        ("orders/0/0", ["PRODUCED", "REPLICATED"]),
        ("orders/0/1", ["PRODUCED", "REPLICATED"]),
    ]
    homes = [log for log in broker.trace_partitions() if log.high_watermark]
    keys = {
        record.key: log.index
        for log in homes
        for buffer in log.read(Offset(0), 1 << 20, UNCOMMITTED).buffers  # type: ignore[union-attr]
        for batch in split_batches(memoryview(buffer))
        for record in iterate(batch)
        if json.loads(record.value or b"")["trace_id"].encode() == record.key
    }
    assert len(keys) == 2
    await broker.recorder.close()


async def test_events_are_searched_by_topic_kind_and_time_in_pages() -> None:
    clock = ManualClock(1_000_000)
    broker = TracedBroker(clock=clock)
    [orders], [other] = broker.open("orders"), broker.open("other")
    for _ in range(10):
        await broker.send(orders, "v", trace="1")
        await broker.send(other, "v", trace="1")
        clock.advance(10)

    found, cursor, pages = [], None, 0
    while True:
        page = await broker.traces.search(
            topic="orders",
            event="REPLICATED",
            from_time=Millis(1_000_020),
            to_time=Millis(1_000_080),
            limit=4,
            cursor=cursor,
        )
        assert len(page.events) <= 4
        found += page.events
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break

    assert [event.timestamp for event in found] == list(range(1_000_020, 1_000_080, 10))
    assert {(event.topic, event.event) for event in found} == {("orders", "REPLICATED")}
    assert pages >= 2
    await broker.recorder.close()


async def test_before_anything_is_traced_nothing_is_found_and_no_topic_is_made() -> None:
    broker = TracedBroker()
    [orders] = broker.open("orders")
    await broker.send(orders, "v")

    assert await broker.traces.by_id(TRACE) == []
    assert await broker.traces.by_message_id("m") == []
    assert await broker.traces.by_record("orders", 0, 0) is None
    assert (await broker.traces.search()).events == []
    assert broker.trace_partitions() == []
    await broker.recorder.close()


@pytest.mark.parametrize("wrong", ["", "xyz", TRACE[:-1], TRACE + "00"])
async def test_what_is_no_trace_id_is_refused(wrong: str) -> None:
    broker = TracedBroker()

    with pytest.raises(KafkaError, match="no trace id") as refusal:
        await broker.traces.by_id(wrong)

    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="no event"):
        await broker.traces.search(event="EATEN")
    with pytest.raises(KafkaError, match="no place"):
        await broker.traces.by_record("orders", 0, -1)
    await broker.recorder.close()


async def test_the_index_goes_with_the_events_that_retention_takes() -> None:
    clock = ManualClock()
    broker = TracedBroker(clock=clock, retention_ms=1000, segment_bytes=4000, segment_ms=500)
    [orders] = broker.open("orders")
    for number in range(60):
        await broker.send(orders, "v", trace="1", msg_id=f"m-{number}")
        await broker.recorder.flush()
        clock.advance(100)
    await broker.logs.maintain(clock.now())
    for _ in range(10):  # what is removed is removed with what comes next
        await broker.send(orders, "v", trace="1")
        await broker.recorder.flush()

    starts = {log.index: log.log_start_offset for log in broker.trace_partitions()}
    assert all(start > 0 for start in starts.values())
    for log in broker.trace_partitions():
        names = [name for name, _ in log.store.states(b"e/o")]
        assert names
        assert all(int.from_bytes(name[3:], "big") >= log.log_start_offset for name in names)
    assert await broker.traces.by_message_id("m-0") == []
    assert len(await broker.traces.by_message_id("m-59")) == 1
    kept = sum(1 for log in broker.trace_partitions() for _ in log.store.states(b"e/m"))
    assert 0 < kept < 30
    await broker.recorder.close()


async def test_what_cannot_be_written_at_home_is_written_where_this_broker_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppendEvents, "patience", 0.0)
    broker = TracedBroker()
    [orders] = broker.open("orders")
    await broker.send(orders, "first", trace="1")
    await broker.recorder.flush()
    followed, *led = broker.trace_partitions()
    followed.replicate(cast("Any", SimpleNamespace(is_leading=False)))
    before = followed.log_end_offset

    for number in range(20):
        await broker.send(orders, "v", trace="1", msg_id=str(number))

    for number in range(20):
        assert len(await broker.traces.by_message_id(str(number))) == 1
    assert followed.log_end_offset == before
    for log in led:
        log.replicate(cast("Any", SimpleNamespace(is_leading=False)))
    await broker.send(orders, "lost", trace="1")
    await broker.recorder.flush()
    assert broker.traces.statistics.dropped == 2
    for log in (followed, *led):
        log.replicate(None)
    await broker.recorder.close()


async def test_a_record_that_was_of_use_for_a_time_only_is_told_to_have_expired() -> None:
    broker = TracedBroker()
    [orders] = broker.open("orders")
    offset = await broker.send(orders, "v", trace="1", ttl_ms="1")
    ShareTraces(broker.tracer).expired(orders, "g", Span(offset, offset + 4))

    trace = await broker.traces.by_record("orders", 0, offset)

    assert kinds(trace) == ["PRODUCED", "REPLICATED", "EXPIRED"]
    assert trace is not None
    assert trace.steps[2].event.group == "g"
    await broker.recorder.close()
