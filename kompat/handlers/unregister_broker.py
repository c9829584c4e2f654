"""UnregisterBroker (key 64, v0): forget a broker that has been taken out of the cluster.

One that is still there registers again. What it had replicas of keeps them, out of reach: drain it first (`kompat.drain`).
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse
from kompat.security.acls import Kind, Operation
from kompat.types import NodeId


async def handle(ctx: Context, req: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    await ctx.services.cluster.unregister(NodeId(req.broker_id))
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)


def failure(_: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=describe(error))


API = Api(
    key=64,
    name="UnregisterBroker",
    versions=Versions(0, 0),
    request=UnregisterBrokerRequest,
    response=UnregisterBrokerResponse,
    handle=handle,
    failure=failure,
    is_for_controller=lambda _: True,
)
