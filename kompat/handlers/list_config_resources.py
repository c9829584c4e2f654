"""ListConfigResources: the names of everything that has, or may have, settings.

v0 was ListClientMetricsResources and has no other type; in v1 an empty list means all types.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.state import ResourceType
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.addresses import brokers
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from kompat.security.acls import Kind, Operation

Found: TypeAlias = ListConfigResourcesResponse.ConfigResource


async def handle(ctx: Context, req: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE_CONFIGS, Kind.CLUSTER)
    if ctx.api_version == 0:
        kinds = [ResourceType.CLIENT_METRICS]
    elif not req.resource_types:
        kinds = list(ResourceType)
    elif set(req.resource_types) <= set(ResourceType):
        kinds = [ResourceType(kind) for kind in req.resource_types]
    else:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    found = [
        Found(resource_name=resource.name, resource_type=resource.type)
        async for resource in sliced(ctx.services.cluster.config_resources(kinds))
    ]
    if ResourceType.BROKER_LOGGER in kinds:
        kind = ResourceType.BROKER_LOGGER
        found += [Found(resource_name=str(broker.node_id), resource_type=kind) for broker in brokers(ctx)]
    return ListConfigResourcesResponse(config_resources=found)


def failure(_: ListConfigResourcesRequest, error: KafkaError) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error.code, config_resources=[])


HANDLER = Handler(ListConfigResourcesRequest, ListConfigResourcesResponse, handle, failure)
