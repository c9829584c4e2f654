"""UnregisterBroker: remove a broker's registration.

One that is still running registers again. Its partitions keep it as an offline replica: drain it first (`kompat.drain`).
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse
from kompat.security.acls import Kind, Operation
from kompat.types import NodeId


async def handle(ctx: Context, req: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    await ctx.services.cluster.unregister(NodeId(req.broker_id))
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)


def failure(_: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=describe(error))


HANDLER = Handler(
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    handle,
    failure,
    is_for_controller=lambda _: True,
)
