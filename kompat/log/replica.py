"""A partition's replica, for the layers above: who leads, who is in sync, who belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kompat.errors import DamagedBatch, ErrorCode, KafkaError
from kompat.log.caught_up import CaughtUp
from kompat.log.commit import Pending, all_of
from kompat.log.partition import Partition
from kompat.log.replica_host import Host
from kompat.log.replica_log import not_leader
from kompat.log.replica_spread import Spread
from kompat.log.replica_trust import TrustedReplica
from kompat.raft.engine import ChangeKind, MembershipRefused, NotLeader, PeerProgress, RaftError, Role
from kompat.types import Millis, NodeId, Offset, RaftIndex

__all__ = ["Replica", "ReplicaProgress", "Role"]

POLL_SECONDS = 0.05
BEHIND_AT_MOST = 64  # entries: what a learner may lack when it becomes a voter, so that nobody waits for it
LOOK_EVERY = 100  # milliseconds between two looks at the followers, where somebody asks


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far the leader knows a replica to be."""

    index: RaftIndex
    log_end_offset: Offset
    lag: int  # in entries
    last_caught_up: Millis  # by the wall clock; -1: never
    is_up: bool


class Replica(TrustedReplica):
    def __init__(self, partition: Partition, host: Host, voters: Sequence[NodeId]) -> None:
        self._caught_up = CaughtUp()
        self._spread = Spread()
        self._in_sync: list[NodeId] = []
        self._looked = Millis(0)
        super().__init__(partition, host, voters)
        partition.replica = self

    # -- members ---------------------------------------------------------------------------------------------------
    @property
    def voters(self) -> Sequence[NodeId]:
        """While they change, those from before and those to come: both are needed."""
        members = self.log.members
        return [NodeId(node) for node in sorted({*members.voters, *members.voters_outgoing})]

    @property
    def learners(self) -> Sequence[NodeId]:
        return [NodeId(node) for node in self.log.members.learners]

    async def change_members(self, voters: Sequence[NodeId], learners: Sequence[NodeId] = ()) -> None:
        """Have these voters and no others; who is new catches up first. Only on the leader, and again after it has failed.

        `learners` have the log as well, without a vote. Where this broker itself is to leave, it hands the leadership over first: NOT_LEADER_OR_FOLLOWER, ask the next.
        """
        wanted, kept = set(voters), {*voters, *learners}
        if not wanted:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition has a replica")
        await self._until(lambda: not self.log.members.voters_outgoing)
        new = kept - {*self.log.members.voters, *self.log.members.learners}
        if new:
            await self._change([(ChangeKind.ADD_LEARNER, node) for node in sorted(new)])
        await self._until(lambda: all(self._is_near(node) for node in wanted - set(self.voters)))
        if self._host.node_id not in wanted:
            self.transfer_leadership(self._nearest(wanted))
            await self._until(lambda: False)
        changes = [(ChangeKind.ADD_VOTER, node) for node in sorted(wanted - set(self.voters))]
        changes += [(ChangeKind.ADD_LEARNER, node) for node in sorted(set(self.voters) & kept - wanted)]
        changes += [(ChangeKind.REMOVE, node) for node in sorted({*self.voters, *self.learners} - kept)]
        if changes:
            await self._change(changes)
        await self._until(lambda: set(self.voters) == wanted and not self.log.members.voters_outgoing)

    async def _change(self, changes: Sequence[tuple[ChangeKind, int]]) -> None:
        is_joint = any(kind is not ChangeKind.ADD_LEARNER or node in self.voters for kind, node in changes)
        try:
            index, _ = self.group.propose_membership(changes, joint=is_joint)
        except NotLeader as error:
            raise not_leader(error.args[0]) from None
        except MembershipRefused as error:
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, str(error)) from error
        self._host.pump(self)  # now: an append in this turn has to come after it
        await self._until(lambda: self.log.applied >= index)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for it, as long as this broker leads in the same term."""
        epoch = self.epoch
        while True:
            if not self.is_leading or self.epoch != epoch:
                raise not_leader("this broker has lost the leadership")
            if condition():
                return
            await asyncio.sleep(POLL_SECONDS)

    def _is_near(self, node: NodeId) -> bool:
        peer = next((peer for peer in self.group.status().peers if peer.id == node), None)
        return peer is not None and peer.matched + BEHIND_AT_MOST >= self.log.last and peer.matched > 0

    def _nearest(self, nodes: set[NodeId]) -> NodeId:
        voters = set(self.voters)
        peers = [peer for peer in self.group.status().peers if peer.id in nodes and peer.id in voters]
        if not peers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "none of the new replicas can take the leadership yet"
            )
        return NodeId(max(peers, key=lambda peer: peer.matched).id)

    # -- leading ---------------------------------------------------------------------------------------------------
    def transfer_leadership(self, to: NodeId) -> None:
        """Have another voter lead. Appends are refused meanwhile; should it not work out, they go on here."""
        try:
            self.group.transfer_leadership(to)
        except NotLeader as error:
            raise not_leader(error.args[0]) from None
        except RaftError as error:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, str(error)) from error
        self._host.wake(self)

    def peer_lost(self, node: NodeId) -> None:
        """The link to the leader is gone. The voter that comes first tries at once, the others if that leads to nothing."""
        others = [voter for voter in self.voters if voter != node]
        if self._host.node_id in others:
            self._host.campaign_later(self, others.index(self._host.node_id))

    def peer_has_lost(self, node: NodeId) -> None:
        """A follower's disk has lost what it had acknowledged: its word does not count any more."""
        if self.group.is_leader:
            self.group.reset_peer(node)
            self._host.wake(self)

    async def mend(self, damage: DamagedBatch) -> None:
        await self._host.mend(self, damage)

    # -- in sync ---------------------------------------------------------------------------------------------------
    def look_at_followers(self, now: Millis) -> None:
        """Only on the leader."""
        last = self.log.last
        voters = set(self.log.members.voters)
        limit = now - self._host.lag_ms
        in_sync = []
        for peer in self.group.status().peers:
            node = NodeId(peer.id)
            is_up = node == self._host.node_id or self._host.is_up(node)
            if is_up:
                self._caught_up.look(node, self._matched(peer), last, now)
            if is_up and node in voters and (self._caught_up.at(node) or limit - 1) >= limit:
                in_sync.append(node)
        self._looked = now
        if in_sync != self._in_sync:
            self._in_sync = in_sync
            self._host.members_changed(self)
        if self._spread.is_awaited:
            self._look_at_spread()

    def _matched(self, peer: PeerProgress) -> RaftIndex:
        return self.log.last if peer.id == self._host.node_id else RaftIndex(peer.matched)

    def in_sync(self) -> Sequence[NodeId]:
        """The voters that have had all of the log within replica.lag.time.max.ms. Only on the leader."""
        now = self._host.now()
        if now - self._looked >= LOOK_EVERY:
            self.look_at_followers(now)
        return self._in_sync

    def require_in_sync(self) -> None:
        """Raises NOT_ENOUGH_REPLICAS where fewer are in sync than the topic's min.insync.replicas."""
        if not self.is_leading:
            raise not_leader("")  # knows of nobody in sync; clients have to look for the new leader
        least = self.partition.config.min_insync_replicas
        if least > 1 and len(self.in_sync()) < least:
            reason = f"{len(self.in_sync())} replicas are in sync, and {least} have to be"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)

    def spread(self, committed: Pending) -> Pending:
        least = self.partition.config.min_insync_replicas
        if 2 * least <= len(self.log.members.voters) + 2:
            return committed  # a majority is as many
        return all_of([committed, self._spread.wait(self.log.last)])

    def pump(self) -> None:
        super().pump()
        if self._spread.is_awaited:
            self._look_at_spread()

    def _look_at_spread(self) -> None:
        least, voters = self.partition.config.min_insync_replicas, set(self.voters)
        matched = [self._matched(peer) for peer in self.group.status().peers if peer.id in voters]
        if least <= len(matched):
            self._spread.reached(sorted(matched, reverse=True)[least - 1])
        if len(self._in_sync) < least:
            reason = f"{len(self._in_sync)} replicas are in sync, and {least} have to be"
            self._spread.give_up(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, reason))

    def _resign(self, reason: str) -> None:
        super()._resign(reason)
        self._spread.give_up(not_leader(reason))

    def _began_to_lead(self) -> None:
        now = self._host.now()
        self._caught_up.begin([NodeId(peer.id) for peer in self.group.status().peers], now)
        self.look_at_followers(now)

    def progress(self) -> Mapping[NodeId, ReplicaProgress]:
        """Of every member, this one too. Only on the leader."""
        last, found = self.log.last, {}
        set_back = self._host.wall_time() - self._host.now()
        for peer in self.group.status().peers:
            node, matched = NodeId(peer.id), self._matched(peer)
            caught_up = self._caught_up.at(node)
            found[node] = ReplicaProgress(
                matched,
                self._offset_after(matched),
                last - matched,
                Millis(caught_up + set_back) if caught_up is not None else Millis(-1),
                node == self._host.node_id or self._host.is_up(node),
            )
        return found

    def _offset_after(self, index: RaftIndex) -> Offset:
        if index >= self.log.last:
            return self.partition.log_end_offset
        entry = next(self.partition.store.entries(index), None)
        if entry is None or entry.index != index:  # long gone
            return Offset(0) if index < self.log.applied else self.partition.high_watermark
        return Offset(entry.last_offset + 1)
