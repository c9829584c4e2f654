"""Requests to several brokers at once, each for its part of the partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from kompat.admin.route import Call
from kompat.cluster import reassignment_rules as moves
from kompat.common.slices import SLICE_SECONDS, sliced
from kompat.errors import ErrorCode
from kompat.protocol.messages import DescribeLogDirsRequest, ListOffsetsRequest
from kompat.types import LogId, NodeId

AT_A_TIME = 200  # partitions
AT_ONCE = 10  # requests
SHARE_SECONDS = SLICE_SECONDS / 4  # of a slice: several requests are prepared in the same turn
LATEST, EARLIEST = -1, -2
# Not a consumer's id: the request must not count as that of a waiting reader.
OBSERVER = -2

T = TypeVar("T")
Partitions = Mapping[str, Iterable[int]]
Place = tuple[str, int]  # topic and partition


def brokers(call: Call) -> list[NodeId]:
    """The brokers that are up."""
    cluster = call.services.cluster
    return [node for node in sorted(cluster.brokers) if cluster.local.network.is_up(node)]


def unmovable(call: Call, node: NodeId) -> int:
    """The number of replicas that cannot be drained off a broker, because no other broker can take them."""
    cluster = call.services.cluster
    return len(moves.unmovable(cluster.image, node, set(cluster.brokers) - set(brokers(call))))


async def together(work: Iterable[Awaitable[T]], most: int = AT_ONCE) -> list[T]:
    """The results, in order. At most `most` run at a time, because each holds the event loop until its first wait."""
    found: list[T] = []
    waiting = iter(work)
    while some := list(islice(waiting, most)):
        found += await asyncio.gather(*some)
    return found


def leader(call: Call, topic: str, partition: int) -> NodeId | None:
    """The present leader; None if it is not known."""
    cluster = call.services.cluster
    found = cluster.topic(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        return None
    return cluster.local.leader(LogId(found.id, partition))


async def by_leader(call: Call, wanted: Partitions) -> dict[NodeId, dict[str, list[int]]]:
    """The partitions by leader, without those that have no leader."""
    found: dict[NodeId, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    places = ((topic, partition) for topic, partitions in wanted.items() for partition in partitions)
    async for topic, partition in sliced(places, SHARE_SECONDS):
        node = leader(call, topic, partition)
        if node is not None:
            found[node][topic].append(partition)
    return found


async def _in_pieces(call: Call, wanted: Partitions, request: Callable[[Mapping[str, list[int]]], Any]) -> list[Any]:
    """The responses of all leaders. Each gets requests for some partitions at a time, so that other tasks get a turn in between."""

    async def ask(node: NodeId, led: Mapping[str, list[int]]) -> list[Any]:
        responses = []
        for piece in pieces(led):
            responses.append(await call.send(request(piece), to=node))
            await asyncio.sleep(0)
        return responses

    found = await together(ask(node, led) for node, led in (await by_leader(call, wanted)).items())
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
    """ListOffsets of all leaders, for a timestamp or a special one (LATEST, EARLIEST). Partitions with errors are left out."""

    responses = await _in_pieces(call, wanted, lambda led: _list_offsets(led, timestamp, isolation))
    answers = ((topic.name, each) for response in responses for topic in response.topics for each in topic.partitions)
    return {
        (name, each.partition_index): each.offset
        async for name, each in sliced(answers)
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
    """The sizes of the leaders' logs in bytes. Empty if the caller is not authorized."""

    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    responses = await _in_pieces(
        call,
        wanted,
        lambda led: DescribeLogDirsRequest(
            topics=[kind(topic=name, partitions=indexes) for name, indexes in led.items()]
        ),
    )
    topics = (topic for response in responses for result in response.results for topic in result.topics)
    answers = ((topic.name, each) for topic in topics for each in topic.partitions)
    return {(name, each.partition_index): each.partition_size async for name, each in sliced(answers)}
