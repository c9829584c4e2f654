"""Settings of topics, brokers and groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kompat.admin.problems import check, invalid
from kompat.admin.route import Call, Route
from kompat.admin.shapes import MOST_ITEMS, Answer, Body, Page, PageQuery, page
from kompat.cluster.state import ResourceType
from kompat.config.definitions import ConfigSource
from kompat.protocol.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kompat.types import NodeId

SET, DELETE = 0, 1

Names = Annotated[list[Annotated[str, Meta(max_length=249)]], Meta(max_length=MOST_ITEMS)]
BrokerId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Setting(Answer):
    name: str
    value: str | None  # null: sensitive, or not set
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


class ConfigsQuery(PageQuery):
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = MOST_ITEMS
    search: Annotated[str, Meta(max_length=249, description="only names that contain this text")] = ""


class BrokerConfigsQuery(ConfigsQuery):
    broker: Annotated[BrokerId, Meta(description="default: the broker that receives the request")] | None = None


class Changes(Body):
    set: dict[str, str] = msgspec.field(default_factory=dict)
    delete: Names = msgspec.field(default_factory=list)


class BrokerChanges(Changes):
    broker: Annotated[BrokerId, Meta(description="default: all brokers")] | None = None


async def _describe(call: Call, kind: ResourceType, name: str, to: NodeId | None = None) -> Page[Setting]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    response = await call.send(DescribeConfigsRequest(resources=[resource], include_documentation=True), to=to)
    result = response.results[0]
    check(result.error_code, result.error_message)
    search = getattr(call.query, "search", "")
    found = [
        Setting(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            source=ConfigSource(each.config_source).name,
            is_default=each.config_source == ConfigSource.DEFAULT_CONFIG,
            is_read_only=each.read_only,
            is_sensitive=each.is_sensitive,
            documentation=each.documentation,
        )
        for each in result.configs
        if search in each.name
    ]
    limit, cursor = getattr(call.query, "limit", MOST_ITEMS), getattr(call.query, "cursor", None)
    return await page(found, lambda each: each.name, limit, cursor)


async def _alter(call: Call, kind: ResourceType, name: str) -> None:
    body: Changes = call.body
    both = set(body.set) & set(body.delete)
    if both:
        raise invalid(f"{sorted(both)[0]} cannot be set and deleted in one request.")
    if not body.set and not body.delete:
        raise invalid("The request changes nothing: give `set` or `delete`.")
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [wanted.AlterableConfig(name=each, config_operation=SET, value=value) for each, value in body.set.items()]
    changes += [wanted.AlterableConfig(name=each, config_operation=DELETE, value=None) for each in body.delete]
    resource = wanted(resource_type=kind, resource_name=name, configs=changes)
    response = await call.send(IncrementalAlterConfigsRequest(resources=[resource]))
    outcome = response.responses[0]
    check(outcome.error_code, outcome.error_message)


async def of_topic(call: Call) -> Page[Setting]:
    return await _describe(call, ResourceType.TOPIC, call.path["topic"])


async def alter_topic(call: Call) -> Page[Setting]:
    await _alter(call, ResourceType.TOPIC, call.path["topic"])
    return await of_topic(call)


async def of_group(call: Call) -> Page[Setting]:
    return await _describe(call, ResourceType.GROUP, call.path["group"])


async def alter_group(call: Call) -> Page[Setting]:
    await _alter(call, ResourceType.GROUP, call.path["group"])
    return await of_group(call)


async def of_broker(call: Call) -> Page[Setting]:
    return await _of_broker(call, call.query.broker)


async def _of_broker(call: Call, broker: int | None) -> Page[Setting]:
    node = call.services.node_id if broker is None else NodeId(broker)
    if node not in call.services.cluster.brokers:
        check(102, f"Broker {node} does not exist.")
    return await _describe(call, ResourceType.BROKER, str(node), to=node)


async def alter_broker(call: Call) -> Page[Setting]:
    broker = call.body.broker
    if broker is not None and broker not in call.services.cluster.brokers:
        check(102, f"Broker {broker} does not exist.")
    await _alter(call, ResourceType.BROKER, "" if broker is None else str(broker))
    return await _of_broker(call, broker)


ROUTES = [
    Route(
        method="GET", path="/v1/topics/{topic}/configs", handle=of_topic, summary="Describe the configuration of a topic", tag="configs",
        query=ConfigsQuery, answer=Page[Setting],
    ),
    Route(
        method="PATCH", path="/v1/topics/{topic}/configs", handle=alter_topic, summary="Change the configuration of a topic",
        tag="configs", body=Changes, answer=Page[Setting],
    ),
    Route(
        method="GET", path="/v1/groups/{group}/configs", handle=of_group, summary="Describe the configuration of a group", tag="configs",
        query=ConfigsQuery, answer=Page[Setting],
    ),
    Route(
        method="PATCH", path="/v1/groups/{group}/configs", handle=alter_group, summary="Change the configuration of a group",
        tag="configs", body=Changes, answer=Page[Setting],
    ),
    Route(
        method="GET", path="/v1/cluster/configs", handle=of_broker, summary="Describe the configuration of a broker", tag="configs",
        query=BrokerConfigsQuery, answer=Page[Setting], problems=(404,),
    ),
    Route(
        method="PATCH", path="/v1/cluster/configs", handle=alter_broker, summary="Change the configuration of all brokers or of one broker",
        tag="configs", body=BrokerChanges, answer=Page[Setting], problems=(404,),
    ),
]  # fmt: skip
