"""Carrying out the ends that are decided."""

from __future__ import annotations

import asyncio

import pytest

from kompat.txn import service
from kompat.txn.service import Marker
from kompat.types import TopicPartition
from tests.txn.world import DATA, ID, MortalDisk, World, patiently

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
