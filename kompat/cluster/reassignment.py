"""The duties of a partition's leader: make the replicas those of the metadata, and the preferred one the leader.

Nothing is stored: what is to be done follows from the metadata and the present replicas. So a new leader continues where the
old one stopped.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from kompat.cluster.leadership import Leadership
from kompat.cluster.messages import FinishReassignment
from kompat.cluster.network import Network
from kompat.cluster.state import PartitionState
from kompat.errors import KafkaError
from kompat.log.partition import Partition
from kompat.rpc.messages import CONTROLLER
from kompat.rpc.router import Router
from kompat.types import LeaderEpoch, LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.ports import Replica

log = logging.getLogger(__name__)

RETRY = 0.5  # seconds
AT_ONCE = 8  # partitions that are changed at a time: each may copy a log
TURN = 10.0  # seconds, after which another one may
GIVEN_WITHIN = 2.0  # seconds: by then Raft has given up a transfer of leadership that has not succeeded


class PartitionReassigner:
    def __init__(
        self,
        network: Network,
        leadership: Leadership,
        rpc: Router,
        wanted: Callable[[LogId], PartitionState | None],
    ) -> None:
        """`wanted`: a partition's state in the metadata."""
        self._me = network.me
        self._network = network
        self._leadership = leadership
        self._rpc = rpc
        self._wanted = wanted
        self._tasks: dict[LogId, asyncio.Task[None]] = {}
        self._towards: dict[LogId, Sequence[NodeId]] = {}  # the target of each task
        self._room = asyncio.Semaphore(AT_ONCE)
        # Transferred because the disk is full here: when, and led in which epoch.
        self._handed: dict[Replica, tuple[float, LeaderEpoch]] = {}
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
        """Its new leader continues."""

    def look(self, log_id: LogId) -> None:
        """Check whether a partition's replicas have to change."""
        under_way = self._tasks.get(log_id)
        if under_way is not None:
            wanted = self._wanted(log_id)
            if wanted is None or wanted.target != self._towards.get(log_id):
                under_way.cancel()  # it may wait for a broker that never comes back; its completed steps stay
            return
        if not self._is_due(log_id):
            return
        task = self._tasks[log_id] = asyncio.ensure_future(self._reassign(log_id))
        task.add_done_callback(lambda done: self._reassigned(log_id, done))

    def _reassigned(self, log_id: LogId, done: asyncio.Task[None]) -> None:
        self._tasks.pop(log_id, None)
        if self._is_closed:
            return
        if not done.cancelled() and done.exception() is not None:
            log.error("a partition cannot be moved", exc_info=done.exception(), extra={"log": str(log_id)})
        else:
            self.look(log_id)  # it may have another target meanwhile

    def _is_due(self, log_id: LogId) -> bool:
        wanted, replica = self._wanted(log_id), self._leadership.replica(log_id)
        if wanted is None or not self._leadership.is_led(log_id):
            return False
        return wanted.is_moving or (replica is not None and set(replica.voters) != set(wanted.target))

    # -- what to do ------------------------------------------------------------------------------------------------
    async def _reassign(self, log_id: LogId) -> None:
        while self._is_due(log_id):
            wanted, replica = self._wanted(log_id), self._leadership.replica(log_id)
            try:
                if wanted is not None:
                    self._towards[log_id] = wanted.target
                    # In turns: a reassignment that waits for an unavailable broker must not block others.
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
            await self._rpc.call(CONTROLLER, FinishReassignment(log_id, tuple(sorted(target))))
            # Else this broker would repeat a finished reassignment.
            await self._network.until(lambda: not self._is_moving(log_id), RETRY)
        else:
            await asyncio.sleep(RETRY)  # the replica is not there yet

    async def _hand_over(self, replica: Replica, target: Sequence[NodeId]) -> None:
        """This broker is not in the target: first another replica has to become the leader, which then removes this one."""
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
        """Transfer leadership to preferred leaders that are up and in sync; returns for how many partitions."""
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
        """Before this broker stops: transfer leadership to other replicas as far as possible."""
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
        """This broker accepts no writes: transfer leadership as far as possible. A partition that came back is not transferred at once:
        the others may have no room, either."""
        now = asyncio.get_running_loop().time()
        self._handed = {replica: (at, epoch) for replica, (at, epoch) in self._handed.items() if now - at < TURN}
        for replica, others in self._shared():
            able = [node for node in others if node in replica.in_sync()]
            at, epoch = self._handed.get(replica, (-TURN, replica.epoch))
            if able and now - at >= (GIVEN_WITHIN if replica.epoch == epoch else TURN):
                self._handed[replica] = now, replica.epoch
                _give(replica, random.choice(able))  # noqa: S311 - only spreads load

    def _shared(self) -> list[tuple[Replica, list[NodeId]]]:
        """The replicas that lead here, with the other brokers that could lead, in the order that balances leaders."""
        found = []
        for partition in self._leadership.led():
            replica, wanted = self._leadership.replica(partition.log_id), self._wanted(partition.log_id)
            if replica is not None:
                nodes = wanted.target if wanted is not None else (*replica.voters, *replica.learners)
                others = [node for node in nodes if node != self._me and self._network.is_up(node)]
                found += [(replica, others)] if others else []
        return found


def _give(replica: Replica, to: NodeId) -> bool:
    """Whether a transfer has started; if one is in progress already, or is impossible, it is tried again later."""
    try:
        replica.transfer_leadership(to)
    except KafkaError:
        return False
    return True
