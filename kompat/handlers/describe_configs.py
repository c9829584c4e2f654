"""DescribeConfigs: the settings in force for topics, brokers, loggers, groups and metrics subscriptions.

A broker is named by its id; an empty name stands for the dynamic defaults of all brokers. `configuration_keys` null or empty
means all; keys that do not exist are left out. Synonyms and documentation are included on request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeAlias

from kompat.cluster.describe import ConfigEntry
from kompat.cluster.state import Resource, ResourceType
from kompat.config.definitions import ConfigSource
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import loggers
from kompat.handlers.support.addresses import this_broker
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.config_rights import denied
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from kompat.security.acls import Operation

LOGGER_SOURCE = 6  # DYNAMIC_BROKER_LOGGER_CONFIG
UNKNOWN_TYPE = 0
KINDS = frozenset(ResourceType)
AT_A_TIME = 20  # resources
ADVERTISED = "advertised.listeners"

Requested: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
Entry: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym


def handle(ctx: Context, req: DescribeConfigsRequest) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    describer = _Describer(ctx, req)
    if len(req.resources) > AT_A_TIME:
        return _all(describer, req)
    return DescribeConfigsResponse(results=[describer.result(requested) for requested in req.resources])


async def _all(describer: _Describer, req: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Tools describe all topics in one request: other requests get their turn in between."""
    results = []
    for count, requested in enumerate(req.resources, 1):
        results.append(describer.result(requested))
        if count % AT_A_TIME == 0:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


class _Describer:
    """Describes the resources of one request. Topics with the same settings of their own, mostly none, share the work."""

    def __init__(self, ctx: Context, req: DescribeConfigsRequest) -> None:
        self._ctx = ctx
        self._req = req
        self._of_topics: dict[tuple[tuple[str, str], ...], list[Entry]] = {}

    def result(self, requested: Requested) -> Result:
        try:
            entries = self._entries(requested)
        except KafkaError as error:
            return _failed(requested, error)
        keys = set(requested.configuration_keys or ())
        return Result(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=requested.resource_type,
            resource_name=requested.resource_name,
            configs=[entry for entry in entries if entry.name in keys] if keys else entries,
        )

    def _entries(self, requested: Requested) -> list[Entry]:
        if requested.resource_type not in KINDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        error = denied(self._ctx, Operation.DESCRIBE_CONFIGS, requested.resource_type, requested.resource_name)
        if error is not None:
            raise error
        resource = Resource(ResourceType(requested.resource_type), requested.resource_name)
        if resource.type is ResourceType.BROKER_LOGGER:
            _check_node(self._ctx, resource.name)
            return [_logger(name, level) for name, level in loggers.levels().items()]
        topic = self._ctx.services.cluster.topic(resource.name) if resource.type is ResourceType.TOPIC else None
        if topic is None:
            entries = self._describe(resource)
            return (
                [_in_force(self._ctx, entry) for entry in entries] if resource.type is ResourceType.BROKER else entries
            )
        own = tuple(sorted(topic.configs.items()))
        if own not in self._of_topics:
            self._of_topics[own] = self._describe(resource)
        return self._of_topics[own]

    def _describe(self, resource: Resource) -> list[Entry]:
        return [_entry(entry, self._req) for entry in self._ctx.services.cluster.describe_configs(resource)]


def _in_force(ctx: Context, entry: Entry) -> Entry:
    """A broker that was started without `advertised.listeners` has an address all the same, which tools look for here."""
    if entry.name == ADVERTISED and entry.config_source == ConfigSource.DEFAULT_CONFIG:
        here = this_broker(ctx)
        entry.value = f"{ctx.listener or ctx.services.config.listener.name}://{here.host}:{here.port}"
        entry.config_source = ConfigSource.STATIC_BROKER_CONFIG
    return entry


def _check_node(ctx: Context, name: str) -> None:
    """Loggers belong to one broker, which has to be this one."""
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


def _failed(requested: Requested, error: KafkaError) -> Result:
    return Result(
        error_code=error.code,
        # Kafka leaves the text out here, where admin clients have one of their own.
        error_message="" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else describe(error),
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
        configs=[],
    )


def failure(req: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_failed(requested, error) for requested in req.resources])


HANDLER = Handler(
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    handle,
    failure,
    parts=(Cut("resources", "results", size=20),),
)
