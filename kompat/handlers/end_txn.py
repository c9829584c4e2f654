"""EndTxn: commit or abort a producer's transaction.

Answered when the decision is committed; the markers follow. v5+ (transaction.version 2) carries back the id and epoch
for the next transaction.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.fencing import fenced_as
from kompat.protocol.messages import EndTxnRequest, EndTxnResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_WITH_EPOCH_BUMP = 5
NONE = -1


async def handle(ctx: Context, req: EndTxnRequest) -> EndTxnResponse:
    ctx.services.authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    bumping = ctx.api_version >= FIRST_VERSION_WITH_EPOCH_BUMP
    with fenced_as(ctx, FIRST_VERSION_WITH_FENCED):
        following = await ctx.services.transactions.end(
            req.transactional_id,
            Producer(req.producer_id, req.producer_epoch),
            commit=req.committed,
            client_version=2 if bumping else 0,
        )
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=following.id, producer_epoch=following.epoch)


def failure(_: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)


HANDLER = Handler(EndTxnRequest, EndTxnResponse, handle, failure)
