"""The service on a real log: what it answers is committed, what it shows is true on this broker."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from kompat.cluster.records import ConfigsSet
from kompat.cluster.requests import MorePartitions, NewTopic
from kompat.cluster.service import METADATA_LOG, ClusterService
from kompat.cluster.state import Resource, ResourceType
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import ConfigSource
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.types import LogId, ProducerId
from tests.cluster.support import (
    broker,
    changing,
    create,
    created,
    group,
    metrics,
    names_of,
    refused,
    replacing,
    service_on,
    setting,
    topic,
)
from tests.coordination.support import Disk, Node


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def node(disk: Disk) -> AsyncIterator[Node]:
    node = Node(disk)
    yield node
    await node.close()


@pytest.fixture
async def service(node: Node) -> ClusterService:
    return await service_on(node)


# -- topics and logs ---------------------------------------------------------------------------------------------------
async def test_a_created_topic_can_be_looked_up_and_written_to(service: ClusterService, node: Node) -> None:
    [found] = await create(service, "t", partitions=3)

    assert service.topic("t") == service.topic_by_id(found.id) == found
    assert names_of(service.topics()) == ["t"]
    for index in range(3):
        log = node.logs.find("t", index)
        assert log is not None
        assert log.log_id == LogId(found.id, index)
        assert node.logs.find_by_id(found.id, index) is log
    assert node.logs.find("t", 3) is None


async def test_a_deleted_topic_is_gone_with_its_data(service: ClusterService, node: Node, disk: Disk) -> None:
    [old] = await create(service, "t")
    await service.delete_topics([old.id])
    [new] = await create(service, "t")

    assert new.id != old.id
    assert node.logs.find_by_id(old.id, 0) is None
    log = node.logs.find("t", 0)
    assert log is not None
    assert log.log_id.topic_id == new.id
    await node.commit.turn()
    assert LogId(old.id, 0) not in disk.logs()


async def test_added_partitions_can_be_written_to(service: ClusterService, node: Node) -> None:
    await create(service, "t")
    assert await service.create_partitions([MorePartitions("t", 2)]) == {"t": None}

    assert node.logs.find("t", 1) is not None


async def test_the_metadata_log_is_no_topic(service: ClusterService, node: Node) -> None:
    assert service.topic("__cluster_metadata") is None
    assert node.logs.find("__cluster_metadata", 0) is None
    assert node.logs.find_by_id(METADATA_LOG.topic_id, 0) is None


async def test_topics_are_created_on_demand_but_internal_ones_by_their_owner_alone(service: ClusterService) -> None:
    outcome = await service.auto_create(["t", "a b", "__consumer_offsets", "__kompat_mine", "t"])

    assert {name: error.code for name, error in outcome.items()} == {
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__kompat_mine": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert service.topic("__consumer_offsets") is None
    offsets = await service.ensure_internal_topic("__consumer_offsets")
    assert offsets.configs["cleanup.policy"] == "compact"
    assert await service.auto_create(["t", "__consumer_offsets"]) == {}


async def test_two_who_need_an_internal_topic_at_once_get_the_same(service: ClusterService) -> None:
    first, second = await asyncio.gather(*(service.ensure_internal_topic("__transaction_state") for _ in range(2)))

    assert first is second
    assert len(first.partitions) == 50


async def test_nobody_can_take_a_name_that_keeps_an_internal_topic_from_being_made(service: ClusterService) -> None:
    outcomes = await service.create_topics([NewTopic("__consumer.offsets"), NewTopic("__consumer_offsets")])

    assert {name: outcome.code for name, outcome in outcomes.items() if isinstance(outcome, KafkaError)} == {
        "__consumer.offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.INVALID_REQUEST,
    }
    assert (await service.ensure_internal_topic("__consumer_offsets")).name == "__consumer_offsets"


async def test_settings_that_an_owner_relies_on_are_mended_when_the_broker_starts(service: ClusterService) -> None:
    await service.ensure_internal_topic("__consumer_offsets")
    wrong = {"cleanup.policy": "delete", "max.message.bytes": "10", "min.insync.replicas": "5"}
    record = ConfigsSet(Resource(ResourceType.TOPIC, "__consumer_offsets"), {**wrong, "segment.bytes": "2097152"})
    await service.run(lambda machine: Decision([record], None))

    await service.start()

    topic = service.topic("__consumer_offsets")
    assert topic is not None
    assert topic.configs == {
        "cleanup.policy": "compact",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "1",
        "segment.bytes": "2097152",
    }


async def test_the_metadata_offset_moves_with_every_change(service: ClusterService) -> None:
    before = service.metadata_offset
    await create(service, "t")

    assert service.metadata_offset == before + 1


# -- commit ------------------------------------------------------------------------------------------------------------
async def test_a_topic_is_not_seen_before_it_is_on_the_disk(service: ClusterService, disk: Disk) -> None:
    before = disk.flushes
    asked = asyncio.ensure_future(service.create_topics([NewTopic("t")]))
    while not asked.done():
        assert (service.topic("t") is not None) == (disk.flushes > before)
        await asyncio.sleep(0)

    assert service.topic("t") is not None


async def test_what_the_disk_refuses_has_not_happened(service: ClusterService, node: Node, disk: Disk) -> None:
    await create(service, "before")
    disk.is_full = True
    outcomes = await asyncio.gather(
        service.create_topics([NewTopic("t")]),
        service.delete_topics(["before"]),
        service.alter_configs([setting(broker(), message_max_bytes="5")]),
        return_exceptions=True,
    )
    disk.is_full = False

    for outcome in outcomes:
        refused(outcome, ErrorCode.KAFKA_STORAGE_ERROR)
    assert names_of(service.topics()) == ["before"]
    await create(service, "after")
    assert names_of(service.topics()) == ["after", "before"]
    assert node.logs.find("t", 0) is None
    assert node.logs.find("before", 0) is not None


# -- restart -----------------------------------------------------------------------------------------------------------
async def test_a_restart_finds_everything_again(disk: Disk) -> None:
    first = await service_on(Node(disk))
    await create(first, "a", "b", partitions=2)
    await first.delete_topics(["a"])
    await first.alter_configs([setting(topic("b"), retention_ms="5"), setting(broker(""), message_max_bytes="99")])

    node, config = Node(disk), BrokerConfig()
    again = await service_on(node, config)

    assert again.cluster_id == first.cluster_id
    assert list(again.topics()) == list(first.topics())
    assert again.metadata_offset == first.metadata_offset
    assert config["message.max.bytes"] == 99
    log = node.logs.find("b", 1)
    assert log is not None
    assert (log.config.retention_ms, log.config.max_message_bytes) == (5, 99)


async def test_data_of_a_topic_whose_end_a_crash_interrupted_is_dropped_at_the_next_start(disk: Disk) -> None:
    node = Node(disk)
    service = await service_on(node)
    stray = LogId(uuid4(), 0)
    disk.open(stray).put_state(b"x", b"y")
    await node.commit.turn()
    await create(service, "t")

    again = Node(disk)
    await service_on(again)

    assert stray not in disk.logs()
    assert METADATA_LOG in disk.logs()


async def test_a_broker_of_another_number_joins_but_hosts_only_its_own(disk: Disk) -> None:
    await create(await service_on(Node(disk)), "t")

    node = Node(disk)
    again = await service_on(node, BrokerConfig({"node.id": "2"}))

    assert set(again.brokers) == {1, 2}
    assert node.logs.find("t", 0) is None


# -- settings ----------------------------------------------------------------------------------------------------------
async def test_new_settings_reach_the_logs_at_once(service: ClusterService, node: Node) -> None:
    await create(service, "own", "default")
    await service.alter_configs([setting(topic("own"), retention_ms="5")])
    await service.alter_configs([setting(broker(), log_retention_ms="7", log_segment_bytes="2000000")])

    own, default = node.logs.find("own", 0), node.logs.find("default", 0)
    assert own is not None
    assert default is not None
    assert (own.config.retention_ms, own.config.segment_bytes) == (5, 2_000_000)
    assert default.config.retention_ms == 7

    await service.alter_configs([replacing(broker())])
    assert default.config.retention_ms == 604_800_000


async def test_a_topic_describes_where_its_settings_come_from(service: ClusterService) -> None:
    await create(service, "t")
    await service.alter_configs([setting(topic("t"), cleanup_policy="compact")])
    await service.alter_configs([setting(broker(), log_retention_ms="1234567")])
    await service.alter_configs([setting(broker(""), log_retention_ms="7654321")])

    entries = {entry.name: entry for entry in service.describe_topic_configs("t")}

    assert len([name for name in entries if not name.startswith("kompat.")]) == 33
    policy, retention = entries["cleanup.policy"], entries["retention.ms"]
    assert (policy.value, policy.source) == ("compact", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [(s.name, s.value, s.source.value) for s in policy.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert (retention.value, retention.source) == ("1234567", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert [(s.name, s.value, s.source.value) for s in retention.synonyms] == [
        ("log.retention.ms", "1234567", 2),
        ("log.retention.ms", "7654321", 3),
        ("log.retention.hours", "168", 5),
    ]
    assert (entries["flush.ms"].source, entries["flush.ms"].synonyms) == (ConfigSource.DEFAULT_CONFIG, ())


async def test_a_broker_describes_its_settings(service: ClusterService) -> None:
    await service.alter_configs([setting(broker(""), message_max_bytes="99")])
    entries = {entry.name: entry for entry in service.describe_configs(broker())}

    assert entries["message.max.bytes"].value == "99"
    assert entries["message.max.bytes"].source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert not entries["message.max.bytes"].is_read_only
    assert entries["num.partitions"].is_read_only
    assert entries["ssl.key.password"].is_sensitive
    assert entries["ssl.key.password"].value is None
    assert "producer.id.expiration.check.interval.ms" not in entries
    assert [(e.name, e.value) for e in service.describe_configs(broker(""))] == [("message.max.bytes", "99")]


async def test_groups_and_subscriptions_describe_their_settings(service: ClusterService) -> None:
    await service.alter_configs(
        [setting(group(), consumer_session_timeout_ms="50000"), setting(metrics(), interval_ms="500")]
    )
    entries = {entry.name: entry for entry in service.describe_configs(group())}

    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", ConfigSource.GROUP_CONFIG)
    assert [(s.name, s.value) for s in session.synonyms] == [
        ("consumer.session.timeout.ms", "50000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]
    assert entries["share.auto.offset.reset"].synonyms[0].name == "share.auto.offset.reset"
    assert service.group_setting("g", "consumer.session.timeout.ms") == 50000
    assert service.group_setting("h", "consumer.session.timeout.ms") == 45000
    [interval, *_] = service.describe_configs(metrics())
    assert (interval.value, interval.source) == ("500", ConfigSource.CLIENT_METRICS_CONFIG)
    assert service.describe_configs(metrics("other"))[0].value == "300000"


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        (topic("nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (broker("2"), ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (broker("x"), ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (group(""), ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (metrics(""), ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (Resource(ResourceType.BROKER_LOGGER, "1"), ErrorCode.INVALID_REQUEST, None),
    ],
)
async def test_what_is_not_there_is_not_described(
    service: ClusterService, resource: Resource, code: ErrorCode, message: str | None
) -> None:
    with pytest.raises(KafkaError) as raised:
        service.describe_configs(resource)
    refused(raised.value, code, message)


async def test_resources_with_settings_are_listed_by_type(service: ClusterService) -> None:
    await create(service, "t")
    await service.alter_configs([setting(group(), share_delivery_count_limit="3"), setting(metrics(), metrics="*")])
    await service.alter_configs([setting(broker(), message_max_bytes="5")])

    everything = set(ResourceType)
    assert set(service.config_resources(everything)) == {topic("t"), broker(), group(), metrics()}
    assert list(service.config_resources({ResourceType.GROUP})) == [group()]


async def test_a_topic_that_was_only_validated_is_described_too(service: ClusterService) -> None:
    wanted = [NewTopic("t", configs={"retention.ms": "5"})]
    found = created((await service.create_topics(wanted, validate_only=True))["t"])

    assert service.topic("t") is None
    entries = {entry.name: entry.value for entry in service.describe_configs_of(found)}
    assert entries["retention.ms"] == "5"


# -- producer ids ------------------------------------------------------------------------------------------------------
async def test_producer_ids_are_never_given_twice(disk: Disk) -> None:
    given: list[int] = []
    for _ in range(3):
        node = Node(disk)
        service = await service_on(node)
        given += await asyncio.gather(*(service.next_producer_id() for _ in range(1500)))
        disk = disk.crash()

    assert len(set(given)) == len(given) == 4500


async def test_a_producer_id_that_could_not_be_recorded_is_not_given(service: ClusterService, disk: Disk) -> None:
    disk.is_full = True
    outcomes = await asyncio.gather(*(service.next_producer_id() for _ in range(3)), return_exceptions=True)
    disk.is_full = False

    for outcome in outcomes:
        refused(outcome, ErrorCode.KAFKA_STORAGE_ERROR)
    assert await service.next_producer_id() == 0


@pytest.mark.timeout(20)
async def test_who_asks_for_a_producer_id_the_moment_that_more_are_there_does_not_stop_the_broker(
    service: ClusterService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs before what the others wait for is told to them."""
    late: list[asyncio.Task[ProducerId]] = []
    call = service.rpc.call

    async def called(*arguments: Any) -> Any:
        block = await call(*arguments)
        late.append(asyncio.ensure_future(service.next_producer_id()))
        return block

    monkeypatch.setattr(service.rpc, "call", called)
    first = await service.next_producer_id()

    assert {first, *await asyncio.gather(*late)} == {0, 1}


async def test_few_producer_ids_are_written_down(service: ClusterService) -> None:
    before = service.metadata_offset
    for _ in range(1000):
        await service.next_producer_id()

    assert service.metadata_offset == before + 1


async def test_a_change_to_nothing_is_answered_too(service: ClusterService) -> None:
    assert await service.alter_configs([]) == []
    assert await service.create_topics([]) == {}
    assert await service.delete_topics([]) == {}
    assert await service.alter_configs([changing(topic("t"))]) != [None]
