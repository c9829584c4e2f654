"""No answer holds the event loop, however much there is to tell: a short request for all of it, by the processor's time of the longest turn."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from kompat.cluster.state import PartitionState, Topic
from kompat.coordination.shards import partition_for
from kompat.groups.machine.messages import CommitRequest, CommittedPartition, CommittedTopic
from kompat.handlers.support.services import Services
from kompat.protocol.codec import decode_response, encode_request
from kompat.security.scram import Credential, Mechanism
from kompat.server.dispatch import Dispatcher
from kompat.types import NodeId
from tests.handlers.turns import CLIENT, LONGEST_TURN, TRIES, api_of, longest_turn, services

__all__ = ["services"]

MANY = 10_000
NODE = NodeId(1)


TOLD = {
    "DescribeClientQuotas": "entries",
    "ListConfigResources": "config_resources",
    "DescribeUserScramCredentials": "results",
    "ListPartitionReassignments": "topics",
}


async def test_all_that_the_cluster_knows_is_told_in_slices(services: Services) -> None:
    _fill(services)
    turns: dict[str, float] = {}
    for name, field in TOLD.items():
        request = api_of(name).handler.request()
        if name == "ListPartitionReassignments":
            request.topics = None
        assert len(getattr(await _answer(services, name, request), field)) >= MANY
        turns[name] = await _shortest_of_longest(services, name, request)
    request = api_of("DescribeClientQuotas").handler.request()
    request.components = [request.ComponentData(entity_type="user", match_type=0, match="nobody")]
    assert (await _answer(services, "DescribeClientQuotas", request)).entries == []
    turns["no quota"] = await _shortest_of_longest(services, "DescribeClientQuotas", request)

    assert {name: seconds for name, seconds in turns.items() if seconds >= LONGEST_TURN} == {}


@pytest.mark.parametrize("version", [7, 9])
async def test_all_offsets_of_a_group_are_told_in_slices(services: Services, version: int) -> None:
    await _commit(services, "g", topics=MANY // 10, partitions=5)
    request = api_of("OffsetFetch").handler.request(topics=None, group_id="g")
    request.groups = [request.OffsetFetchRequestGroup(group_id="g", topics=None)]

    answer = await _answer(services, "OffsetFetch", request, version)
    topics = answer.topics if version == 7 else answer.groups[0].topics
    assert {len(topic.partitions) for topic in topics} == {5}
    assert len({topic.name for topic in topics}) == len(topics) == MANY // 10
    assert await _shortest_of_longest(services, "OffsetFetch", request, version) < LONGEST_TURN


async def test_groups_with_many_offsets_are_deleted_in_slices(services: Services) -> None:
    turns: list[float] = []
    alike = [f"g-{number}" for number in range(1000) if partition_for(f"g-{number}", 50) == 0][
        :12
    ]  # of one coordinator
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        for group_id in alike:
            await _commit(services, group_id, topics=100, partitions=8)
        api = api_of("DeleteGroups")
        request = api.handler.request(groups_names=alike)
        frame = encode_request(api.handler.request, api.versions.high, request)
        turns.append(await longest_turn(services, api, memoryview(frame)))

    assert min(turns) < LONGEST_TURN
    assert await services.groups.list_groups() == []


def _fill(services: Services) -> None:
    image = services.cluster.image
    moving = PartitionState(0, (NODE, NodeId(2)), adding=(NodeId(2),))
    credentials = {Mechanism.SCRAM_SHA_256: Credential(b"salt", b"key", b"key", 4096)}
    for number in range(MANY):
        name = f"name-{number}"
        image.quotas[(("user", name),)] = {"producer_byte_rate": 1.0}
        image.users[name] = credentials
        image.topics[name] = Topic(name, uuid4(), (moving,))


async def _commit(services: Services, group_id: str, *, topics: int, partitions: int) -> None:
    offsets = tuple(CommittedPartition(partition=index, offset=index) for index in range(partitions))
    for first in range(0, topics, 100):
        some = tuple(CommittedTopic(name=f"name-{first + n}", partitions=offsets) for n in range(100))
        await services.groups.commit_offsets(CommitRequest(group_id=group_id, topics=some, api_version=9))


async def _answer(services: Services, name: str, request: Any, version: int | None = None) -> Any:
    """By kompat's own codec: kafka-python would take seconds to read so much."""
    api = api_of(name)
    version = api.versions.high if version is None else version
    frame = encode_request(api.handler.request, version, request)
    exchange: Any = Dispatcher([api], services).dispatch(CLIENT, memoryview(frame))
    while not exchange.is_done:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)
    return decode_response(api.handler.response, version, memoryview(b"".join(map(bytes, exchange.result()))))


async def _shortest_of_longest(services: Services, name: str, request: Any, version: int | None = None) -> float:
    api = api_of(name)
    turns: list[float] = []
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        frame = encode_request(api.handler.request, api.versions.high if version is None else version, request)
        turns.append(await longest_turn(services, api, memoryview(frame)))
    return min(turns)
