"""This broker among the brokers of its cluster: links, leaders, replicas and its registration, put together.

A broker without others is a cluster of one. It has the same objects: links that have nobody, and no Raft groups, because all its
partitions, that of the metadata too, have one replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from kompat.cluster.leadership import Leadership
from kompat.cluster.messages import RecoverReplica, TransferLeadership
from kompat.cluster.network import Network
from kompat.cluster.reassignment import PartitionReassigner
from kompat.cluster.registration import Registration
from kompat.cluster.state import Address, Broker
from kompat.errors import ErrorCode, KafkaError
from kompat.rpc.router import CALL, Router
from kompat.types import LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.leadership import Watcher
    from kompat.cluster.ports import Links, Metadata, Replica, Replication
    from kompat.cluster.state import PartitionState
    from kompat.log.partition import Partition

LOOK_FOR_ROOM = 0.5  # seconds
HAND_OVER = 5.0  # seconds for others to take the lead, when this broker stops
NUDGES, NUDGE_AFTER = 5, 0.02  # seconds, and longer every time


class BrokerParts(Struct, frozen=True):
    """What this broker has of its own, by its settings."""

    broker: Broker  # as it registers
    links: Links
    replication: Replication
    named: Mapping[NodeId, Address]  # the brokers that the cluster consists of at first, by their settings
    rebalance_seconds: float = 0  # between two looks for partitions that their preferred replica should lead; 0: never
    has_peers: bool = True  # False: nobody else can come


class LocalBroker:
    def __init__(self, parts: BrokerParts, metadata: Metadata, rpc: Router, controller: Watcher) -> None:
        """`controller`: acts where this broker leads the metadata log."""
        self.me = parts.broker.node_id
        self.broker = parts.broker
        self.named = parts.named
        self.has_peers = parts.has_peers
        self.peers = parts.links
        self.replication = parts.replication
        self.metadata = metadata
        self._rebalance_seconds = parts.rebalance_seconds
        self._rpc = rpc
        self.network = Network(self.me, parts.links, rpc, parts.named, self.metadata_voters)
        self.leaders = self.network.leaders
        self.leadership = Leadership(self.network)
        self.reassigner = PartitionReassigner(self.network, self.leadership, rpc, metadata.partition_state)
        self.registration = Registration(self, rpc)
        self._upkeep: list[asyncio.Task[None]] = []
        for watcher in (controller, self.reassigner):
            self.leadership.watch(watcher)
        rpc.serve(TransferLeadership, self._on_transfer)
        rpc.serve(RecoverReplica, self._on_recover)
        self.peers.on_call[CALL] = rpc.receive
        self.peers.on_up, self.peers.on_down = self._linked, self._unlinked
        self.replication.start(self.leadership, self._directory_renewed)

    def _linked(self, node: NodeId) -> None:
        self.replication.peer_up(node)
        self.network.linked(node)

    def _unlinked(self, node: NodeId) -> None:
        self.replication.peer_lost(node)
        self.network.unlinked(node)

    def _directory_renewed(self, directory: str) -> None:
        """The controller hears of it with the next reminder."""
        self.broker = replace(self.broker, directory=directory)

    # -- life ------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Come to a part of the metadata log: as it was, by founding the cluster, or by waiting to be taken in."""
        log = self.metadata.log
        if not self.has_peers:
            self.leadership.own(log)
            return
        self.place(log, await self.registration.first_voters())
        self._upkeep.append(asyncio.ensure_future(self._look_for_room()))
        if self._rebalance_seconds:
            self._upkeep.append(asyncio.ensure_future(self._rebalance(self._rebalance_seconds)))

    async def _look_for_room(self) -> None:
        """Also where nobody writes: a store that was full goes on when somebody asks it."""
        while True:
            await asyncio.sleep(LOOK_FOR_ROOM)
            try:
                self.metadata.require_room()
            except KafkaError:
                self.reassigner.hand_over_for_room()

    async def _rebalance(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.reassigner.restore_preferred()

    async def join(self) -> None:
        await self.registration.register()
        if self.has_peers:
            self._upkeep.append(asyncio.ensure_future(self.registration.remind()))

    async def close(self) -> None:
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        await self.reassigner.close()
        await self.network.close()

    async def hand_over(self) -> None:
        """This broker is about to stop: have others lead what it leads."""
        await self.reassigner.hand_over_all(HAND_OVER)

    # -- what the metadata says ------------------------------------------------------------------------------------
    def changed(self, gone: Sequence[NodeId] = (), moved: Sequence[LogId] = ()) -> None:
        """Committed metadata has changed."""
        image = self.metadata.image
        self.network.follow(image.brokers, gone)
        if image.cluster_id and self.peers.cluster_id != image.cluster_id:
            self.peers.cluster_id = image.cluster_id
        for log_id in moved:
            self.reassigner.look(log_id)
        self.network.look()

    def place(self, partition: Partition, voters: Sequence[NodeId]) -> Replica:
        replica = self.leadership.replica(partition.log_id)
        if replica is None:
            is_new = not self.replication.has_group(partition)
            replica = self.replication.attach(partition, voters)
            self.leadership.take(partition, replica)
            if is_new and len(voters) > 1 and self.me == next(filter(self.network.is_up, voters), None):
                self._nudge(replica)
        return replica

    def _nudge(self, replica: Replica, tries: int = NUDGES) -> None:
        """A new group need not wait for a time-out to have a leader. The others may not have heard of it yet."""
        if replica.leader is None and tries:
            replica.campaign()
            asyncio.get_running_loop().call_later(NUDGE_AFTER * (NUDGES - tries + 1), self._nudge, replica, tries - 1)

    def host(self, partition: Partition, wanted: PartitionState) -> None:
        """This broker has one of the partition's replicas."""
        if self.leadership.replica(partition.log_id) is not None:
            return
        if not self.has_peers or (len(wanted.replicas) == 1 and not self.replication.has_group(partition)):
            self.leadership.own(partition)
        else:
            may_found = self.me in wanted.origin and self.metadata.image.may_found(
                self.me, self.broker.directory, partition.log_id
            )
            self.place(partition, wanted.origin if may_found else ())

    def leave(self, partition: Partition) -> None:
        """This broker has none of the partition's replicas any more."""
        if self.leadership.replica(partition.log_id) is not None:
            self.replication.detach(partition)
        self.leadership.drop(partition.log_id)

    def metadata_voters(self) -> Sequence[NodeId]:
        replica = self.leadership.replica(self.metadata.log.log_id)
        return replica.voters if replica is not None else ()

    # -- leaders ---------------------------------------------------------------------------------------------------
    def leader(self, log_id: LogId) -> NodeId | None:
        """As far as this broker knows."""
        led = self.leaders.of(log_id)
        return led.leader if led is not None else None

    async def transfer(self, log_id: LogId, to: NodeId, seconds: float) -> None:
        """Have a partition's leader give the lead to another replica. Raises KafkaError."""
        await self._rpc.call(log_id, TransferLeadership(to), patience=seconds)

    async def _on_transfer(self, partition: Partition, request: TransferLeadership) -> None:
        replica = self.leadership.replica(partition.log_id)
        if replica is None or not replica.is_leading:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.transfer_leadership(request.to)

    async def recover(self, log_id: LogId, replicas: Sequence[NodeId]) -> None:
        """Have a partition's replicas go on with what they have, though some of them have lost what they promised.

        Raises ELIGIBLE_LEADERS_NOT_AVAILABLE where none of them is in doubt, or too few of them are there.
        """
        doubts = await asyncio.gather(*(self._recover(node, RecoverReplica(log_id, False)) for node in replicas))
        there = [node for node, in_doubt in zip(replicas, doubts, strict=True) if in_doubt is not None]
        if not any(doubts) or 2 * len(there) <= len(replicas):
            reason = f"{len(there)} of {len(replicas)} replicas are there, and a majority has to be"
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason if any(doubts) else "")
        await asyncio.gather(*(self._recover(node, RecoverReplica(log_id, True)) for node in there))

    async def _recover(self, node: NodeId, request: RecoverReplica) -> bool | None:
        """Whether the replica there is in doubt; None: it is not there."""
        try:
            return await self._rpc.call(node, request)
        except KafkaError:
            return None

    async def _on_recover(self, request: RecoverReplica) -> bool:
        replica = self.leadership.replica(request.log_id)
        if replica is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        is_in_doubt = replica.is_in_doubt
        if request.accepts_loss:
            replica.recover()
        return is_in_doubt
