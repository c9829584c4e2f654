"""AlterConfigs: replace all settings that resources have of their own.

Superseded by IncrementalAlterConfigs, and unlike it never touches loggers.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.requests import ConfigReplacement
from kompat.cluster.state import Resource, ResourceType
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.config_rights import change_denied
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

ALTERABLE = frozenset(ResourceType) - {ResourceType.BROKER_LOGGER}

Requested: TypeAlias = AlterConfigsRequest.AlterConfigsResource
Result: TypeAlias = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(ctx: Context, req: AlterConfigsRequest) -> AlterConfigsResponse:
    refused = [_refusal(ctx, r) for r in req.resources]
    wanted = [r for r, error in zip(req.resources, refused, strict=True) if error is None]
    outcomes = iter(
        await ctx.services.cluster.alter_configs([_replacement(r) for r in wanted], validate_only=req.validate_only)
    )
    return AlterConfigsResponse(
        responses=[
            _result(r, next(outcomes) if error is None else error)
            for r, error in zip(req.resources, refused, strict=True)
        ]
    )


def _replacement(requested: Requested) -> ConfigReplacement:
    resource = Resource(ResourceType(requested.resource_type), requested.resource_name)
    return ConfigReplacement(resource, [(config.name, config.value) for config in requested.configs])


def _refusal(ctx: Context, requested: Requested) -> KafkaError | None:
    if requested.resource_type not in ALTERABLE:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {requested.resource_type}")
    return change_denied(ctx, requested)


def _result(requested: Requested, error: KafkaError | None) -> Result:
    return Result(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
    )


def failure(req: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_result(r, error) for r in req.resources])


HANDLER = Handler(
    AlterConfigsRequest,
    AlterConfigsResponse,
    handle,
    failure,
    parts=(Cut("resources", "responses", key=lambda each: (each.resource_type, each.resource_name), size=20),),
    is_for_controller=lambda _: True,
)
