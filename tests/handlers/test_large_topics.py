"""A topic of as many partitions as a request may make holds nobody up: not when it is made, not when it is told of, not when it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kompat.cluster.topics import MAX_PARTITIONS_PER_REQUEST
from kompat.handlers.support.services import Services
from kompat.protocol.codec import encode_request
from kompat.server.dispatch import Dispatcher, Exchange
from tests.handlers.turns import CLIENT, LONGEST_TURN, TRIES, answer_to, api_of, longest_turn, services

__all__ = ["services"]

MANY = MAX_PARTITIONS_PER_REQUEST


def new_topic(name: str, **fields: Any) -> Any:
    request = api_of("CreateTopics").handler.request
    return request(topics=[request.CreatableTopic(name=name, **fields)], timeout_ms=30_000)


def by_number(name: str) -> Any:
    return new_topic(name, num_partitions=MANY, replication_factor=1)


def by_assignment(name: str) -> Any:
    made = api_of("CreateTopics").handler.request.CreatableTopic.CreatableReplicaAssignment
    assignments = [made(partition_index=index, broker_ids=[1]) for index in range(MANY)]
    return new_topic(name, num_partitions=-1, replication_factor=-1, assignments=assignments)


def more_partitions(name: str) -> Any:
    request = api_of("CreatePartitions").handler.request
    topic = request.CreatePartitionsTopic(name=name, count=2 * MANY, assignments=None)
    return request(topics=[topic], timeout_ms=30_000)


def metadata(name: str) -> Any:
    request = api_of("Metadata").handler.request
    return request(topics=[request.MetadataRequestTopic(name=name)])


def all_metadata(_name: str) -> Any:
    return api_of("Metadata").handler.request(topics=None)


def partitions(name: str) -> Any:
    request = api_of("DescribeTopicPartitions").handler.request
    return request(topics=[request.TopicRequest(name=name)], response_partition_limit=MANY, cursor=None)


def log_dirs(_name: str) -> Any:
    return api_of("DescribeLogDirs").handler.request(topics=None)


def settings(name: str) -> Any:
    request = api_of("IncrementalAlterConfigs").handler.request
    made = request.AlterConfigsResource
    change = made.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    return request(resources=[made(resource_type=2, resource_name=name, configs=[change])])


def election(_name: str) -> Any:
    return api_of("ElectLeaders").handler.request(election_type=0, topic_partitions=None, timeout_ms=30_000)


def deletion(name: str) -> Any:
    request = api_of("DeleteTopics").handler.request
    return request(topics=[request.DeleteTopicState(name=name)], timeout_ms=30_000)


# What becomes of a topic, one after the other: it is as large for all of them.
REQUESTS: list[tuple[str, Callable[[str], Any]]] = [
    ("CreateTopics", by_number),
    ("Metadata", metadata),
    ("Metadata", all_metadata),
    ("DescribeTopicPartitions", partitions),
    ("DescribeLogDirs", log_dirs),
    ("ElectLeaders", election),
    ("IncrementalAlterConfigs", settings),
    ("CreatePartitions", more_partitions),
    ("DeleteTopics", deletion),
]


@pytest.mark.parametrize("requests", [REQUESTS, [("CreateTopics", by_assignment)]], ids=["by number", "by assignment"])
@pytest.mark.slow
async def test_a_large_topic_lets_others_have_their_turns(
    services: Services, requests: list[tuple[str, Callable[[str], Any]]]
) -> None:
    shortest: dict[str, float] = {}
    for attempt in range(TRIES):
        for api, request_for in requests:
            found = api_of(api)
            frame = encode_request(found.handler.request, found.versions.high, request_for(f"large-{attempt}"))
            turn = await longest_turn(services, found, memoryview(frame))
            shortest[request_for.__name__] = min(turn, shortest.get(request_for.__name__, turn))
        if max(shortest.values()) < LONGEST_TURN:
            break

    assert {name: seconds for name, seconds in shortest.items() if seconds >= LONGEST_TURN} == {}


async def test_a_topic_is_there_with_all_of_its_logs_or_not_at_all(services: Services) -> None:
    cluster, logs = services.cluster, services.logs
    making = dispatch(services, "CreateTopics", by_number("t"))
    seen: set[int] = set()
    while not making.is_done:
        await asyncio.sleep(0)
        topic = cluster.topic("t")
        seen.add(len(topic.partitions) if topic is not None else 0)
        if topic is not None:
            assert logs.find("t", MANY - 1) is not None

    assert seen == {0, MANY}


async def test_a_topic_that_is_made_again_while_the_old_one_goes_is_whole(services: Services) -> None:
    await answer_to(services, api_of("CreateTopics"), 7, by_number("t"))
    old = services.cluster.topic("t")
    assert old is not None
    deleting = dispatch(services, "DeleteTopics", deletion("t"))
    making = dispatch(services, "CreateTopics", by_number("t"))
    while not (deleting.is_done and making.is_done):  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)

    new = services.cluster.topic("t")
    assert new is not None
    assert new.id != old.id
    for index in range(MANY):
        log = services.logs.find("t", index)
        assert log is not None
        assert log.log_id.topic_id == new.id
        assert services.logs.find_by_id(old.id, index) is None


def dispatch(services: Services, name: str, request: Any) -> Exchange:
    api = api_of(name)
    frame = encode_request(api.handler.request, api.versions.high, request)
    exchange = Dispatcher([api], services).dispatch(CLIENT, memoryview(frame))
    assert isinstance(exchange, Exchange)
    return exchange
