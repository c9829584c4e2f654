"""Duties of a partition's leader: its members are those that the metadata asks for, and the preferred one of them leads.

Nothing is remembered: what is to be done follows from what the metadata says and what the members are. So it goes on
wherever a leader was when it died.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence

from kompat.cluster.controller import Controller
from kompat.cluster.leadership import Leadership
from kompat.cluster.network import Network
from kompat.cluster.replicas import Replica
from kompat.cluster.state import PartitionState
from kompat.errors import KafkaError
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, LogId, NodeId

log = logging.getLogger(__name__)

RETRY = 0.5  # seconds
AT_ONCE = 8  # partitions that are changed at a time: each may copy a log
TURN = 10.0  # seconds, after which another one may
GIVEN_WITHIN = 2.0  # seconds: Raft has given up on a lead that is not gone by then


class Moving:
    def __init__(
        self,
        network: Network,
        leadership: Leadership,
        controller: Controller,
        wanted: Callable[[LogId], PartitionState | None],
    ) -> None:
        """`wanted`: a partition as the metadata has it."""
        self._me = network.me
        self._network = network
        self._leadership = leadership
        self._controller = controller
        self._wanted = wanted
        self._tasks: dict[LogId, asyncio.Task[None]] = {}
        self._towards: dict[LogId, Sequence[NodeId]] = {}  # what each of them works for
        self._room = asyncio.Semaphore(AT_ONCE)
        self._handed: dict[
            Replica, tuple[float, LeaderEpoch]
        ] = {}  # for want of room here: when, and led in which epoch
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- when to look ----------------------------------------------------------------------------------------------
    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        self.look(partition.log_id)

    def following(self, partition: Partition) -> None:
        """Its new leader goes on."""

    def look(self, log_id: LogId) -> None:
        """See whether a partition's members are to be others."""
        under_way = self._tasks.get(log_id)
        if under_way is not None:
            wanted = self._wanted(log_id)
            if wanted is None or wanted.target != self._towards.get(log_id):
                under_way.cancel()  # it may wait for a broker that never comes; what it has done stays done
            return
        if not self._is_due(log_id):
            return
        task = self._tasks[log_id] = asyncio.ensure_future(self._settle(log_id))
        task.add_done_callback(lambda done: self._settled(log_id, done))

    def _settled(self, log_id: LogId, done: asyncio.Task[None]) -> None:
        self._tasks.pop(log_id, None)
        if self._is_closed:
            return
        if not done.cancelled() and done.exception() is not None:
            log.error("a partition cannot be moved", exc_info=done.exception(), extra={"log": str(log_id)})
        else:
            self.look(log_id)  # it may have been sent elsewhere meanwhile

    def _is_due(self, log_id: LogId) -> bool:
        wanted, replica = self._wanted(log_id), self._leadership.replica(log_id)
        if wanted is None or not self._leadership.is_led(log_id):
            return False
        return wanted.is_moving or (replica is not None and set(replica.voters) != set(wanted.target))

    # -- what to do ------------------------------------------------------------------------------------------------
    async def _settle(self, log_id: LogId) -> None:
        while self._is_due(log_id):
            wanted, replica = self._wanted(log_id), self._leadership.replica(log_id)
            try:
                if wanted is not None:
                    self._towards[log_id] = wanted.target
                    # By turns: what waits for a broker that is not there must not keep others from moving.
                    async with self._room, asyncio.timeout(TURN):
                        await self._step(log_id, wanted, replica)
            except TimeoutError:
                continue
            except KafkaError as error:
                log.info("a move is tried again", extra={"log": str(log_id), "reason": error})
                await asyncio.sleep(RETRY)

    async def _step(self, log_id: LogId, wanted: PartitionState, replica: Replica | None) -> None:
        target = wanted.target
        voters: Collection[NodeId] = replica.voters if replica is not None else (self._me,)
        if replica is not None and self._me not in target:
            await self._hand_over(replica, target)
        elif replica is not None and set(voters) != set(target):
            await replica.change_members(target)
        elif set(voters) == set(target):
            topic = log_id.topic_id.hex
            await self._controller.ask("arrived", [topic, log_id.partition, sorted(target)])
            # Else this broker would ask again for what is done.
            await self._network.until(lambda: not self._is_moving(log_id), RETRY)
        else:
            await asyncio.sleep(RETRY)  # the replica is not there yet

    async def _hand_over(self, replica: Replica, target: Sequence[NodeId]) -> None:
        """This broker leaves the partition: first another one has to lead it, which then lets this one go."""
        if not set(target) <= set(replica.voters):
            await replica.change_members((*target, self._me))
        able = [node for node in target if node in replica.in_sync()]
        if able:
            replica.transfer_leadership(able[0])
        await asyncio.sleep(RETRY)

    def _is_moving(self, log_id: LogId) -> bool:
        wanted = self._wanted(log_id)
        return wanted is not None and wanted.is_moving

    # -- preferred leaders -----------------------------------------------------------------------------------------
    def restore_preferred(self) -> int:
        """Give what this broker leads in another's place back, where that one is there and has caught up: how many."""
        given = 0
        for partition in self._leadership.led():
            replica, wanted = self._leadership.replica(partition.log_id), self._wanted(partition.log_id)
            if replica is None or wanted is None or wanted.is_moving:
                continue
            preferred = wanted.replicas[0]
            if preferred != self._me and self._network.is_up(preferred) and preferred in replica.in_sync():
                given += _give(replica, preferred)
        return given

    async def hand_over_all(self, seconds: float) -> None:
        """Before this broker stops: let others lead what they can."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            shared = self._shared()
            for replica, others in shared:
                able = [node for node in others if node in replica.in_sync()]
                if able:
                    _give(replica, able[0])
            if not shared or await self._network.until(lambda: not self._shared(), min(RETRY, left)):
                return

    def hand_over_for_room(self) -> None:
        """This broker takes no writes: let others lead what they can. What has come back is not given away at once: the others
        may have no room, too."""
        now = asyncio.get_running_loop().time()
        self._handed = {replica: (at, epoch) for replica, (at, epoch) in self._handed.items() if now - at < TURN}
        for replica, others in self._shared():
            able = [node for node in others if node in replica.in_sync()]
            at, epoch = self._handed.get(replica, (-TURN, replica.epoch))
            if able and now - at >= (GIVEN_WITHIN if replica.epoch == epoch else TURN):
                self._handed[replica] = now, replica.epoch
                _give(replica, random.choice(able))  # noqa: S311 - only spreads load

    def _shared(self) -> list[tuple[Replica, list[NodeId]]]:
        """What is led here, and who else is there to lead it, in the order that spreads leaders."""
        found = []
        for partition in self._leadership.led():
            replica, wanted = self._leadership.replica(partition.log_id), self._wanted(partition.log_id)
            if replica is not None:
                nodes = wanted.target if wanted is not None else (*replica.voters, *replica.learners)
                others = [node for node in nodes if node != self._me and self._network.is_up(node)]
                found += [(replica, others)] if others else []
        return found


def _give(replica: Replica, to: NodeId) -> bool:
    """Whether the lead is on its way; if it is already, or cannot go, it is looked at again later."""
    try:
        replica.transfer_leadership(to)
    except KafkaError:
        return False
    return True
