"""The wall clock is set while members are alive: sessions are measured in time that passes."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import pytest

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import ClientInfo, ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from tests.txn.crashing import GROUP, MortalDisk, World

SESSION = 45_000
HOUR = 3_600_000


async def beat(world: World, member_id: str, epoch: int) -> ConsumerHeartbeatReply:
    request = ConsumerHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=("t",) if epoch == 0 else None,
        topic_partitions={} if epoch == 0 else None,
        client=ClientInfo(client_id="c", client_host="/127.0.0.1"),
    )
    return await world.groups.consumer_heartbeat(request)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_members_outlive_a_clock_that_is_set_and_the_dead_do_not(jump: int) -> None:
    world = World(MortalDisk(10_000, keeps_last=True))
    clock = cast("ManualClock", world.node.clock)
    [runtime] = world.groups._shards.all()
    alive, dead = str(UUID(int=1)), str(UUID(int=2))
    epoch = (await beat(world, alive, 0)).member_epoch
    await beat(world, dead, 0)

    clock.jump(jump)
    await runtime._tick()
    epoch = (await beat(world, alive, epoch)).member_epoch
    clock.advance(SESSION - 1)
    await runtime._tick()
    epoch = (await beat(world, alive, epoch)).member_epoch
    described = (await world.groups.describe_consumer_groups([GROUP]))[0]
    assert {member.member_id for member in described.members} == {alive, dead}

    clock.advance(1)
    await runtime._tick()
    epoch = (await beat(world, alive, epoch)).member_epoch
    with pytest.raises(KafkaError) as raised:
        await beat(world, dead, epoch)
    assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    await world.stop()


async def test_a_clock_that_is_set_back_does_not_put_off_the_next_assignment() -> None:
    world = World(MortalDisk(10_000, keeps_last=True))
    clock = cast("ManualClock", world.node.clock)
    await beat(world, str(UUID(int=1)), 0)
    clock.jump(-HOUR)

    await beat(world, str(UUID(int=2)), 0)

    [described] = await world.groups.describe_consumer_groups([GROUP])
    assert described.assignment_epoch == described.group_epoch
    await world.stop()
