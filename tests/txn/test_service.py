"""Carrying out the ends that are decided."""

from __future__ import annotations

import asyncio

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.txn import service
from kompat.txn.markers import Marker
from kompat.types import LeaderEpoch, TopicPartition
from tests.txn.crashing import DATA, ID, MortalDisk, World, patiently

LIVES = 10_000


async def test_markers_are_written_when_the_disk_recovers_though_nobody_asks() -> None:
    """A refused write follows the decision: the machine is built anew, and the decision must not be forgotten by that."""
    disk = MortalDisk(LIVES, keeps_last=True)
    world = World(disk)
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA, client_version=2)
    [runtime] = world.transactions._shards.all()
    end = asyncio.ensure_future(world.transactions.end(ID, producer, commit=True, client_version=2))
    while _state(world) == "Ongoing":  # noqa: ASYNC110 - the machine has nobody to tell
        await asyncio.sleep(0)
    runtime._discard()  # as by a batch that is too large, before the decision is committed

    await end
    async with asyncio.timeout(10):
        while _state(world) != "CompleteCommit":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await world.stop()


def _state(world: World) -> str:
    [runtime] = world.transactions._shards.all()
    found = runtime.machine.find(ID)
    assert found is not None
    return found.state.wire_name


async def test_an_end_that_a_bug_keeps_from_being_written_is_tried_again_but_not_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "AFTER_A_BUG_SECONDS", 0.05)
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA[:1], client_version=2)
    write, failures = world.write, 0

    async def failing(partition: TopicPartition, marker: Marker) -> None:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise RuntimeError("a bug")
        await write(partition, marker)

    monkeypatch.setattr(world, "write", failing)
    started = asyncio.get_running_loop().time()
    await world.transactions.end(ID, producer, commit=True, client_version=2)
    await patiently(lambda: world.transactions.init_producer(ID, 1000, None))

    assert failures == 4
    assert asyncio.get_running_loop().time() - started > 0.14
    await world.stop()


async def test_a_marker_that_waits_is_not_written_after_others_have_ended_the_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One marker meets a bug while another waits for its turn. All are written anew; the one that waited must not be late."""
    monkeypatch.setattr(service, "AFTER_A_BUG_SECONDS", 0.01)
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.2)
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA, client_version=0)
    write, tries = world.write, dict.fromkeys(DATA, 0)

    async def failing(partition: TopicPartition, marker: Marker) -> None:
        tries[partition] += 1
        if tries[partition] == 1:
            raise RuntimeError("a bug") if partition == DATA[0] else KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await write(partition, marker)

    monkeypatch.setattr(world, "write", failing)
    await world.transactions.end(ID, producer, commit=False, client_version=0)
    await patiently(lambda: world.transactions.add_partitions(ID, producer, DATA, client_version=0))
    await asyncio.sleep(0.4)

    assert tries == dict.fromkeys(DATA, 2)
    await world.stop()


# -- in a cluster: another broker may coordinate them ------------------------------------------------------------------
async def test_a_broker_that_coordinates_again_does_not_end_the_next_transaction_with_a_late_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was away while its marker could not be written: another one may have ended that transaction since."""
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA[:1], client_version=0)
    [runtime] = world.transactions._shards.all()
    write, tried = world.write, asyncio.Event()
    epochs: list[int] = []

    async def out_of_reach(partition: TopicPartition, marker: Marker) -> None:
        tried.set()
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def noted(partition: TopicPartition, marker: Marker) -> None:
        epochs.append(marker.coordinator_epoch)
        await write(partition, marker)

    monkeypatch.setattr(world, "write", out_of_reach)
    await world.transactions.end(ID, producer, commit=True, client_version=0)
    await tried.wait()
    world.transactions.following(runtime.partition)
    monkeypatch.setattr(world, "write", noted)
    runtime.partition.leader_epoch = LeaderEpoch(7)
    world.transactions.leading(runtime.partition)

    await patiently(lambda: world.transactions.init_producer(ID, 1000, None))
    assert epochs == [7]
    await world.stop()


async def test_an_end_that_a_partition_refuses_of_an_older_coordinator_is_not_taken_for_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is fenced has been followed by another one; until that is known here, nothing is."""
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.001)
    world = World(MortalDisk(LIVES, keeps_last=True))
    producer = await world.init()
    await world.transactions.add_partitions(ID, producer, DATA[:1], client_version=0)
    refusals = asyncio.Semaphore(0)

    async def fenced(partition: TopicPartition, marker: Marker) -> None:
        refusals.release()
        raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    monkeypatch.setattr(world, "write", fenced)
    await world.transactions.end(ID, producer, commit=True, client_version=0)
    async with asyncio.timeout(10):
        for _ in range(3):
            await refusals.acquire()
    assert _state(world) == "PrepareCommit"
    await world.stop()


async def test_who_asks_a_broker_that_leaves_off_coordinating_is_told_to_look_for_another() -> None:
    """Also where the question comes while the transactions are taken up: other words would end the producer."""
    world = World(MortalDisk(LIVES, keeps_last=True))
    await world.init()
    [runtime] = world.transactions._shards.all()
    asked = [asyncio.ensure_future(world.init()), asyncio.ensure_future(world.transactions.describe(ID))]
    asyncio.get_running_loop().call_soon(world.transactions.following, runtime.partition)  # after they have asked
    world.transactions.leading(runtime.partition)

    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.NOT_COORDINATOR
    await world.stop()
