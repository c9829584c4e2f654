"""The broker dies at every write in turn, and again while it takes up what was under way.

Whatever the moment: an end that was decided is completed, no marker is missing, and no transaction is committed in one
place and aborted in another.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.txn.machine import Producer
from tests.txn.crashing import DATA, HOME, ID, MortalDisk, World, patiently

FOREVER = 10_000
ENDS = (True, False, True)  # of the client's transactions: commit or abort


@dataclass
class Client:
    """Copies: each transaction writes its number to both partitions and as the group's offset, and ends."""

    version: int
    asked: dict[int, bool] = field(default_factory=dict)  # ends that the broker may have heard of
    told: dict[int, bool] = field(default_factory=dict)  # ends that it has acknowledged

    async def run(self, world: World) -> None:
        producer = await world.init()
        sequence = 0
        for number, commit in enumerate(ENDS):
            await self._write(world, producer, number, sequence)
            self.asked[number] = commit
            following = await world.transactions.end(ID, producer, commit=commit, client_version=self.version)
            self.told[number] = commit
            sequence = sequence + 1 if following.epoch == producer.epoch else 0
            producer = following
        await world.init()  # when all markers are written

    async def _write(self, world: World, producer: Producer, number: int, sequence: int) -> None:
        await patiently(
            lambda: world.transactions.add_partitions(ID, producer, (*DATA, HOME), client_version=self.version)
        )
        await world.commit_offset(producer, number)
        for place in DATA:
            await world.produce(place, producer, b"%d" % number, sequence)


async def live(disk: MortalDisk, client: Client) -> int:
    """Run until all is done or the disk dies; how many writes it was."""
    lives = disk.lives
    world = World(disk)
    work = asyncio.ensure_future(client.run(world))
    death = asyncio.ensure_future(disk.died.wait())
    await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
    if not disk.died.is_set():
        await work
    written = lives - disk.lives
    disk.lives = 0
    for each in (work, death):
        each.cancel()
    await asyncio.gather(work, death, return_exceptions=True)
    await world.stop()
    return written


async def take_up(disk: MortalDisk) -> None:
    """Start and die again, in the middle of completing what was decided."""
    world = World(disk)
    while not disk.died.is_set():
        try:
            await world.transactions.init_producer(ID, 1000, None)
            break
        except KafkaError as error:
            if error.code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR):
                raise
        await asyncio.sleep(0)
    disk.lives = 0
    await world.stop()


async def judge(disk: MortalDisk, client: Client) -> None:
    world = World(disk)
    await world.init()  # fences whoever is left: what was open is aborted first

    outcomes = [await world.outcomes(place) for place in DATA]
    for number in range(len(ENDS)):
        found = {each[b"%d" % number] for each in outcomes if b"%d" % number in each}
        assert None not in found, f"transaction {number} hangs"
        assert len(found) <= 1, f"transaction {number} is both committed and aborted"
        if number in client.told:
            assert found == {client.told[number]}
        elif number not in client.asked:
            assert True not in found, "nobody asked for that"
    for log in world.logs.values():
        assert log.last_stable_offset == log.high_watermark
    committed = [number for number in range(len(ENDS)) if outcomes[0].get(b"%d" % number)]
    offset = await world.offset()
    assert offset.error is ErrorCode.NONE
    assert offset.offset == (committed[-1] if committed else -1)
    await world.stop()


async def writes_of_a_whole_life(version: int) -> int:
    return await live(MortalDisk(FOREVER, keeps_last=True), Client(version))


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("keeps_last", [False, True])
async def test_a_crash_at_any_write_leaves_no_transaction_half_ended(version: int, keeps_last: bool) -> None:
    for lives in range(1, await writes_of_a_whole_life(version) + 1):
        disk, client = MortalDisk(lives, keeps_last=keeps_last), Client(version)
        await live(disk, client)
        disk.revive(FOREVER)
        await judge(disk, client)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("keeps_last", [False, True])
async def test_a_crash_while_decided_ends_are_taken_up_leaves_them_decided(version: int, keeps_last: bool) -> None:
    for lives in range(1, await writes_of_a_whole_life(version) + 1):
        for more in (1, 2, 3):
            disk, client = MortalDisk(lives, keeps_last=keeps_last), Client(version)
            await live(disk, client)
            disk.revive(more)
            await take_up(disk)
            disk.revive(FOREVER)
            await judge(disk, client)
