"""Topics: list, create, describe, add partitions, delete, delete records."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kompat.admin.fan_out import EARLIEST, LATEST, Place, by_leader, offsets, sizes, together
from kompat.admin.problems import check, invalid, missing
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page
from kompat.cluster.state import ResourceType
from kompat.common.slices import sliced
from kompat.config.definitions import ConfigSource
from kompat.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    MetadataRequest,
)
from kompat.types import NodeId

PATIENCE_MS = 30_000
QUEUE, ORDER = "kompat.queue.source", "kompat.delivery.order"

Name = Annotated[str, Meta(max_length=249, description="a-z A-Z 0-9 . _ -", examples=["orders"])]
Number = Annotated[int, Meta(ge=1, le=100_000)]
BrokerIds = Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 1)]], Meta(min_length=1, max_length=1000)]
Assignments = Annotated[
    list[BrokerIds], Meta(max_length=100_000, description="replicas (broker ids) of each partition")
]
Offset = Annotated[int, Meta(ge=-1, le=2**63 - 1)]


class TopicsQuery(PageQuery):
    search: Annotated[str, Meta(max_length=249, description="only names that contain this text")] = ""
    internal: Annotated[bool, Meta(description="also internal topics")] = False


class TopicSummary(Answer):
    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    under_replicated: int
    records: int | None  # offsets between the start and the end; null if a leader cannot be reached
    bytes: int | None
    is_queue: bool
    order: Literal["log", "priority"]


class Partition(Answer):
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]
    start_offset: int | None
    end_offset: int | None
    bytes: int | None


class Topic(Answer):
    name: str
    topic_id: str
    internal: bool
    is_queue: bool
    order: Literal["log", "priority"]
    configs: dict[str, str]
    partitions: list[Partition]


class NewTopic(Body):
    name: Name
    partitions: Number = 1
    replication_factor: Annotated[int, Meta(ge=-1, le=1000)] = -1
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    assignments: Assignments | None = None


class MorePartitions(Body):
    count: Number
    assignments: Assignments | None = None


class Truncation(Body):
    offsets: Annotated[
        dict[int, Offset], Meta(min_length=1, max_length=10_000, description="-1 for the high watermark")
    ]


class Truncated(Answer):
    low_watermarks: dict[int, int]


# -- list and describe -------------------------------------------------------------------------------------------------
async def list_topics(call: Call) -> Page[TopicSummary]:
    query = call.query
    response = await call.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    check(response.error_code)
    found = [t for t in response.topics if query.search in t.name and (query.internal or not t.is_internal)]
    chosen = await page(found, lambda topic: str(topic.name), query.limit, query.cursor)
    wanted = {topic.name: range(len(topic.partitions)) for topic in chosen.items}
    starts, ends, bytes_ = await together(
        (offsets(call, wanted, EARLIEST), offsets(call, wanted, LATEST), sizes(call, wanted))
    )
    records = {place: end - starts[place] for place, end in ends.items() if place in starts}
    items = [_summary(call, topic, records, bytes_) async for topic in sliced(chosen.items)]
    return Page(items=items, next_cursor=chosen.next_cursor)


def _summary(call: Call, topic: Any, records: dict[Place, int], bytes_: dict[Place, int]) -> TopicSummary:
    is_queue, order = _kind(call, topic.name)
    return TopicSummary(
        name=topic.name,
        topic_id=str(topic.topic_id),
        partitions=len(topic.partitions),
        replication_factor=max((len(p.replica_nodes) for p in topic.partitions), default=0),
        internal=topic.is_internal,
        under_replicated=sum(len(p.isr_nodes) < len(p.replica_nodes) for p in topic.partitions),
        records=_sum(topic, records),
        bytes=_sum(topic, bytes_),
        is_queue=is_queue,
        order=order,
    )


def _sum(topic: Any, found: dict[Place, int]) -> int | None:
    each = [found.get((topic.name, p.partition_index)) for p in topic.partitions]
    return None if None in each else sum(number for number in each if number is not None)


def _kind(call: Call, name: str) -> tuple[bool, Literal["log", "priority"]]:
    topic = call.services.cluster.topic(name)
    own = topic.configs if topic is not None else {}
    order = own.get(ORDER, call.services.config[ORDER])
    return bool(own.get(QUEUE)), "priority" if order == "priority" else "log"


async def described(call: Call, name: str) -> Any:
    """A topic from Metadata. Raises KafkaError if it does not exist, or if the caller may not see it."""
    requested = [MetadataRequest.MetadataRequestTopic(name=name)]
    response = await call.send(MetadataRequest(topics=requested, allow_auto_topic_creation=False))
    check(response.error_code)
    topic = response.topics[0]
    check(topic.error_code, f"Topic {name} does not exist." if topic.error_code == 3 else None)
    return topic


async def get_topic(call: Call) -> Topic:
    return await _topic(call, call.path["topic"])


async def _topic(call: Call, name: str) -> Topic:
    topic = await described(call, name)
    is_queue, order = _kind(call, name)
    return Topic(
        name=name,
        topic_id=str(topic.topic_id),
        internal=topic.is_internal,
        is_queue=is_queue,
        order=order,
        configs=await _own_configs(call, name),
        partitions=await _partitions(call, topic),
    )


async def _own_configs(call: Call, name: str) -> dict[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=None
    )
    response = await call.send(DescribeConfigsRequest(resources=[resource]))
    return {
        each.name: each.value or ""
        for each in response.results[0].configs
        if each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


async def _partitions(call: Call, topic: Any) -> list[Partition]:
    wanted = {topic.name: range(len(topic.partitions))}
    starts, ends, bytes_ = await together(
        (offsets(call, wanted, EARLIEST), offsets(call, wanted, LATEST), sizes(call, wanted))
    )
    found = []
    async for each in sliced(sorted(topic.partitions, key=lambda p: int(p.partition_index))):
        place = (topic.name, each.partition_index)
        found.append(
            Partition(
                partition=each.partition_index,
                leader=each.leader_id if each.leader_id >= 0 else None,
                leader_epoch=each.leader_epoch,
                replicas=list(each.replica_nodes),
                in_sync=list(each.isr_nodes),
                offline=list(each.offline_replicas),
                start_offset=starts.get(place),
                end_offset=ends.get(place),
                bytes=bytes_.get(place),
            )
        )
    return found


async def list_partitions(call: Call) -> Page[Partition]:
    found = await _partitions(call, await described(call, call.path["topic"]))
    return await page(found, lambda each: f"{each.partition:010}", call.query.limit, call.query.cursor)


# -- changes -----------------------------------------------------------------------------------------------------------
async def create_topic(call: Call) -> Topic:
    body: NewTopic = call.body
    wanted = CreateTopicsRequest.CreatableTopic
    is_assigned = body.assignments is not None
    topic = wanted(
        name=body.name,
        num_partitions=-1 if is_assigned else body.partitions,
        replication_factor=-1 if is_assigned else body.replication_factor,
        assignments=[
            wanted.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(body.assignments or ())
        ],
        configs=[wanted.CreatableTopicConfig(name=name, value=value) for name, value in body.configs.items()],
    )
    response = await call.send(CreateTopicsRequest(topics=[topic], timeout_ms=PATIENCE_MS))
    outcome = response.topics[0]
    check(outcome.error_code, outcome.error_message)
    return await _topic(call, body.name)


async def delete_topic(call: Call) -> None:
    topic = DeleteTopicsRequest.DeleteTopicState(name=call.path["topic"])
    response = await call.send(DeleteTopicsRequest(topics=[topic], timeout_ms=PATIENCE_MS))
    outcome = response.responses[0]
    check(outcome.error_code, outcome.error_message)


async def grow_topic(call: Call) -> Topic:
    body: MorePartitions = call.body
    wanted = CreatePartitionsRequest.CreatePartitionsTopic
    assignments = None
    if body.assignments is not None:
        assignments = [wanted.CreatePartitionsAssignment(broker_ids=list(each)) for each in body.assignments]
    topic = wanted(name=call.path["topic"], count=body.count, assignments=assignments)
    response = await call.send(CreatePartitionsRequest(topics=[topic], timeout_ms=PATIENCE_MS))
    outcome = response.results[0]
    check(outcome.error_code, outcome.error_message)
    return await _topic(call, call.path["topic"])


async def truncate(call: Call) -> Truncated:
    name, wanted = call.path["topic"], call.body.offsets
    topic = await described(call, name)
    beyond = [index for index in wanted if not 0 <= index < len(topic.partitions)]
    if beyond:
        raise missing(
            f"Partition {beyond[0]} of {name} does not exist: the topic has {len(topic.partitions)} partitions."
        )
    led = await by_leader(call, {name: wanted})
    if sum(len(each[name]) for each in led.values()) < len(wanted):
        raise invalid("A partition has no leader at the moment. Try again when GET /v1/topics/{topic} shows one.")
    responses = await together(_cut(call, node, name, each[name]) for node, each in led.items())
    found = [each for response in responses for topic in response.topics for each in topic.partitions]
    for each in found:
        check(each.error_code)
    return Truncated(low_watermarks={each.partition_index: each.low_watermark for each in found})


async def _cut(call: Call, node: NodeId, name: str, indexes: list[int]) -> Any:
    wanted = DeleteRecordsRequest.DeleteRecordsTopic
    offsets = call.body.offsets
    cuts = [wanted.DeleteRecordsPartition(partition_index=i, offset=offsets[i]) async for i in sliced(indexes)]
    topics = [wanted(name=name, partitions=cuts)]
    return await call.send(DeleteRecordsRequest(topics=topics, timeout_ms=PATIENCE_MS), to=node)


ROUTES = [
    Route(
        method="GET", path="/v1/topics", handle=list_topics, summary="List topics", tag="topics",
        query=TopicsQuery, answer=Page[TopicSummary],
    ),
    Route(
        method="POST", path="/v1/topics", handle=create_topic, summary="Create a topic", tag="topics",
        body=NewTopic, answer=Topic, status=201, problems=(409,),
        description="`replicationFactor` -1 takes the broker's default. `assignments` replaces both numbers with the replicas of each partition.",
    ),
    Route(
        method="GET", path="/v1/topics/{topic}", handle=get_topic, summary="Describe a topic and its partitions", tag="topics",
        answer=Topic,
    ),
    Route(
        method="DELETE", path="/v1/topics/{topic}", handle=delete_topic, summary="Delete a topic and its records",
        tag="topics", problems=(409,),
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/partitions", handle=list_partitions, summary="List a topic's partitions",
        tag="topics", query=PageQuery, answer=Page[Partition],
    ),
    Route(
        method="POST", path="/v1/topics/{topic}/partitions", handle=grow_topic, summary="Add partitions to a topic",
        tag="topics", body=MorePartitions, answer=Topic, problems=(409,),
        description="`count` is the new number of partitions. Keys are mapped to other partitions afterwards.",
    ),
    Route(
        method="POST", path="/v1/topics/{topic}/truncate", handle=truncate, summary="Delete the records before an offset",
        tag="topics", body=Truncation, answer=Truncated,
    ),
]  # fmt: skip
