"""Finding the partition that a request names, as every handler that touches a log does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import leadership
from kompat.handlers.base import Context

if TYPE_CHECKING:
    from kompat.log.partition import Partition

UNKNOWN_EPOCH = -1


def find(ctx: Context, topic: str, index: int, current_leader_epoch: int = UNKNOWN_EPOCH) -> Partition:
    """The partition, led by this broker in the epoch the client believes in; else the error that tells it why not."""
    partition = ctx.services.logs.find(topic, index)
    if partition is None:
        raise leadership.wrong_broker(ctx, ctx.services.cluster.topic(topic), index)
    if current_leader_epoch not in (UNKNOWN_EPOCH, partition.leader_epoch):
        is_old = current_leader_epoch < partition.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
    leadership.require_leader(partition)
    return partition
