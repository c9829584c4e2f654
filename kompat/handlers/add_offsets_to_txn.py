"""AddOffsetsToTxn: make a group's offsets part of a producer's transaction.

What is added is the group's partition of `__consumer_offsets`, whichever broker leads it. Clients with transaction.version 2
do not send this request: TxnOffsetCommit adds the partition for them.
"""

from __future__ import annotations

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.fencing import fenced_as
from kompat.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer
from kompat.types import TopicPartition

FIRST_VERSION_WITH_FENCED = 2
OLD_CLIENT = 0


async def handle(ctx: Context, req: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    ctx.services.authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    partition = TopicPartition(CONSUMER_OFFSETS, await ctx.services.groups.partition_of(req.group_id))
    producer = Producer(req.producer_id, req.producer_epoch)
    with fenced_as(ctx, FIRST_VERSION_WITH_FENCED):
        await ctx.services.transactions.add_partitions(
            req.transactional_id, producer, [partition], client_version=OLD_CLIENT
        )
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


def failure(_: AddOffsetsToTxnRequest, error: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)


HANDLER = Handler(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, handle, failure)
