"""The broker dies at every write of a group's life: what a member was told stays true, and no partition has two owners."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import (
    ClientInfo,
    CommitRequest,
    CommittedPartition,
    CommittedTopic,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    FetchedTopic,
    FetchRequest,
)
from tests.groups.harness import topic_id_of
from tests.txn.crashing import GROUP, MortalDisk, World

FOREVER = 10_000
PARTITIONS = {0, 1, 2, 3}
ROUNDS = 12  # of heartbeats of all: enough for two rebalances
CLIENT = ClientInfo(client_id="c", client_host="/127.0.0.1")
TOPIC = topic_id_of("t")


@dataclass
class Member:
    """A client as it should be: it gives up and takes what its heartbeats say, and owns nothing else."""

    member_id: str
    epoch: int = 0
    owned: set[int] = field(default_factory=set)
    lost_an_answer: bool = False  # then it says all again, and is told all again

    async def beat(self, world: World) -> None:
        says_all, self.lost_an_answer = self.epoch == 0 or self.lost_an_answer, False
        request = ConsumerHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if says_all else -1,
            subscribed_topic_names=("t",) if says_all else None,
            topic_partitions={TOPIC: tuple(sorted(self.owned))} if self.owned else {},
            client=CLIENT,
        )
        self._follow(await world.groups.consumer_heartbeat(request))

    def _follow(self, reply: ConsumerHeartbeatReply) -> None:
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = set(reply.assignment.get(TOPIC, ()))


@dataclass
class Story:
    members: list[Member] = field(default_factory=lambda: [Member("member-a"), Member("member-b")])
    told: dict[int, int] = field(default_factory=dict)  # partition → an offset whose commit was answered
    asked: dict[int, set[int]] = field(default_factory=dict)  # partition → offsets that may have come after it

    async def live(self, world: World) -> None:
        for number in range(ROUNDS):
            for member in self.members[: 1 if number < 3 else 2]:
                await member.beat(world)
                self.check_owners()
                for partition in sorted(member.owned)[:1]:
                    await self._commit(world, member, partition, number)
            world.advance(1000)  # so that it is time for another assignment

    async def _commit(self, world: World, member: Member, partition: int, offset: int) -> None:
        self.asked.setdefault(partition, set()).add(offset)
        topic = CommittedTopic(
            name="t", topic_id=TOPIC, partitions=(CommittedPartition(partition=partition, offset=offset),)
        )
        request = CommitRequest(
            group_id=GROUP, member_id=member.member_id, generation_id=member.epoch, topics=(topic,), api_version=9
        )
        await world.groups.commit_offsets(request)
        self.told[partition], self.asked[partition] = offset, set()

    def check_owners(self) -> None:
        owned = [partition for member in self.members for partition in member.owned]
        assert len(owned) == len(set(owned)), self.members

    async def check_offsets(self, world: World) -> None:
        topic = FetchedTopic(name="t", partitions=tuple(PARTITIONS))
        [found] = await world.groups.fetch_offsets(FetchRequest(group_id=GROUP, topics=(topic,)))
        for each in found.partitions:
            assert each.offset in {self.told.get(each.partition, -1), *self.asked.get(each.partition, ())}


async def live_until_death(disk: MortalDisk, story: Story) -> None:
    world = World(disk)
    work = asyncio.ensure_future(story.live(world))
    death = asyncio.ensure_future(disk.died.wait())
    await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
    if not disk.died.is_set():
        await work
    disk.lives = 0
    for each in (work, death):
        each.cancel()
    await asyncio.gather(work, death, return_exceptions=True)
    await world.stop()


async def go_on(disk: MortalDisk, story: Story) -> None:
    """The members come back with what they were told, to a new broker."""
    world = World(disk)
    await story.check_offsets(world)
    for member in story.members:
        member.lost_an_answer = True
    for _ in range(ROUNDS):
        for member in story.members:
            try:
                await member.beat(world)
            except KafkaError as error:
                if error.code is not ErrorCode.FENCED_MEMBER_EPOCH:  # that means: begin anew
                    raise
                member.epoch, member.owned = 0, set()
            story.check_owners()
        world.advance(1000)
    assert {partition for member in story.members for partition in member.owned} == PARTITIONS
    assert all(member.owned for member in story.members)
    await world.stop()


@pytest.mark.parametrize("keeps_last", [False, True])
async def test_a_crash_at_any_write_leaves_members_with_what_they_were_told(keeps_last: bool) -> None:
    disk = MortalDisk(FOREVER, keeps_last=True)
    world = World(disk)
    await Story().live(world)
    writes = FOREVER - disk.lives
    await world.stop()
    assert writes > 10
    for lives in range(1, writes + 1):
        disk, story = MortalDisk(lives, keeps_last=keeps_last), Story()
        await live_until_death(disk, story)
        disk.revive(FOREVER)
        await go_on(disk, story)
