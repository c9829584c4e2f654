"""Three brokers in one process: what is asked of one of them is done, whichever of them leads what it is about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from kompat.broker import Broker
from kompat.cluster.requests import ConfigChange, ConfigOp, NewTopic
from kompat.cluster.state import Resource, ResourceType, Topic
from kompat.config.load import load
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.dead_letters.redrive import Selection
from kompat.extensions.headers import DELIVER_AT
from kompat.extensions.reads.service import ReadRange
from kompat.handlers.support.services import Services
from kompat.log.partition import Partition
from kompat.protocol.records import Record, build_batch
from kompat.types import LogId, Millis, NodeId, Offset

pytestmark = pytest.mark.slow

GROUP = "workers"
SECONDS = 20.0


class Opened(Broker):
    """One whose services can be asked without a socket."""

    services: Services

    async def _build_services(self) -> Services:
        self.services = await super()._build_services()
        return self.services


class Three:
    def __init__(self) -> None:
        self.brokers: dict[int, Opened] = {}

    async def start(self) -> None:
        first = "1@127.0.0.1:0"
        for number in (1, 2, 3):
            settings = {
                "port": "0",
                "kompat.http.port": "-1",
                "data": ":memory:",
                "node.id": str(number),
                "kompat.cluster.secret": "of brokers in one process",
                "kompat.cluster.members": first,
                "default.replication.factor": "3",
            }
            broker = self.brokers[number] = Opened(load(settings, environ={}))
            await broker.start()
            if number == 1:
                first = f"1@{broker.peer}"

    async def stop(self) -> None:
        for broker in reversed(self.brokers.values()):
            await broker.stop()

    def __getitem__(self, number: int) -> Services:
        return self.brokers[number].services

    @property
    def controller(self) -> Services:
        return next(b.services for n, b in self.brokers.items() if b.services.cluster.controller == n)

    async def create(self, name: str, *leaders: int, **configs: str) -> Topic:
        """Each partition led by one of these."""
        replicas = [
            (index, [NodeId((leader - 1 + step) % 3 + 1) for step in range(3)]) for index, leader in enumerate(leaders)
        ]
        given = {key.replace("_", "."): value for key, value in configs.items()}
        outcome = (await self.controller.cluster.create_topics([NewTopic(name, assignments=replicas, configs=given)]))[
            name
        ]
        assert isinstance(outcome, Topic), outcome
        for index, leader in enumerate(leaders):
            await until(lambda index=index, leader=leader: self.leader(outcome, index) == {leader})
            await until(lambda index=index, leader=leader: self.log(leader, name, index).is_led)
        return outcome

    def leader(self, topic: Topic, index: int) -> set[int | None]:
        """As all brokers know it."""
        found = set()
        for broker in self.brokers.values():
            found.add(broker.services.cluster.local.leader(LogId(topic.id, index)))
        return found

    def log(self, number: int, topic: str, index: int = 0) -> Partition:
        log = self[number].logs.find(topic, index)
        assert log is not None
        return log


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def send(log: Partition, *values: str) -> None:
    records = [Record(place, 1, None, value.encode()) for place, value in enumerate(values)]
    await log.append(memoryview(build_batch(records))).pending


@pytest.fixture
async def three() -> AsyncIterator[Three]:
    found = Three()
    try:
        await found.start()
        yield found
    finally:
        await found.stop()


async def begin_early(three: Three, group: str) -> None:
    change = ConfigChange(Resource(ResourceType.GROUP, group), [("share.auto.offset.reset", ConfigOp.SET, "earliest")])
    assert await three.controller.cluster.alter_configs([change]) == [None]
    await until(
        lambda: all(
            each.services.shares.settings_of(group).offset_reset == "earliest" for each in three.brokers.values()
        )
    )


async def take_all(three: Three, number: int, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += await three[number].queues.acquire(GROUP, "orders", max_records=10, max_wait_ms=2000)
    return found


async def test_any_broker_gives_out_records_takes_words_about_them_and_puts_dead_ones_back(three: Three) -> None:
    await three.create("orders", 1, 2, 3)
    await three.create("dlq.orders", 3, 1, 2)
    await begin_early(three, GROUP)
    for index in range(3):
        await send(three.log(index + 1, "orders", index), f"{index}-good", f"{index}-bad")

    given = await take_all(three, 1, 6)
    assert {(each.record.value or b"").decode() for each in given} == {
        f"{i}-{k}" for i in range(3) for k in ("good", "bad")
    }
    assert (await three[3].queues.statistics(GROUP, "orders")).in_flight == 6
    bad = [each.receipt for each in given if (each.record.value or b"").endswith(b"bad")]
    good = [each.receipt for each in given if each.receipt not in bad]
    assert await three[2].queues.accept(good) == [None] * 3
    assert await three[3].queues.reject(bad) == [None] * 3
    refused = await three[2].queues.release(good)
    assert [each.code for each in refused if each is not None] == 3 * [ErrorCode.INVALID_RECORD_STATE]

    service = three[1].dead_letters
    await until(lambda: sum(three.log(1, "dlq.orders", index).high_watermark for index in range(3)) == 3)
    assert len((await service.browse("dlq.orders")).items) == 3
    assert (await service.redrive("dlq.orders", Selection(group_id="others"))).count == 0
    redriven = await service.redrive("dlq.orders")
    assert (redriven.count, redriven.failed) == (3, {})
    assert (await three[2].dead_letters.redrive("dlq.orders")).count == 0
    again = await take_all(three, 2, 3)
    assert {(each.record.value or b"").decode() for each in again} == {"0-bad", "1-bad", "2-bad"}
    assert not [
        name for number in (1, 2, 3) for index in range(3) for name in marks(three.log(number, "orders", index))
    ]
    assert await service.purge("dlq.orders", only_redriven=True) == 3


def marks(log: Partition) -> Sequence[Any]:
    return log.store.state_range(b"l/m", b"l/n", 10, 1000)


async def schedule(log: Partition, value: str, due: int) -> int:
    headers = ((DELIVER_AT, str(due).encode()),)
    appended = log.append(memoryview(build_batch([Record(0, 1, None, value.encode(), headers)])))
    await appended.pending
    return appended.base_offset


def values(found: Sequence[Any]) -> list[str]:
    return [(each.record.value or b"").decode() for each in found]


async def test_any_broker_tells_of_what_waits_and_changes_it(three: Three) -> None:
    await three.create("reminders", 2, 3, 3)
    now = three[1].clock.now()
    slots = [
        await schedule(three.log(leader, "reminders", index), f"{index}-{step}", now + 60_000 + 1000 * step + index)
        for step in range(2)
        for index, leader in enumerate((2, 3, 3))
    ]
    for number in (1, 2, 3):
        delays = three[number].delays
        first = await delays.list("reminders", limit=4)
        rest = await delays.list("reminders", limit=4, cursor=first.cursor)
        assert (values(first.items), values(rest.items)) == (["0-0", "1-0", "2-0", "0-1"], ["1-1", "2-1"])
        assert rest.cursor is None
        assert values((await delays.list("reminders", partitions=[2], since=Millis(now + 61_000))).items) == ["2-1"]
        assert values((await delays.list("reminders", until=Millis(now + 60_001))).items) == ["0-0"]
        assert ((await delays.statistics()).waiting, (await delays.statistics("reminders")).next_due) == (
            6,
            now + 60_000,
        )
        timeline = await delays.timeline("reminders", Millis(now), Millis(now + 62_000), 2)
        assert [each.count for each in timeline.buckets] == [0, 6]
        assert timeline.is_whole
        found = await delays.find("reminders", 1, Offset(slots[1]))
        assert found is not None
        assert values([found]) == ["1-0"]
    assert await three[1].delays.find("reminders", 1, Offset(99)) is None

    assert values([await three[1].delays.cancel("reminders", 0, Offset(slots[0]))]) == ["0-0"]
    with pytest.raises(KafkaError) as raised:
        await three[3].delays.cancel("reminders", 0, Offset(slots[0]))
    assert raised.value.code is ErrorCode.RESOURCE_NOT_FOUND
    moved = await three[1].delays.reschedule("reminders", 2, Offset(slots[2]), Millis(now + 90_000))
    assert moved.due == now + 90_000
    assert (await three[2].delays.statistics("reminders")).waiting == 5
    with pytest.raises(KafkaError, match="no partition 7"):
        await three[1].delays.find("reminders", 7, Offset(0))
    with pytest.raises(KafkaError, match="cursor"):
        await three[1].delays.list("reminders", cursor="rubbish")


async def test_what_waits_goes_on_with_its_partition_to_the_next_leader(three: Three) -> None:
    await three.create("reminders", 2)
    slot = await schedule(three.log(2, "reminders"), "later", three[2].clock.now() + 60_000)

    replica = three.log(2, "reminders").replica
    assert replica is not None
    replica.transfer_leadership(NodeId(3))  # type: ignore[attr-defined]
    await until(lambda: three.log(3, "reminders").is_led)
    assert [each.slot for each in (await three[3].delays.list("reminders")).items] == [slot]
    await three[3].delays.reschedule("reminders", 0, Offset(slot), Millis(three[3].clock.now() + 300))
    await until(lambda: three.log(1, "reminders").high_watermark == slot + 2)


async def test_any_broker_reads_all_partitions_forward_and_back_and_counts_lanes(three: Three) -> None:
    await three.create("orders", 1, 2, 3)
    await three.create("jobs", 3, 2, kompat_delivery_order="priority")
    for index in range(3):
        log = three.log(index + 1, "orders", index)
        records = [Record(step, 10 * step + index + 1, b"k", f"{index}-{step}".encode()) for step in range(4)]
        await log.append(memoryview(build_batch(records))).pending
    urgent = Record(0, 1, None, b"now", [("kompat-priority", b"9")])
    await three.log(3, "jobs").append(memoryview(build_batch([urgent]))).pending
    ordered = [f"{index}-{step}" for step in range(4) for index in range(3)]

    for number in (1, 2, 3):
        reads = three[number].reads
        for backward in (False, True):
            found: list[str] = []
            cursor = None
            while not found or cursor is not None:
                page = await reads.read(ReadRange(topic="orders"), limit=5, cursor=cursor, backward=backward)
                found += values(page.records)
                cursor = page.cursor
            assert found == (ordered[::-1] if backward else ordered)
        by_time = ReadRange(topic="orders", from_time=Millis(12), to_time=Millis(22), read_committed=True)
        assert values((await reads.read(by_time)).records) == ["1-1", "2-1", "0-2"]
        assert (await three[number].lanes.statistics()).depths[9] == 1
        assert (await three[number].lanes.of_partition("jobs", 0)).waiting == 1
        assert (await three[number].lanes.of_partition("jobs", 1)).waiting == 0
    with pytest.raises(KafkaError, match="no partition 3"):
        await three[1].reads.read(ReadRange(topic="orders", partitions=[3]))


async def test_a_broker_that_leads_no_traces_has_its_own_written_and_everybody_finds_them(three: Three) -> None:
    await three.create("orders", 1, 2, 3)
    topic = await three.controller.cluster.ensure_internal_topic("__kompat_trace")
    places = [LogId(topic.id, each.index) for each in topic.partitions]
    for place in places:
        await give_lead(three, topic, place.partition, 1)
    for index in range(3):
        headers = [("kompat-trace", b"1"), ("kompat-msg-id", b"m-%d" % index)]
        batch = build_batch([Record(0, 1, None, b"v", headers)])
        await three.log(index + 1, "orders", index).append(memoryview(batch)).pending

    for number in (1, 2, 3):
        traces = three[number].traces
        for index in range(3):
            trace = await traces.by_record("orders", index, 0)
            assert trace is not None
            assert [step.event.event for step in trace.steps] == ["PRODUCED", "REPLICATED"]
            assert await traces.by_message_id(f"m-{index}") == await traces.by_id(trace.trace_id) == [trace]
        assert len((await traces.search(event="REPLICATED")).events) == 3
        assert traces.statistics.dropped == 0


async def give_lead(three: Three, topic: Topic, index: int, number: int) -> None:
    await until(lambda: None not in three.leader(topic, index) and len(three.leader(topic, index)) == 1)
    [leader] = three.leader(topic, index)
    if leader != number:
        replica = three.log(leader or 0, topic.name, index).replica
        assert replica is not None
        replica.transfer_leadership(NodeId(number))  # type: ignore[attr-defined]
    await until(lambda: three.leader(topic, index) == {number} and three.log(number, topic.name, index).is_led)
