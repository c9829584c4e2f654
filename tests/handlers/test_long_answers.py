"""No answer holds the event loop, however much there is to tell: a short request for all of it, by the processor's time of the longest turn."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from kompat.cluster.state import PartitionState, Topic
from kompat.groups.machine.messages import CommitRequest, CommittedPartition, CommittedTopic
from kompat.handlers.services import Services
from kompat.protocol.codec import encode_request
from kompat.security.scram import Credential, Mechanism
from kompat.types import LeaderEpoch, NodeId
from tests.handlers.turns import LONGEST_TURN, TRIES, answer_to, api_of, longest_turn, services

__all__ = ["services"]

MANY = 30_000
NODE = NodeId(1)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("DescribeClientQuotas", "entries"),
        ("ListConfigResources", "config_resources"),
        ("DescribeUserScramCredentials", "results"),
        ("ListPartitionReassignments", "topics"),
    ],
)
async def test_all_that_the_cluster_knows_is_told_in_slices(services: Services, name: str, field: str) -> None:
    _fill(services)
    request = api_of(name).request()
    if name == "ListPartitionReassignments":
        request.topics = None

    assert len(getattr(await _answer(services, name, request), field)) >= MANY
    assert await _shortest_of_longest(services, name, request) < LONGEST_TURN


async def test_no_quota_is_found_in_slices(services: Services) -> None:
    _fill(services)
    request = api_of("DescribeClientQuotas").request()
    request.components = [request.ComponentData(entity_type="user", match_type=0, match="nobody")]

    assert (await _answer(services, "DescribeClientQuotas", request)).entries == []
    assert await _shortest_of_longest(services, "DescribeClientQuotas", request) < LONGEST_TURN


@pytest.mark.parametrize("version", [7, 9])
async def test_all_offsets_of_a_group_are_told_in_slices(services: Services, version: int) -> None:
    await _commit(services, topics=MANY // 10, partitions=5)
    request = api_of("OffsetFetch").request(topics=None, group_id="g")
    request.groups = [request.OffsetFetchRequestGroup(group_id="g", topics=None)]

    answer = await _answer(services, "OffsetFetch", request, version)
    topics = answer.topics if version == 7 else answer.groups[0].topics
    assert {len(topic.partitions) for topic in topics} == {5}
    assert len({topic.name for topic in topics}) == len(topics) == MANY // 10
    assert await _shortest_of_longest(services, "OffsetFetch", request, version) < LONGEST_TURN


def _fill(services: Services) -> None:
    image = services.cluster.image
    moving = PartitionState(0, NODE, LeaderEpoch(0), (NODE, NodeId(2)), (NODE,), adding=(NodeId(2),))
    credentials = {Mechanism.SCRAM_SHA_256: Credential(b"salt", b"key", b"key", 4096)}
    for number in range(MANY):
        name = f"name-{number}"
        image.quotas[(("user", name),)] = {"producer_byte_rate": 1.0}
        image.users[name] = credentials
        image.topics[name] = Topic(name, uuid4(), (moving,))


async def _commit(services: Services, *, topics: int, partitions: int) -> None:
    offsets = tuple(CommittedPartition(partition=index, offset=index) for index in range(partitions))
    for first in range(0, topics, 100):
        some = tuple(CommittedTopic(name=f"name-{first + n}", partitions=offsets) for n in range(100))
        await services.groups.commit_offsets(CommitRequest(group_id="g", topics=some, api_version=9))


async def _answer(services: Services, name: str, request: Any, version: int | None = None) -> Any:
    api = api_of(name)
    return await answer_to(services, api, api.versions.high if version is None else version, request)


async def _shortest_of_longest(services: Services, name: str, request: Any, version: int | None = None) -> float:
    api = api_of(name)
    turns: list[float] = []
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        frame = encode_request(api.request, api.versions.high if version is None else version, request)
        turns.append(await longest_turn(services, api, memoryview(frame)))
    return min(turns)
