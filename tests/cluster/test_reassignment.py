"""A partition's leader makes its members those that the metadata asks for, whatever it finds them to be."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kompat.cluster.messages import FinishReassignment
from kompat.cluster.network import Network
from kompat.cluster.reassignment import PartitionReassigner
from kompat.cluster.state import PartitionState
from kompat.errors import ErrorCode, KafkaError
from kompat.rpc.router import Router
from kompat.types import LeaderEpoch, LogId, NodeId
from tests.cluster.brokers import LOG, ME, THREE, TWO, Controlled, Copy, Links, leading, network, state


class World:
    """A broker that leads one partition."""

    def __init__(self, replica: Copy, wanted: PartitionState) -> None:
        self.links = Links()
        self.links.up = {TWO, THREE}
        self.network: Network = network(self.links, TWO, THREE, lost_after=60)
        self.replica = replica
        self.leadership, self.log = leading(self.network, replica)
        self.wanted: dict[LogId, PartitionState] = {LOG: wanted}
        self.controller = Controlled(self.wanted)
        self.reassigner = PartitionReassigner(
            self.network, self.leadership, cast("Router", self.controller), self.wanted.get
        )
        self.leadership.watch(self.reassigner)

    async def settle(self) -> None:
        for _ in range(500):
            if not self.reassigner._tasks:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it goes on for ever")

    async def close(self) -> None:
        await self.reassigner.close()
        await self.network.close()


async def test_members_become_those_that_are_wanted_and_the_controller_hears_of_it() -> None:
    world = World(Copy(ME), state(1, 2, 3, adding=[2, 3]))
    await world.settle()

    assert world.replica.voters == [ME, TWO, THREE]
    assert world.controller.asked == [FinishReassignment(LOG, (ME, TWO, THREE))]
    assert not world.wanted[LOG].is_moving
    await world.close()


async def test_a_partition_that_is_where_it_should_be_is_left_alone() -> None:
    world = World(Copy(ME, TWO), state(1, 2))
    world.reassigner.look(LOG)

    assert not world.reassigner._tasks
    await world.close()


async def test_members_that_the_metadata_does_not_ask_for_go() -> None:
    world = World(
        Copy(ME, TWO, THREE), state(1, 2)
    )  # a cancelled move, or a leader that died before it told of its end
    await world.settle()

    assert world.replica.voters == [ME, TWO]
    assert world.controller.asked == []
    await world.close()


async def test_a_leader_that_leaves_has_another_lead_first() -> None:
    world = World(Copy(ME), state(2, 3, 1, adding=[2, 3], removing=[1]))
    await asyncio.sleep(0.05)

    assert world.replica.voters == [TWO, THREE, ME]
    assert world.replica.given_to == [TWO]
    world.leadership.following(world.log, TWO, LeaderEpoch(2))
    await world.settle()
    assert world.controller.asked == []  # the next leader goes on
    await world.close()


async def test_a_change_that_fails_is_tried_again() -> None:
    replica = Copy(ME)
    replica.refusals = [KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS)]
    world = World(replica, state(1, 2, adding=[2]))
    await world.settle()

    assert replica.voters == [ME, TWO]
    await world.close()


async def test_a_move_that_waits_for_a_broker_that_never_comes_can_be_cancelled() -> None:
    class Stuck(Copy):
        async def change_members(self, voters: object, learners: object = ()) -> None:
            if TWO in cast("list[NodeId]", voters):
                self.learners = [TWO]
                await asyncio.Event().wait()
            self.learners = []

    world = World(Stuck(ME), state(1, 2, adding=[2]))
    await asyncio.sleep(0.01)
    assert world.replica.learners == [TWO]

    world.wanted[LOG] = state(1, 2, adding=[2], removing=[2])
    world.reassigner.look(LOG)
    await world.settle()
    assert not world.wanted[LOG].is_moving
    assert world.wanted[LOG].replicas == (ME,)
    await world.close()


async def test_what_another_should_lead_is_given_back() -> None:
    world = World(Copy(ME, TWO, THREE), state(2, 1, 3))
    world.replica.synced = [ME, THREE]
    assert world.reassigner.restore_preferred() == 0  # it lacks something

    world.replica.synced = [ME, TWO, THREE]
    assert world.reassigner.restore_preferred() == 1
    assert world.reassigner.restore_preferred() == 0  # it is on its way
    assert world.replica.given_to == [TWO]
    await world.close()


async def test_who_stops_hands_over_and_does_not_wait_for_brokers_that_are_gone() -> None:
    world = World(Copy(ME, TWO, THREE), state(1, 2, 3))
    stopping = asyncio.ensure_future(world.reassigner.hand_over_all(10))
    await asyncio.sleep(0.01)
    assert world.replica.given_to == [TWO]
    world.leadership.following(world.log, TWO, LeaderEpoch(2))
    await asyncio.wait_for(stopping, 5)
    await world.close()

    alone = World(Copy(ME, TWO), state(1, 2))
    alone.network.leaders.lost(TWO)
    await asyncio.wait_for(alone.reassigner.hand_over_all(10), 5)
    assert alone.replica.given_to == []
    await alone.close()


async def test_who_has_no_room_hands_over_to_replicas_in_sync_and_not_again_at_once() -> None:
    world = World(Copy(ME, TWO, THREE), state(1, 2, 3))
    world.replica.synced = [ME, THREE]
    world.reassigner.hand_over_for_room()
    world.reassigner.hand_over_for_room()
    assert world.replica.given_to == [THREE]
    await world.close()

    alone = World(Copy(ME, TWO), state(1, 2))
    alone.replica.synced = [ME]
    alone.reassigner.hand_over_for_room()
    assert alone.replica.given_to == []
    await alone.close()


async def test_a_lead_that_did_not_go_is_given_again_sooner_than_one_that_has_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kompat.cluster.reassignment.GIVEN_WITHIN", 0.0)
    world = World(Copy(ME, TWO), state(1, 2))
    world.reassigner.hand_over_for_room()
    world.replica.given_to.clear()  # Raft has given it up
    world.reassigner.hand_over_for_room()
    assert world.replica.given_to == [TWO]

    world.replica.given_to.clear()
    world.replica.epoch = LeaderEpoch(3)  # another has led meanwhile, and has no room, too
    world.reassigner.hand_over_for_room()
    assert world.replica.given_to == []
    await world.close()
