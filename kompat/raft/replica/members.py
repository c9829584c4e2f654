"""Changing who belongs to a replica's group: learners first, then voters, all in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kompat.errors import ErrorCode, KafkaError
from kompat.raft.engine import ChangeKind, MembershipRefused, NotLeader
from kompat.raft.replica.log import not_leader
from kompat.types import NodeId

if TYPE_CHECKING:
    from kompat.raft.replica.replica import Replica
    from kompat.raft.replication import Replication

POLL_SECONDS = 0.05
BEHIND_AT_MOST = 64  # entries: what a learner may lack when it becomes a voter, so that commits do not wait for it


async def change_members(
    replica: Replica, broker: Replication, voters: Sequence[NodeId], learners: Sequence[NodeId]
) -> None:
    """See Replica.change_members."""
    wanted, kept = set(voters), {*voters, *learners}
    if not wanted:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition has a replica")
    await _until(replica, lambda: not replica.log.members.voters_outgoing)
    new = kept - {*replica.log.members.voters, *replica.log.members.learners}
    if new:
        await _change(replica, broker, [(ChangeKind.ADD_LEARNER, node) for node in sorted(new)])
    await _until(replica, lambda: all(_is_near(replica, node) for node in wanted - set(replica.voters)))
    if broker.node_id not in wanted:
        replica.transfer_leadership(_nearest(replica, wanted))
        await _until(replica, lambda: False)
    changes = [(ChangeKind.ADD_VOTER, node) for node in sorted(wanted - set(replica.voters))]
    changes += [(ChangeKind.ADD_LEARNER, node) for node in sorted(set(replica.voters) & kept - wanted)]
    changes += [(ChangeKind.REMOVE, node) for node in sorted({*replica.voters, *replica.learners} - kept)]
    if changes:
        await _change(replica, broker, changes)
    await _until(replica, lambda: set(replica.voters) == wanted and not replica.log.members.voters_outgoing)


async def _change(replica: Replica, broker: Replication, changes: Sequence[tuple[ChangeKind, int]]) -> None:
    is_joint = any(kind is not ChangeKind.ADD_LEARNER or node in replica.voters for kind, node in changes)
    try:
        index, _ = replica.group.propose_membership(changes, joint=is_joint)
    except NotLeader as error:
        raise not_leader(error.args[0]) from None
    except MembershipRefused as error:
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, str(error)) from error
    broker.pump(replica)  # now: an append in this turn has to come after it
    await _until(replica, lambda: replica.log.applied >= index)


async def _until(replica: Replica, condition: Callable[[], bool]) -> None:
    """Wait for it, as long as this broker leads in the same term."""
    epoch = replica.epoch
    while True:
        if not replica.is_leading or replica.epoch != epoch:
            raise not_leader("this broker has lost the leadership")
        if condition():
            return
        await asyncio.sleep(POLL_SECONDS)


def _is_near(replica: Replica, node: NodeId) -> bool:
    peer = next((peer for peer in replica.group.status().peers if peer.id == node), None)
    return peer is not None and peer.matched + BEHIND_AT_MOST >= replica.log.last and peer.matched > 0


def _nearest(replica: Replica, nodes: set[NodeId]) -> NodeId:
    voters = set(replica.voters)
    peers = [peer for peer in replica.group.status().peers if peer.id in nodes and peer.id in voters]
    if not peers:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "none of the new replicas can take the leadership yet")
    return NodeId(max(peers, key=lambda peer: peer.matched).id)
