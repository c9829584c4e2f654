"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings of resources.

Each resource is changed as a whole or not at all. Loggers (BROKER_LOGGER) are this broker's own and take their new
level at once; all other settings are the cluster's.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.requests import ConfigChange, ConfigOp
from kompat.cluster.state import Resource, ResourceType
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import loggers
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.config_rights import change_denied
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

OF_CLUSTER = frozenset(ResourceType) - {ResourceType.BROKER_LOGGER}

Requested: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
Result: TypeAlias = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(ctx: Context, req: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    refused = [change_denied(ctx, r) for r in req.resources]
    of_cluster = [
        r for r, error in zip(req.resources, refused, strict=True) if error is None and r.resource_type in OF_CLUSTER
    ]
    outcomes = iter(
        await ctx.services.cluster.alter_configs([_change(r) for r in of_cluster], validate_only=req.validate_only)
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            _result(r, error)
            if error is not None
            else _result(r, next(outcomes) if r.resource_type in OF_CLUSTER else _alter_here(ctx, r, req.validate_only))
            for r, error in zip(req.resources, refused, strict=True)
        ]
    )


def _change(requested: Requested) -> ConfigChange:
    resource = Resource(ResourceType(requested.resource_type), requested.resource_name)
    return ConfigChange(resource, [(c.name, c.config_operation, c.value) for c in requested.configs])


def _alter_here(ctx: Context, requested: Requested, validate_only: bool) -> KafkaError | None:
    """What is no matter of the cluster: loggers, and what does not exist."""
    try:
        if requested.resource_type != ResourceType.BROKER_LOGGER:
            raise _refused(f"Unknown resource type {requested.resource_type}")
        _check_node(ctx, requested.resource_name)
        _check_keys(requested)
        for config in requested.configs:
            loggers.check(config.name, config.config_operation, config.value)
    except KafkaError as error:
        return error
    if not validate_only:
        for config in requested.configs:
            loggers.change(config.name, config.config_operation, config.value)
    return None


def _check_node(ctx: Context, name: str) -> None:
    if not (name.isascii() and name.isdigit()):
        raise _refused(f"Node id must be an integer, but it is: {name}")
    if int(name) != ctx.services.node_id:
        raise _refused(f"Unexpected node id. Expected {ctx.services.node_id}, but received {name}")


def _check_keys(requested: Requested) -> None:
    if len({config.name for config in requested.configs}) < len(requested.configs):
        raise _refused("Error due to duplicate config keys")
    missing = [c.name for c in requested.configs if c.value is None and c.config_operation != ConfigOp.DELETE]
    if missing:
        raise _refused(f"Null value not supported for : {','.join(missing)}")


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _result(requested: Requested, error: KafkaError | None) -> Result:
    return Result(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
    )


def failure(req: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_result(r, error) for r in req.resources])


HANDLER = Handler(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    handle,
    failure,
    parts=(Cut("resources", "responses", key=lambda each: (each.resource_type, each.resource_name), size=20),),
    is_for_controller=lambda req: all(r.resource_type in OF_CLUSTER for r in req.resources),
)
