"""Questions that several brokers have to answer together: each is asked for its part, all at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar

from kompat.admin.route import Call
from kompat.errors import ErrorCode
from kompat.protocol.messages import DescribeLogDirsRequest, ListOffsetsRequest
from kompat.types import LogId, NodeId

LATEST, EARLIEST = -1, -2
# Not a consumer: what is held back for consumers until they ask stays so.
OBSERVER = -2

T = TypeVar("T")
Partitions = Mapping[str, Iterable[int]]
Place = tuple[str, int]  # topic and partition


def brokers(call: Call) -> list[NodeId]:
    """Those that are there."""
    cluster = call.services.cluster
    if cluster.member is None:
        return [call.services.node_id]
    network = cluster.member.network
    return [node for node in sorted(cluster.brokers) if network.is_up(node)]


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*work))


def leader(call: Call, topic: str, partition: int) -> NodeId | None:
    """As far as is known now."""
    cluster = call.services.cluster
    found = cluster.topic(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        return None
    if cluster.member is None:
        return call.services.node_id
    led = cluster.member.leaders.of(LogId(found.id, partition))
    return None if led is None else led.leader


def by_leader(call: Call, wanted: Partitions) -> dict[NodeId, dict[str, list[int]]]:
    """What each broker leads of it; what nobody leads is left out."""
    found: dict[NodeId, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, partitions in wanted.items():
        for partition in partitions:
            node = leader(call, topic, partition)
            if node is not None:
                found[node][topic].append(partition)
    return found


async def offsets(call: Call, wanted: Partitions, timestamp: int, *, isolation: int = 0) -> dict[Place, int]:
    """The offsets at a time, or at a place that has a negative number, as leaders tell them. What cannot be told is left out."""

    async def ask(node: NodeId, led: Mapping[str, list[int]]) -> Any:
        return await call.send(_list_offsets(led, timestamp, isolation), to=node)

    responses = await together(ask(node, led) for node, led in by_leader(call, wanted).items())
    return {
        (topic.name, each.partition_index): each.offset
        for response in responses
        for topic in response.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }


def _list_offsets(wanted: Mapping[str, list[int]], timestamp: int, isolation: int) -> ListOffsetsRequest:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=OBSERVER,
        isolation_level=isolation,
        topics=[
            topic(name=name, partitions=[partition(partition_index=i, timestamp=timestamp) for i in indexes])
            for name, indexes in wanted.items()
        ],
    )


async def sizes(call: Call, wanted: Partitions) -> dict[Place, int]:
    """The bytes of partitions' logs where they are led. Empty for whoever may not know."""

    async def ask(node: NodeId, led: Mapping[str, list[int]]) -> Any:
        asked = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in led.items()
        ]
        return await call.send(DescribeLogDirsRequest(topics=asked), to=node)

    responses = await together(ask(node, led) for node, led in by_leader(call, wanted).items())
    return {
        (topic.name, each.partition_index): each.partition_size
        for response in responses
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }
