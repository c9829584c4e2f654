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
from kompat.extensions.redrive import Selection
from kompat.handlers.services import Services
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
            member = broker.services.cluster.member
            led = member.leaders.of(LogId(topic.id, index)) if member is not None else None
            found.add(led.leader if led is not None else None)
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
    await log.append(memoryview(build_batch(records))).pending.wait()


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


async def test_what_a_broker_does_not_lead_it_leaves_to_its_leader(three: Three) -> None:
    await three.create("reminders", 2)
    record = Record(0, 1, None, b"later")
    due = Millis(three[2].clock.now() + 60_000)
    slot = await three[2].delays.schedule("reminders", 0, record, due)
    for number in (1, 3):
        for ask in (
            lambda n=number: three[n].delays.list("reminders", 0),
            lambda n=number: three[n].lanes.of_partition("reminders", 0),
        ):
            with pytest.raises(KafkaError) as raised:
                ask()
            assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert three[number].delays.statistics().waiting == 0
    assert three[2].delays.statistics().waiting == 1

    replica = three.log(2, "reminders").replica
    assert replica is not None
    replica.transfer_leadership(NodeId(3))  # type: ignore[attr-defined]
    await until(lambda: three.log(3, "reminders").is_led)
    assert [each.slot for each in three[3].delays.list("reminders", 0).items] == [slot]
    await three[3].delays.reschedule("reminders", 0, Offset(slot), Millis(three[3].clock.now() + 300))
    await until(lambda: three.log(1, "reminders").high_watermark == slot + 2)
