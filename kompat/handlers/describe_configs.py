"""DescribeConfigs (key 32, v1-4): the settings in force for topics, brokers, loggers, groups and metrics subscriptions.

A broker is asked by its id; no name asks for what has been changed for all brokers. `configuration_keys` null or empty
means all; keys that do not exist are left out. Synonyms and documentation come where they are asked for.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.describe import ConfigEntry
from kompat.cluster.state import Resource, ResourceType
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import loggers
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

LOGGER_SOURCE = 6  # DYNAMIC_BROKER_LOGGER_CONFIG
UNKNOWN_TYPE = 0

Asked: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
Entry: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym


def handle(ctx: Context, req: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_result(ctx, req, asked) for asked in req.resources])


def _result(ctx: Context, req: DescribeConfigsRequest, asked: Asked) -> Result:
    try:
        entries = _entries(ctx, req, asked)
    except KafkaError as error:
        return _failed(asked, error)
    keys = set(asked.configuration_keys or ())
    return Result(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[entry for entry in entries if not keys or entry.name in keys],
    )


def _entries(ctx: Context, req: DescribeConfigsRequest, asked: Asked) -> list[Entry]:
    if asked.resource_type not in set(ResourceType):
        raise _refused("")
    kind = ResourceType(asked.resource_type)
    if kind is ResourceType.BROKER_LOGGER:
        _check_node(ctx, asked.resource_name)
        return [_logger(name, level) for name, level in loggers.levels().items()]
    found = ctx.services.cluster.describe_configs(Resource(kind, asked.resource_name))
    return [_entry(entry, req) for entry in found]


def _check_node(ctx: Context, name: str) -> None:
    """Loggers are asked of the broker that has them."""
    if not name:
        raise _refused("Broker id must not be empty")
    if not (name.isascii() and name.isdigit()):
        raise _refused(f"Broker id must be an integer, but it is: {name}")
    if int(name) != ctx.services.node_id:
        raise _refused(f"Unexpected broker id, expected {ctx.services.node_id} but received {name}")


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _entry(entry: ConfigEntry, req: DescribeConfigsRequest) -> Entry:
    synonyms = entry.synonyms if req.include_synonyms else ()
    return Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[Synonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if req.include_documentation else None,
    )


def _logger(name: str, level: str) -> Entry:
    return Entry(
        name=name, value=level, config_source=LOGGER_SOURCE, synonyms=[], config_type=UNKNOWN_TYPE, documentation=""
    )


def _failed(asked: Asked, error: KafkaError) -> Result:
    return Result(
        error_code=error.code,
        # Kafka leaves the text out here, where admin clients have one of their own.
        error_message="" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else describe(error),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[],
    )


def failure(req: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_failed(asked, error) for asked in req.resources])


API = Api(
    key=32,
    name="DescribeConfigs",
    versions=Versions(1, 4),
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    handle=handle,
    failure=failure,
)
