"""Members at random, with crashes between them: nothing acknowledged comes again, nothing is lost, nobody shares a lock."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kompat.share.machine.messages import AckType, AcquireMode
from kompat.share.machine.settings import ShareSettings
from tests.share.support import Shop

pytestmark = pytest.mark.slow

SETTINGS = ShareSettings(
    offset_reset="earliest", lock_ms=120, delivery_limit=1000, max_locks=60, backoff_ms=1, max_backoff_ms=5
)
ROUNDS = 4


class Witness:
    """Sees every delivery and every acknowledgement that was confirmed."""

    def __init__(self) -> None:
        self.holders: dict[int, tuple[str, int]] = {}  # offset → member, and when its lock ends
        self.done: set[int] = set()

    def delivered(self, offset: int, member: str, begun: int, now: int) -> None:
        """Some time between `begun` and `now`."""
        assert offset not in self.done, f"{offset} was acknowledged, and comes again"
        holder, until = self.holders.get(offset, ("", 0))
        assert until <= now, f"{offset} is held by {holder}, and {member} gets it too"
        self.holders[offset] = (member, begun + SETTINGS.lock_ms)

    def let_go(self, offset: int, member: str) -> None:
        if self.holders.get(offset, ("", 0))[0] == member:
            del self.holders[offset]


class Member:
    def __init__(self, name: str, witness: Witness, random: Random) -> None:
        self.name = name
        self.witness = witness
        self.random = random

    async def work(self, shop: Shop) -> None:
        mode = self.random.choice(list(AcquireMode))
        asked = self.random.randint(1, 20)
        begun = shop.clock.now()
        offsets = await shop.fetch_offsets(self.name, asked, mode=mode, max_wait_ms=self.random.choice((0, 10)))
        for offset in offsets:
            self.witness.delivered(offset, self.name, begun, shop.clock.now())
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.choice((0.001, 0.15)))  # the latter is too long
        for offset in self.random.sample(offsets, len(offsets)):
            await self.settle(shop, offset)

    async def settle(self, shop: Shop, offset: int) -> None:
        kind = self.random.choices((AckType.ACCEPT, AckType.RELEASE, None), (6, 2, 1))[0]
        if kind is None:
            return  # forgotten
        if kind is AckType.RELEASE:
            self.witness.let_go(offset, self.name)
        error = await shop.acknowledge(self.name, (offset, offset, kind))
        if error is None and kind is AckType.ACCEPT:
            self.witness.done.add(offset)
            self.witness.let_go(offset, self.name)


async def work_for(shop: Shop, members: list[Member], seconds: float) -> None:
    async def one(member: Member) -> None:
        while asyncio.get_running_loop().time() < end:
            await member.work(shop)
            await asyncio.sleep(0)

    async def produce() -> None:
        while asyncio.get_running_loop().time() < end:
            await shop.produce(random.randint(1, 15))
            await asyncio.sleep(0.01)

    end = asyncio.get_running_loop().time() + seconds
    random = members[0].random
    tasks = [asyncio.ensure_future(one(member)) for member in members]
    await asyncio.gather(*tasks, produce())


@pytest.mark.parametrize("seed", range(3))
async def test_members_and_crashes_at_random(seed: int) -> None:
    random, witness = Random(seed), Witness()
    shop = Shop(settings=SETTINGS, cache_bytes=random.choice((0, 1 << 20)))
    members = [Member(name, witness, random) for name in ("alice", "bob", "carol")]
    for _ in range(ROUNDS):
        await work_for(shop, members, 0.4)
        shop = await shop.crash()
        witness.holders.clear()
    last = Member("dave", witness, random)
    async with asyncio.timeout(20):
        while len(witness.done) < shop.orders.log_end_offset:
            begun = shop.clock.now()
            offsets = await shop.fetch_offsets(last.name, max_wait_ms=200)
            for offset in offsets:
                witness.delivered(offset, last.name, begun, shop.clock.now())
                # On a machine that is busy it may be too late: then the record comes again.
                if await shop.acknowledge(last.name, (offset, offset, AckType.ACCEPT)) is None:
                    witness.done.add(offset)
    assert await shop.fetch_offsets(last.name, max_wait_ms=0) == []
    await shop.close()
