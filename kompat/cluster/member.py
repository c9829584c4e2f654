"""This broker as one of several: all that it needs for that, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kompat.cluster.asking import Asking
from kompat.cluster.calls import Call
from kompat.cluster.controller import Controller, Handler, Metadata
from kompat.cluster.leaders import Leaders
from kompat.cluster.leadership import Leadership
from kompat.cluster.membership import Formation, Governing
from kompat.cluster.moving import Moving
from kompat.cluster.network import Linking, Network
from kompat.cluster.replicas import Replica, Replication
from kompat.cluster.state import Address, Broker, ClusterState, PartitionState
from kompat.errors import ErrorCode, KafkaError, PeerError
from kompat.log import raft_states
from kompat.log.partition import Partition
from kompat.types import Buffer, LeaderEpoch, LogId, NodeId

LOOK_FOR_ROOM = 0.5  # seconds
HAND_OVER = 5.0  # seconds for others to take the lead, when this broker stops
REGISTERED_WITHIN = 5.0
NUDGES, NUDGE_AFTER = 5, 0.02  # seconds, and longer every time


@dataclass(frozen=True, slots=True)
class MemberSettings:
    broker: Broker  # this one, as it registers
    named: Mapping[NodeId, Address]  # the brokers that the cluster consists of at first, by their settings
    rebalance_seconds: float = 0  # between two looks for partitions that their preferred replica should lead; 0: never


class Links(Linking, Protocol):
    """The part of `raft.peers.Peers` that a member uses."""

    cluster_id: str
    on_up: Callable[[NodeId], None]
    on_down: Callable[[NodeId], None]

    @property
    def on_call(self) -> dict[int, Handler]: ...


class Owner(Metadata, Protocol):
    """Who keeps the metadata: `cluster.service.ClusterService`."""

    @property
    def log(self) -> Partition: ...

    @property
    def image(self) -> ClusterState: ...

    def require_room(self) -> None:
        """Raises KAFKA_STORAGE_ERROR while the disk takes no records. The metadata's own log is let in for longer."""
        ...

    def partition_state(self, log_id: LogId) -> PartitionState | None: ...

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None: ...

    def following(self, partition: Partition) -> None: ...

    async def drain(self) -> None:
        """Move on what brokers that leave still have."""
        ...


class Member:
    def __init__(self, settings: MemberSettings, peers: Links, replication: Replication) -> None:
        self._settings = settings
        self.me = settings.broker.node_id
        self.broker = settings.broker
        self.named = settings.named
        self.peers = peers
        self.replication = replication
        self.leaders = Leaders()
        self.network = Network(self.me, peers, self.leaders, settings.named)
        self.leadership = Leadership(self.network)
        self.asking = Asking(self.me, peers, self.leaders)
        self._owner: Owner
        self.controller: Controller
        self.moving: Moving
        self._formation: Formation
        self._governing: Governing
        self._upkeep: list[asyncio.Task[None]] = []

    def bind(self, owner: Owner) -> None:
        """Before anything else: whose metadata it is."""
        self._owner = owner
        self.controller = Controller(self.me, self.peers, owner)
        self.moving = Moving(self.network, self.leadership, self.controller, owner.partition_state)
        self._formation = Formation(self)
        self._governing = Governing(self)
        answers: dict[int, Handler] = {
            Call.HELLO: self._formation.on_hello,
            Call.LEADERS: self.network.on_leaders,
            Call.TRANSFER: self._on_transfer,
            Call.RECOVER: self._on_recover,
            Call.ASK: self.asking.on_ask,
            Call.APPEND: self.asking.on_append,
            Call.REACH: self.network.on_reach,
            Call.CONTROL: self.controller.on_call(Call.CONTROL),
            Call.FORWARD: self.controller.on_call(Call.FORWARD),
        }
        self.peers.on_call.update(answers)
        self.network.voters = self.metadata_voters
        for watcher in (owner, self.moving, self._governing):
            self.leadership.watch(watcher)

    # -- life ------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Come to a part of the metadata log: as it was, by founding the cluster, or by waiting to be taken in."""
        voters = await self._formation.first_voters()
        self.place(self._owner.log, voters)
        self._upkeep.append(asyncio.ensure_future(self._look_for_room()))
        if self._settings.rebalance_seconds:
            self._upkeep.append(asyncio.ensure_future(self._rebalance(self._settings.rebalance_seconds)))

    async def _look_for_room(self) -> None:
        """Also where nobody writes: a store that was full goes on when somebody asks it."""
        while True:
            await asyncio.sleep(LOOK_FOR_ROOM)
            try:
                self._owner.require_room()
            except KafkaError:
                self.moving.hand_over_for_room()

    async def _rebalance(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.moving.restore_preferred()

    async def join(self) -> None:
        await self._formation.join(self.broker)
        self._upkeep.append(asyncio.ensure_future(self._formation.stay()))

    async def close(self) -> None:
        self._governing.stop()
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        await self.moving.close()
        await self.network.close()

    async def hand_over(self) -> None:
        """This broker is about to stop: have others lead what it leads."""
        await self.moving.hand_over_all(HAND_OVER)

    # -- what the metadata says ------------------------------------------------------------------------------------
    def changed(self, gone: Sequence[NodeId] = (), moved: Sequence[LogId] = ()) -> None:
        """Committed metadata has changed."""
        image = self._owner.image
        self.network.follow(image.brokers, gone)
        if image.cluster_id and self.peers.cluster_id != image.cluster_id:
            self.peers.cluster_id = image.cluster_id
        for log_id in moved:
            self.moving.look(log_id)
        self._governing.look()
        self.network.look()

    def place(self, partition: Partition, voters: Sequence[NodeId]) -> Replica:
        replica = self.leadership.replica(partition.log_id)
        if replica is None:
            is_new = raft_states.load_hard(partition.store) is None
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
        if len(wanted.replicas) == 1 and raft_states.load_hard(partition.store) is None:
            self.leadership.own(partition)
        else:
            may_found = self.me in wanted.origin and self.image().may_found(
                self.me, self.broker.directory, partition.log_id
            )
            self.place(partition, wanted.origin if may_found else ())

    def leave(self, partition: Partition) -> None:
        """This broker has none of the partition's replicas any more."""
        if self.leadership.replica(partition.log_id) is not None:
            self.replication.detach(partition)
        self.leadership.drop(partition.log_id)

    # -- what others ask -------------------------------------------------------------------------------------------
    @property
    def metadata_log(self) -> Partition:
        return self._owner.log

    @property
    def is_kept(self) -> bool:
        """Whether the metadata log has had several replicas already, or could have had."""
        return raft_states.load_hard(self._owner.log.store) is not None

    @property
    def cluster_id(self) -> str:
        return self._owner.image.cluster_id

    def metadata_voters(self) -> Sequence[NodeId]:
        replica = self.leadership.replica(self._owner.log.log_id)
        return replica.voters if replica is not None else ()

    @property
    def has_metadata(self) -> bool:
        return self._owner.log.log_end_offset > 0

    def image(self) -> ClusterState:
        return self._owner.image

    def controller_id(self) -> NodeId | None:
        return self._owner.controller

    @property
    def heard_controller(self) -> NodeId | None:
        """As others say, while this broker has no part of the metadata log."""
        return self._formation.heard_controller

    async def drain(self) -> None:
        await self._owner.drain()

    async def hear_of(self, broker: Broker) -> None:
        """Wait until the metadata that this broker has knows of a broker."""
        if not await self.network.until(lambda: self.image().brokers.get(broker.node_id) == broker, REGISTERED_WITHIN):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "this broker has not heard of its registration yet")

    async def gathered(self) -> None:
        """Wait a little for those that the cluster is to consist of: what is made before they register has too few replicas,
        and nobody would notice until one of them is lost."""
        await self.network.until(lambda: self.named.keys() <= self.image().brokers.keys(), REGISTERED_WITHIN)

    # -- leaders ---------------------------------------------------------------------------------------------------
    async def transfer(self, log_id: LogId, to: NodeId) -> None:
        """Have a partition's leader give the lead to another replica. Raises KafkaError, PeerError."""
        led = self.leaders.of(log_id)
        if led is None or led.leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        body = log_id.key + to.to_bytes(4, "big")
        if led.leader == self.me:
            await self._on_transfer(self.me, memoryview(body))
        else:
            await self.peers.call(led.leader, Call.TRANSFER, [body], HAND_OVER)

    async def _on_transfer(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        log_id, to = LogId.of_key(bytes(body[:20])), NodeId(int.from_bytes(body[20:24], "big"))
        replica = self.leadership.replica(log_id)
        if replica is None or not replica.is_leading:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.transfer_leadership(to)
        return ()

    async def recover(self, log_id: LogId, replicas: Sequence[NodeId]) -> None:
        """Have a partition's replicas go on with what they have, though some of them have lost what they promised.

        Raises ELIGIBLE_LEADERS_NOT_AVAILABLE where none of them is in doubt, or too few of them are there.
        """
        told = await asyncio.gather(*(self._ask_recover(node, log_id, goes_on=False) for node in replicas))
        there = [node for node, answer in zip(replicas, told, strict=True) if answer is not None]
        if not any(told) or 2 * len(there) <= len(replicas):
            reason = f"{len(there)} of {len(replicas)} replicas are there, and a majority has to be"
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason if any(told) else "")
        await asyncio.gather(*(self._ask_recover(node, log_id, goes_on=True) for node in there))

    async def _ask_recover(self, node: NodeId, log_id: LogId, *, goes_on: bool) -> bool | None:
        """Whether the replica there is in doubt; None: it is not there."""
        body = log_id.key + bytes([goes_on])
        try:
            if node == self.me:
                answer: Sequence[Buffer] = await self._on_recover(self.me, memoryview(body))
            else:
                answer = [await self.peers.call(node, Call.RECOVER, [body], HAND_OVER)]
        except (KafkaError, PeerError):
            return None
        return any(bytes(part) == b"\1" for part in answer)

    async def _on_recover(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        replica = self.leadership.replica(LogId.of_key(bytes(body[:20])))
        if replica is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        is_in_doubt = replica.is_in_doubt
        if body[20]:
            replica.recover()
        return [bytes([is_in_doubt])]
