"""Chooses the replica that a consumer fetches from, and redirects it there (KIP-392, KIP-951).

A consumer that sends its rack is redirected to a replica in it, if `replica.selector.class` is Kafka's rack-aware one, and may
read from it up to its high watermark. A consumer that requests an offset above that is redirected to the leader:
OFFSET_OUT_OF_RANGE would make it reset its position. All others read from the leader alone: a follower, or a replica that is
about to lead, learns a little later what is committed, and the high watermark would fall.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context
from kompat.handlers.support.fetch_sessions import Wanted
from kompat.log.partition import Partition
from kompat.protocol.fetch import FetchResponse, PartitionResponse
from kompat.protocol.produce import CurrentLeader
from kompat.types import NodeId

FROM_FOLLOWERS = 11  # the first version that may read from them
WITH_LEADERS = 16
RACK_AWARE = "RackAwareReplicaSelector"
NONE = -1
_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Replicas:
    """Of the partitions that one request is for."""

    __slots__ = ("_ctx", "_leaders", "_local", "_rack")

    def __init__(self, ctx: Context, rack: str) -> None:
        self._ctx = ctx
        self._local = ctx.services.cluster.local
        selector = (ctx.services.config["replica.selector.class"] or "") if rack else ""
        self._rack = rack if selector.rpartition(".")[2] == RACK_AWARE else ""
        self._leaders: list[CurrentLeader] = []

    def check(self, partition: Partition, wanted: Wanted) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER where it cannot be read here."""
        if partition.is_led:
            return
        may_follow = self._rack and self._ctx.api_version >= FROM_FOLLOWERS
        if not may_follow or wanted.fetch_offset > partition.log_end_offset:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def preferred(self, partition: Partition, wanted: Wanted) -> int:
        """The replica that the consumer had better read from; -1: this one."""
        replica = self._local.leadership.replica(partition.log_id) if self._rack else None
        if replica is None or not replica.is_leading or self._local.broker.rack == self._rack:
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
        return broker.rack if broker is not None and self._local.network.is_up(node) else None

    # -- answering -------------------------------------------------------------------------------------------------
    def point_out(self, wanted: Wanted, response: PartitionResponse) -> None:
        """Add the current leader, where this broker does not lead."""
        if self._ctx.api_version >= WITH_LEADERS and response.error_code in _WRONG_LEADER:
            leader = leadership.current_leader(self._ctx, wanted.topic, wanted.topic_id, wanted.index)
            if leader is not None:
                response.current_leader = leader
                self._leaders.append(leader)

    def tell_endpoints(self, response: FetchResponse) -> None:
        if self._leaders:
            response.node_endpoints = leadership.endpoints(self._ctx, self._leaders)


def replicas(ctx: Context, rack: str) -> Replicas:
    return Replicas(ctx, rack)
