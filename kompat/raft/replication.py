"""All replicas of a broker: ticks, messages, and the turns in which both are processed.

Any event of a group (a proposal, a message, a tick) puts it on a list. At the end of the loop's turn, before the store is
flushed, the readies of all groups on it are processed: so one flush serves all of them, and messages leave before it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from kompat.clock import Clock
from kompat.common.repeated import Repeated, times
from kompat.errors import DamagedBatch, KafkaError
from kompat.log.commit import GroupCommit
from kompat.log.partition import Partition
from kompat.raft.engine import (
    EntriesWanted,
    GroupState,
    Message,
    MessageRefused,
    RaftGroup,
    RaftGroups,
    RaftPanic,
    Ready,
    open_group,
)
from kompat.raft.meetings import MEETING, Meetings
from kompat.raft.ports import Peers, ReplicationSettings, RoleListener, Silent, group_key
from kompat.raft.replica.copies import COPY, Copies
from kompat.raft.replica.fetch import read_entries
from kompat.raft.replica.mending import MEND, Mending
from kompat.raft.replica.replica import Replica
from kompat.raft.states import load_hard
from kompat.types import Buffer, LeaderEpoch, Millis, NodeId, RaftIndex

logger = logging.getLogger(__name__)

LOOK_TICKS = 5  # between two looks at how far followers are
STEP_TICKS = 50  # between two steps of the data directory
CHANCE_SECONDS = 0.15  # for one that campaigns, before the next does
HEARTBEATS, REPLIES = b"\0", b"\1"
HAS_LOST = b""  # a header: the sender's disk has lost entries that it had acknowledged


def _stop(reason: str) -> None:
    logger.critical("the broker stops: %s", reason)
    os._exit(1)


class Replication:
    """Host of the replicas."""

    def __init__(
        self,
        node_id: NodeId,
        peers: Peers,
        commit: GroupCommit,
        clock: Clock,
        settings: ReplicationSettings | None = None,
        stop_broker: Callable[[str], None] = _stop,
    ) -> None:
        """Before the peers are connected. `stop_broker`: what Raft believes and what is stored may not be the same any more."""
        self.node_id = node_id
        self.settings = settings or ReplicationSettings()
        self._listener: RoleListener = Silent()
        self._stop_broker = stop_broker
        self._peers = peers
        self._commit = commit
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._groups = RaftGroups(node_id, self.settings.quiet_after)
        self._replicas: dict[bytes, Replica] = {}  # by the key of the log
        self._by_key: dict[int, Replica] = {}
        self._woken: dict[Replica, None] = {}
        self._is_scheduled = False
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._copies = Copies(self, peers, clock)
        self._repeated = Repeated()
        self._mending = Mending(self, peers)
        self._meetings = Meetings(
            node_id,
            peers,
            commit.incarnations,
            self._loop.call_later,
            self.settings.meet_ms / 1000,
            on_met=self._has_met,
            on_set_back=self._is_set_back,
        )
        self._on_renewed: Callable[[str], None] = lambda _: None  # the directory has another id
        self._past_proposals = 0  # of groups that are gone
        self._counted: dict[int, LeaderEpoch] = {}  # by group: the last whose leader counted as a new one
        self.leader_changes = 0  # new leaders of the partitions that are here
        self.elections_won = 0
        peers.receive_raft(self._receive, self._receive_heartbeats)
        peers.on_stream[COPY] = self._copies.receive
        peers.on_call[MEND] = self._mending.give
        commit.run_before_flush(self._pump)

    # -- replicas --------------------------------------------------------------------------------------------------
    def attach(self, partition: Partition, voters: Sequence[NodeId]) -> Replica:
        """Take up the partition's group from the store; `voters` counts where there is none. None: wait to be added."""
        replica = Replica(partition, self, voters)
        self._replicas[partition.log_id.key] = replica
        self._by_key[group_key(partition.log_id)] = replica
        self._begin_alone(replica)
        self._look_for_losses(replica)
        self.wake(replica)
        return replica

    def _look_for_losses(self, replica: Replica) -> None:
        log, patience = replica.log, self.settings.doubt_ms / 1000
        if replica.voters == [self.node_id]:
            replica.recovery.trust()  # no other replica could have more
        elif not log.is_whole:
            replica.recovery.begin(is_silent=True, seconds=patience if self._commit.is_restored else None)
        elif self._commit.may_have_lost and (log.last > 1 or log.hard.term > 1):  # else it has never had a leader
            replica.recovery.begin(is_silent=False, seconds=patience)

    def has_group(self, partition: Partition) -> bool:
        """Whether the store has a group of it, be it attached or not."""
        return load_hard(partition.store) is not None

    def detach(self, partition: Partition) -> None:
        replica = self._replicas.pop(partition.log_id.key, None)
        if replica is not None:
            key = group_key(partition.log_id)
            del self._by_key[key]
            self._groups.remove(key)
            self._woken.pop(replica, None)
            self._past_proposals += replica.proposals.count
            self._counted.pop(key, None)
            replica.drop()

    def find(self, log_key: bytes) -> Replica | None:
        return self._replicas.get(log_key)

    def all(self) -> Iterable[Replica]:
        return self._replicas.values()

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def proposals(self) -> int:
        """Entries that this broker, as a leader, has given to Raft since the start."""
        return self._past_proposals + sum(replica.proposals.count for replica in self._replicas.values())

    def _begin_alone(self, replica: Replica) -> None:
        if replica.voters == [self.node_id]:
            replica.campaign()  # no other replica can lead: there is nothing to wait for

    # -- running ---------------------------------------------------------------------------------------------------
    def start(self, listener: RoleListener, on_renewed: Callable[[str], None] = lambda _: None) -> None:
        """`on_renewed`: the data directory has another id."""
        self._listener, self._on_renewed = listener, on_renewed
        self._timer = self._loop.call_later(self.settings.tick_ms / 1000, self._tick)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pump()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self.settings.tick_ms / 1000, self._tick)
        try:
            for key in self._groups.tick():
                self.wake(self._by_key[key])
            for node, blob in self._groups.take_heartbeats():
                if self._meetings.has_met(NodeId(node)):
                    self._peers.send_heartbeats(NodeId(node), HEARTBEATS + blob)
        except RaftPanic as panic:
            self._stop_broker(str(panic))
        self._ticks += 1
        if self._ticks % STEP_TICKS == 0:
            self.spawn(self._step())
        if self._ticks % LOOK_TICKS == 0:
            now = self.now()
            for replica in self._by_key.values():
                if replica.is_leading and not replica.group.quiet:
                    replica.look_at_followers(now)

    async def _step(self) -> None:
        """Others are to know a later state of this broker's data directory than any copy of it that was made before."""
        if await self._loop.run_in_executor(None, self._commit.incarnations.step):
            self._meetings.tell_all()

    def wake(self, replica: Replica) -> None:
        self._woken[replica] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pump_scheduled)

    def _pump_scheduled(self) -> None:
        self._is_scheduled = False
        self._pump()

    def _pump(self) -> None:
        while self._woken:
            woken, self._woken = self._woken, {}
            for replica in woken:
                self.pump(replica)

    def pump(self, replica: Replica) -> None:
        try:
            replica.pump()
        except Exception as fault:
            # What Raft believes and what is stored may not be the same any more: only a new start makes sure of it.
            logger.exception("%s is broken", replica.partition)
            self._stop_broker(f"{replica.partition}: {fault}")

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- for the replicas ------------------------------------------------------------------------------------------
    @property
    def lag_ms(self) -> int:
        return self.settings.lag_ms

    @property
    def directory(self) -> str:
        return self._commit.incarnations.mine.directory

    @property
    def in_doubt(self) -> int:
        """Replicas that do not vote or count, because this broker's data directory has lost what they promised."""
        return sum(replica.recovery.is_silent for replica in self._replicas.values())

    def now(self) -> Millis:
        return Millis(int(self._clock.monotonic() * 1000))

    def wall_time(self) -> Millis:
        return self._clock.now()

    def is_up(self, node: NodeId) -> bool:
        return self._peers.is_up(node)

    def is_here(self, node: int) -> bool:
        return node == self.node_id or self.is_up(NodeId(node))

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self._loop.call_later(seconds, work)

    def campaign_later(self, replica: Replica, place: int) -> None:
        epoch = replica.epoch
        self._loop.call_later(place * CHANCE_SECONDS, self._campaign, replica, epoch)

    def _campaign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        if replica.epoch == epoch and (replica.leader is None or not self.is_up(replica.leader)):
            replica.campaign()

    def require_sync(self) -> None:
        self._commit.require_sync()

    def open_group(self, replica: Replica, state: GroupState) -> RaftGroup:
        key = group_key(replica.partition.log_id)
        group = open_group(self.node_id, state, seed=self.settings.seed ^ key, settings=self.settings.engine)
        if key in self._by_key:
            self._groups.remove(key)
        self._groups.add(key, group)
        return group

    def send(self, replica: Replica, messages: Sequence[Message]) -> None:
        log_key = replica.partition.log_id.key
        for message in messages:
            to = NodeId(message.to)
            if message.snapshot is not None:
                self._copies.offer(replica, message)
            elif not self._meetings.has_met(to) or not self._peers.send_raft(
                to, log_key, message.header, message.payloads
            ):
                replica.group.report_unreachable(to)

    def fetch(self, replica: Replica, ready: Ready) -> None:
        for wanted in ready.wanted:
            self.spawn(self._fetch(replica, replica.group, wanted))

    async def _fetch(self, replica: Replica, group: RaftGroup, wanted: EntriesWanted) -> None:
        store, first, end = replica.partition.store, RaftIndex(wanted.first), RaftIndex(wanted.end)
        try:
            entries = await replica.partition.read_mended(lambda: read_entries(store, first, end, wanted.max_bytes))
        except KafkaError as error:
            name = f"{replica.partition.topic}-{replica.partition.index}"
            replica.partition.damages.tell("%s cannot be read for followers: %s", name, error)
            entries = []
        if replica.group is group and not replica.partition.is_dropped:
            is_there = first >= group.status().first  # else the log's start has moved past it, and a copy is due
            group.supply_entries(wanted.id, entries if is_there else [])
            self.wake(replica)

    async def mend(self, replica: Replica, damage: DamagedBatch) -> None:
        await self._mending.mend(replica, damage)

    def role_changed(self, replica: Replica) -> None:
        key = group_key(replica.partition.log_id)
        if replica.leader is not None and replica.epoch > self._counted.get(key, -1):
            self._counted[key] = replica.epoch
            self.leader_changes += 1
            self.elections_won += replica.leader == self.node_id
        self._loop.call_soon(self._tell_role, replica, replica.is_leading, replica.leader, replica.epoch)

    def _tell_role(self, replica: Replica, is_leading: bool, leader: NodeId | None, epoch: LeaderEpoch) -> None:
        if replica.partition.is_dropped:
            return
        if is_leading:
            self._listener.leading(replica.partition, epoch)
        else:
            self._listener.following(replica.partition, leader, epoch)

    def members_changed(self, replica: Replica) -> None:
        self._loop.call_soon(self._listener.members_changed, replica.partition)

    # -- messages --------------------------------------------------------------------------------------------------
    def _receive(self, sender: NodeId, group: bytes, header: memoryview, payloads: list[memoryview]) -> None:
        if bytes(group) == MEETING:
            self._meetings.receive(sender, bytes(header))
            return
        replica = self._replicas.get(bytes(group))
        if replica is None or not self._meetings.has_met(sender):
            return
        try:
            if header:
                replica.receive(bytes(header), payloads)
            else:
                replica.peer_has_lost(sender)
        except MessageRefused as refused:
            count = self._repeated.count((replica, sender), self._clock.monotonic())
            if count:
                what = "%s does not take a message of broker %d: %s%s"
                logger.warning(what, replica.partition, sender, refused, times(count))
        except RaftPanic as panic:
            self._stop_broker(f"{replica.partition}: {panic}")

    def _receive_heartbeats(self, sender: NodeId, blob: memoryview) -> None:
        if not self._meetings.has_met(sender):
            return
        kind, rows = bytes(blob[:1]), bytes(blob[1:])
        try:
            if kind == REPLIES:
                ready = self._groups.step_heartbeat_replies(sender, rows)
            else:
                reply, ready, _, faults = self._groups.step_heartbeats(sender, rows)
                if reply:
                    self._peers.send_heartbeats(sender, REPLIES + reply)
                for key, reason in faults:
                    self._tell_of_loss(self._by_key[key], sender, reason)
        except MessageRefused as refused:
            logger.warning("heartbeats of broker %d make no sense: %s", sender, refused)
            return
        except RaftPanic as panic:
            self._stop_broker(str(panic))
            return
        for key in ready:
            self.wake(self._by_key[key])

    def _tell_of_loss(self, replica: Replica, leader: NodeId, reason: str) -> None:
        """The leader goes on from what this replica had acknowledged: it has to find out again where that ends."""
        if not replica.is_installing and replica.log.last_ever is None:
            logger.warning("%s: %s", replica.partition, reason)
        empty: Sequence[Buffer] = ()
        self._peers.send_raft(leader, replica.partition.log_id.key, HAS_LOST, empty)

    # -- links -----------------------------------------------------------------------------------------------------
    def peer_up(self, node: NodeId) -> None:
        """There is a link to a broker. It may have restarted, and have lost what it had not synced."""
        self._meetings.begin(node)

    def _has_met(self, node: NodeId) -> None:
        self._groups.wake(node)
        self._groups.reset_peer(node)

    def _is_set_back(self, node: NodeId) -> None:
        logger.error(
            "broker %d has seen a later state of this broker's data directory: it was put back to an older one. Its replicas do "
            "not vote or count until leaders that others have elected bring them up to date",
            node,
        )
        self._on_renewed(self.directory)
        for replica in self._replicas.values():
            replica.log.distrust(self.directory)
            self._look_for_losses(replica)

    def peer_lost(self, node: NodeId) -> None:
        """The link to a broker is gone: where it led, look for another leader soon."""
        self._meetings.end(node)
        self._groups.wake(node)
        for replica in self._by_key.values():
            if replica.leader == node:
                replica.peer_lost(node)
