"""Questions that several brokers have to answer together: each is asked for its part, all at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kompat.admin.route import Call
from kompat.cluster import moves
from kompat.errors import ErrorCode
from kompat.protocol.messages import DescribeLogDirsRequest, ListOffsetsRequest
from kompat.types import LogId, NodeId

AT_A_TIME = 200  # partitions
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


def unmovable(call: Call, node: NodeId) -> int:
    """Replicas that keep a broker from being emptied: no other broker could take them."""
    cluster = call.services.cluster
    return len(moves.unmovable(cluster.image, node, set(cluster.brokers) - set(brokers(call))))


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


async def _in_pieces(call: Call, wanted: Partitions, request: Callable[[Mapping[str, list[int]]], Any]) -> list[Any]:
    """The responses of all leaders, each asked for some partitions at a time: others get their turn in between."""

    async def ask(node: NodeId, led: Mapping[str, list[int]]) -> list[Any]:
        responses = []
        for piece in pieces(led):
            responses.append(await call.send(request(piece), to=node))
            await asyncio.sleep(0)
        return responses

    found = await together(ask(node, led) for node, led in by_leader(call, wanted).items())
    return [response for responses in found for response in responses]


def pieces(led: Mapping[str, list[int]], most: int = AT_A_TIME) -> Iterator[dict[str, list[int]]]:
    piece: dict[str, list[int]] = {}
    size = 0
    for topic, indexes in led.items():
        for start in range(0, len(indexes), most):
            part = indexes[start : start + most]
            if size and size + len(part) > most:
                yield piece
                piece, size = {}, 0
            piece[topic] = part
            size += len(part)
    if piece:
        yield piece


async def offsets(call: Call, wanted: Partitions, timestamp: int, *, isolation: int = 0) -> dict[Place, int]:
    """The offsets at a time, or at a place that has a negative number, as leaders tell them. What cannot be told is left out."""

    responses = await _in_pieces(call, wanted, lambda led: _list_offsets(led, timestamp, isolation))
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

    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    responses = await _in_pieces(
        call,
        wanted,
        lambda led: DescribeLogDirsRequest(
            topics=[kind(topic=name, partitions=indexes) for name, indexes in led.items()]
        ),
    )
    return {
        (topic.name, each.partition_index): each.partition_size
        for response in responses
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }
