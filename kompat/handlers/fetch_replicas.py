"""Fetching where a partition has several replicas: from which of them, and who is sent elsewhere (KIP-392, KIP-951).

A consumer that tells its rack is sent to a replica there, if `replica.selector.class` is Kafka's rack-aware one, and may read
from it as far as that knows things to be committed. Who asks a follower for more than it has is sent to the leader: to say
that the offset is out of range would make the consumer begin elsewhere. All others read from the leader alone: a follower,
and one that is about to lead, hears a little later what is committed, and the high watermark would fall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import leadership
from kompat.handlers.base import Context
from kompat.handlers.fetch_sessions import Wanted
from kompat.log.partition import Partition
from kompat.protocol.fetch import FetchResponse, PartitionResponse
from kompat.protocol.produce import CurrentLeader
from kompat.types import NodeId

if TYPE_CHECKING:
    from kompat.cluster.member import Member

FROM_FOLLOWERS = 11  # the first version that may read from them
WITH_LEADERS = 16
RACK_AWARE = "RackAwareReplicaSelector"
NONE = -1
_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Replicas:
    """Of the partitions that one request is for."""

    __slots__ = ("_ctx", "_leaders", "_member", "_rack")

    def __init__(self, ctx: Context, member: Member, rack: str) -> None:
        self._ctx = ctx
        self._member = member
        selector = ctx.services.config["replica.selector.class"] or ""
        self._rack = rack if selector.rpartition(".")[2] == RACK_AWARE else ""
        self._leaders: list[CurrentLeader] = []

    def check(self, partition: Partition, wanted: Wanted) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER where it cannot be read here."""
        if partition.replica is None or partition.replica.is_leading:
            return
        may_follow = self._rack and self._ctx.api_version >= FROM_FOLLOWERS
        if not may_follow or wanted.fetch_offset > partition.log_end_offset:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def preferred(self, partition: Partition, wanted: Wanted) -> int:
        """The replica that the consumer had better read from; -1: this one."""
        member = self._member
        replica = member.leadership.replica(partition.log_id) if self._rack else None
        if replica is None or not replica.is_leading or member.broker.rack == self._rack:
            return NONE
        progress = replica.progress()
        able = [
            (progress[node].log_end_offset, node)
            for node in replica.in_sync()
            if self._rack_of(node) == self._rack and progress[node].log_end_offset >= wanted.fetch_offset
        ]
        return max(able)[1] if able else NONE

    def _rack_of(self, node: NodeId) -> str | None:
        broker = self._ctx.services.cluster.brokers.get(node)
        return broker.rack if broker is not None and self._member.network.is_up(node) else None

    # -- answering -------------------------------------------------------------------------------------------------
    def point_out(self, wanted: Wanted, response: PartitionResponse) -> None:
        """Tell who leads, to somebody who asked the wrong broker."""
        if self._ctx.api_version >= WITH_LEADERS and response.error_code in _ELSEWHERE:
            leader = leadership.current_leader(self._ctx, wanted.topic, wanted.topic_id, wanted.index)
            if leader is not None:
                response.current_leader = leader
                self._leaders.append(leader)

    def tell_endpoints(self, response: FetchResponse) -> None:
        if self._leaders:
            response.node_endpoints = leadership.endpoints(self._ctx, self._leaders)


def replicas(ctx: Context, rack: str) -> Replicas | None:
    """None: this broker is alone."""
    member = ctx.services.cluster.member
    return Replicas(ctx, member, rack) if member is not None else None
