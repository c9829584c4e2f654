"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append to or subtract from single settings of resources.

Each resource is changed as a whole or not at all. Loggers (BROKER_LOGGER) are this broker's own and take their new
level at once; all other settings are the cluster's.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.requests import ConfigChange, ConfigOp
from kompat.cluster.state import Resource, ResourceType
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import loggers
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.config_rights import change_denied
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

OF_CLUSTER = frozenset(ResourceType) - {ResourceType.BROKER_LOGGER}

Asked: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
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


def _change(asked: Asked) -> ConfigChange:
    resource = Resource(ResourceType(asked.resource_type), asked.resource_name)
    return ConfigChange(resource, [(c.name, c.config_operation, c.value) for c in asked.configs])


def _alter_here(ctx: Context, asked: Asked, validate_only: bool) -> KafkaError | None:
    """What is no matter of the cluster: loggers, and what does not exist."""
    try:
        if asked.resource_type != ResourceType.BROKER_LOGGER:
            raise _refused(f"Unknown resource type {asked.resource_type}")
        _check_node(ctx, asked.resource_name)
        _check_keys(asked)
        for config in asked.configs:
            loggers.check(config.name, config.config_operation, config.value)
    except KafkaError as error:
        return error
    if not validate_only:
        for config in asked.configs:
            loggers.change(config.name, config.config_operation, config.value)
    return None


def _check_node(ctx: Context, name: str) -> None:
    if not (name.isascii() and name.isdigit()):
        raise _refused(f"Node id must be an integer, but it is: {name}")
    if int(name) != ctx.services.node_id:
        raise _refused(f"Unexpected node id. Expected {ctx.services.node_id}, but received {name}")


def _check_keys(asked: Asked) -> None:
    if len({config.name for config in asked.configs}) < len(asked.configs):
        raise _refused("Error due to duplicate config keys")
    missing = [c.name for c in asked.configs if c.value is None and c.config_operation != ConfigOp.DELETE]
    if missing:
        raise _refused(f"Null value not supported for : {','.join(missing)}")


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _result(asked: Asked, error: KafkaError | None) -> Result:
    return Result(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def failure(req: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_result(r, error) for r in req.resources])


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=Versions(0, 1),
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("resources", "responses", key=lambda each: (each.resource_type, each.resource_name), size=20),),
    is_for_controller=lambda req: all(r.resource_type in OF_CLUSTER for r in req.resources),
)
