"""InitProducerId (key 22, v0-5): a producer id that nobody else has, for idempotent and transactional producers.

Without a transactional id every call gives a new id at epoch 0, whatever id and epoch (v3+) the producer had before:
that is how Kafka answers a producer that lost its place.
Not implemented: transactional ids. They are answered COORDINATOR_NOT_AVAILABLE, after the checks of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

NONE = -1
FIRST_EPOCH = 0


def handle(ctx: Context, req: InitProducerIdRequest) -> Awaitable[InitProducerIdResponse]:
    if (req.producer_id == NONE) != (req.producer_epoch == NONE) or req.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if req.transactional_id is not None:
        return _transactional(ctx, req)
    return _idempotent(ctx)


async def _idempotent(ctx: Context) -> InitProducerIdResponse:
    producer_id = await ctx.services.cluster.next_producer_id()
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH)


async def _transactional(ctx: Context, req: InitProducerIdRequest) -> InitProducerIdResponse:
    if not 0 < req.transaction_timeout_ms <= ctx.services.config["transaction.max.timeout.ms"]:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def failure(_: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)


API = Api(
    key=22,
    name="InitProducerId",
    versions=Versions(0, 5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    handle=handle,
    failure=failure,
)
