"""What was let into a transaction, and comes to be written when that has ended, must not open one that nobody ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import CommitRequest, CommittedPartition, CommittedTopic
from kompat.handlers import produce
from kompat.handlers.support.base import Context
from kompat.handlers.support.transactional_produce import Guard, Turns, verified
from kompat.protocol.produce import PartitionData, ProduceRequest, TopicData
from kompat.protocol.records import Record, build_batch
from kompat.txn.machine import Producer
from kompat.txn.markers import Marker
from kompat.types import ZERO_UUID, LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition
from tests.txn.crashing import DATA, GROUP, HOME, ID, MortalDisk, World

LIVES = 10_000


class Gate:
    """Stands for the coordinator, and lets nobody know about a partition before it is opened."""

    def __init__(self, world: World, partition: TopicPartition) -> None:
        self._world = world
        self._partition = partition
        self.is_reached = asyncio.Event()
        self.is_open = asyncio.Event()

    async def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        await self._world.transactions.verify(transactional_id, producer, partition)
        if partition == self._partition:
            self.is_reached.set()
            await self.is_open.wait()


def context(world: World, transactions: object) -> Context:
    services = SimpleNamespace(
        authorizer=SimpleNamespace(is_enabled=False),
        transactions=transactions,
        config={"transaction.partition.verification.enable": True},
        logs=world.node.logs,
        produce_turns=Turns(),
    )
    return cast("Context", SimpleNamespace(api_version=9, services=services))


def to_both(producer: Producer, sequence: int) -> ProduceRequest:
    def batch() -> memoryview:
        return memoryview(
            build_batch(
                [Record(0, 0, None, b"late", [])],
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )

    data = [PartitionData(place.partition, batch()) for place in DATA]
    return ProduceRequest(ID, -1, 1000, [TopicData("t", ZERO_UUID, data)])


async def codes(reply: Any) -> list[int]:
    answer = await reply
    return [each.error_code for each in answer.responses[0].partition_responses]


@pytest.mark.parametrize("has_written", [False, True])
async def test_a_batch_whose_transaction_ended_after_it_was_verified_is_refused(has_written: bool) -> None:
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA, client_version=0)
    if has_written:
        await world.produce(DATA[0], producer, b"before", 0)
    gate = Gate(world, DATA[1])
    late = asyncio.ensure_future(codes(produce.handle(context(world, gate), to_both(producer, int(has_written)))))
    await gate.is_reached.wait()

    await world.transactions.end(ID, producer, commit=False, client_version=0)
    await world.init()  # when its markers are written
    gate.is_open.set()

    # The second asks again, since a marker came in between, and hears who holds the transactional id by now.
    assert await late == [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH]
    for place in DATA:
        log = world.logs[place]
        assert log.last_stable_offset == log.high_watermark
    await world.stop()


async def test_a_marker_of_the_transaction_before_does_not_make_a_batch_late() -> None:
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA, client_version=0)
    await world.produce(DATA[0], producer, b"before", 0)
    log = world.logs[DATA[0]]
    asked = 0

    class Slow:
        async def verify(self, *args: Any) -> None:
            nonlocal asked
            asked += 1
            if asked == 1:
                await world.write(DATA[0], _marker(producer))

    guard = await verified(cast("Any", Slow()), ID, producer, log)

    assert guard.holds
    assert asked == 2
    await world.stop()


async def test_a_batch_that_was_verified_before_another_broker_led_has_to_come_again() -> None:
    """What ended meanwhile is not counted: the count begins anew when the partition is taken up."""
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    log = world.logs[DATA[0]]
    guard = Guard(log, producer.id)
    assert guard.holds
    log.leader_epoch = LeaderEpoch(log.leader_epoch + 2)

    assert not guard.holds
    assert guard.refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.stop()


def _marker(producer: Producer) -> Marker:
    return Marker(producer_id=producer.id, producer_epoch=producer.epoch, commit=True, coordinator_epoch=0)


async def test_offsets_whose_transaction_ended_after_they_were_verified_are_refused() -> None:
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, [HOME], client_version=0)
    guard = await verified(world.transactions, ID, producer, world.logs[HOME])
    await world.transactions.end(ID, producer, commit=True, client_version=0)
    await world.init()
    topic = CommittedTopic(name="t", partitions=(CommittedPartition(partition=0, offset=7),))
    request = CommitRequest(
        group_id=GROUP,
        topics=(topic,),
        api_version=3,
        producer_id=ProducerId(producer.id),
        producer_epoch=ProducerEpoch(producer.epoch),
    )

    with pytest.raises(KafkaError) as raised:
        await world.groups.commit_offsets(request, guard.check)

    assert raised.value.code is ErrorCode.INVALID_TXN_STATE
    assert (await world.offset()).error is ErrorCode.NONE
    await world.stop()
