"""InitProducerId: a unique producer id, for idempotent and transactional producers.

Without a transactional id every call gives a new id at epoch 0, whatever id and epoch (v3+) the producer had before:
that is how Kafka answers a producer that lost its state. With one, the producer that had it before is fenced; a transaction
that it left open is aborted first, and the client has to retry (CONCURRENT_TRANSACTIONS).
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.fencing import fenced_as
from kompat.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer

NONE = -1
FIRST_VERSION_WITH_FENCED = 4


async def handle(ctx: Context, req: InitProducerIdRequest) -> InitProducerIdResponse:
    _check_rights(ctx, req.transactional_id)
    if (req.producer_id == NONE) != (req.producer_epoch == NONE) or req.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    expected = Producer(req.producer_id, req.producer_epoch) if req.producer_id != NONE else None
    with fenced_as(ctx, FIRST_VERSION_WITH_FENCED):
        producer = await ctx.services.transactions.init_producer(
            req.transactional_id, req.transaction_timeout_ms, expected
        )
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer.id, producer_epoch=producer.epoch)


def _check_rights(ctx: Context, transactional_id: str | None) -> None:
    """A client that may write to some topic may do so idempotently."""
    authorizer = ctx.services.authorizer
    if transactional_id is not None:
        authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
    elif not authorizer.allows_any(ctx, Operation.WRITE, Kind.TOPIC):
        authorizer.require(ctx, Operation.IDEMPOTENT_WRITE, Kind.CLUSTER)


def failure(_: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)


HANDLER = Handler(InitProducerIdRequest, InitProducerIdResponse, handle, failure)
