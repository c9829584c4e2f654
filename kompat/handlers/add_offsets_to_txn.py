"""AddOffsetsToTxn (key 25, v0-4): make a group's offsets part of a producer's transaction.

What is added is the partition of `__consumer_offsets` that the group lives in, whichever broker leads that. Clients that
speak transaction.version 2 do not ask: TxnOffsetCommit adds it for them.
"""

from __future__ import annotations

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.fencing import fenced_as
from kompat.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer
from kompat.types import TopicPartition

FIRST_VERSION_WITH_FENCED = 2
OLD_CLIENT = 0


async def handle(ctx: Context, req: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    ctx.services.authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    home = TopicPartition(CONSUMER_OFFSETS, await ctx.services.groups.home_of(req.group_id))
    producer = Producer(req.producer_id, req.producer_epoch)
    with fenced_as(ctx, FIRST_VERSION_WITH_FENCED):
        await ctx.services.transactions.add_partitions(
            req.transactional_id, producer, [home], client_version=OLD_CLIENT
        )
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


def failure(_: AddOffsetsToTxnRequest, error: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions=Versions(0, 4),
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    handle=handle,
    failure=failure,
)
