"""Finds the partition that a request names, for every handler that uses a log."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context
from kompat.types import ZERO_UUID

if TYPE_CHECKING:
    from kompat.log.partition import Partition

UNKNOWN_EPOCH = -1


def hosted(ctx: Context, name: str, topic_id: UUID, index: int) -> Partition:
    """The partition, by its topic's name where the id is zero, if there is a replica of it here, leader or not."""
    services = ctx.services
    if topic_id == ZERO_UUID:
        partition = services.logs.find(name, index)
        if partition is None:
            raise leadership.wrong_broker(ctx, services.cluster.topic(name), index)
        return partition
    partition = services.logs.find_by_id(topic_id, index)
    if partition is None:
        topic = services.cluster.topic_by_id(topic_id)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else leadership.wrong_broker(ctx, topic, index)
    return partition


def find(ctx: Context, topic: str, index: int, current_leader_epoch: int = UNKNOWN_EPOCH) -> Partition:
    """The partition, led by this broker in the epoch the client believes in; else raises the error for it."""
    partition = hosted(ctx, topic, ZERO_UUID, index)
    if current_leader_epoch not in (UNKNOWN_EPOCH, partition.leader_epoch):
        is_old = current_leader_epoch < partition.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
    leadership.require_leader(partition)
    return partition
