"""The leaders of partitions, for metadata responses and for clients that have to be redirected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.addresses import endpoint_of
from kompat.handlers.support.base import Context
from kompat.protocol.produce import CurrentLeader, NodeEndpoint
from kompat.types import LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.local_broker import LocalBroker
    from kompat.cluster.service import PartitionState, Topic
    from kompat.log.partition import Partition

NOBODY = -1
FIRST_EPOCH = 0  # of a partition that has not had an election here


@dataclass(slots=True)  # not frozen: one is made for every partition of an answer
class Described:
    """A partition as it is in responses."""

    index: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()

    @property
    def error_code(self) -> ErrorCode:
        return ErrorCode.NONE if self.leader != NOBODY else ErrorCode.LEADER_NOT_AVAILABLE


def describe(ctx: Context, topic: Topic, partitions: Iterable[PartitionState]) -> list[Described]:
    local = ctx.services.cluster.local
    return [_described(local, topic, state) for state in partitions]


def _described(local: LocalBroker, topic: Topic, state: PartitionState) -> Described:
    led = local.leaders.of(LogId(topic.id, state.index))
    offline = [node for node in state.replicas if not local.network.is_up(node)]
    if led is None:
        return Described(state.index, NOBODY, FIRST_EPOCH, state.replicas, (), offline)
    leader = NOBODY if led.leader is None else led.leader
    in_sync = [node for node in state.replicas if node in led.in_sync and node not in offline]
    return Described(state.index, leader, led.epoch, state.replicas, in_sync, offline)


def wrong_broker(ctx: Context, topic: Topic | None, index: int) -> KafkaError:
    """The error for a partition without a replica on this broker."""
    if topic is not None and 0 <= index < len(topic.partitions):
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def require_leader(partition: Partition) -> None:
    if not partition.is_led:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def current_leader(ctx: Context, name: str, topic_id: UUID, index: int) -> CurrentLeader | None:
    """Who leads instead, as far as this broker knows."""
    cluster = ctx.services.cluster
    topic = cluster.topic(name) if name else cluster.topic_by_id(topic_id)
    led = cluster.local.leaders.of(LogId(topic.id, index)) if topic is not None else None
    if led is None or led.leader in (None, ctx.services.node_id):  # it was this one until a moment ago
        return None
    return CurrentLeader(led.leader, led.epoch)


def endpoints(ctx: Context, leaders: Iterable[CurrentLeader]) -> list[NodeEndpoint]:
    """Where they are found."""
    found = (endpoint_of(ctx, NodeId(node)) for node in dict.fromkeys(leader.leader_id for leader in leaders))
    return [NodeEndpoint(each.node_id, each.host, each.port, each.rack) for each in found if each is not None]
