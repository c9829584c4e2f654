"""The page of a broker at work: what clients did is on it, and others have their turn while it is gathered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kompat.broker import Broker
from kompat.cluster.requests import ConfigChange, ConfigOp
from kompat.cluster.state import Resource, ResourceType
from kompat.config.load import load
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.priority.index import PriorityIndex
from kompat.extensions.queues import statistics as queue_statistics
from kompat.groups.machine.messages import CommitRequest, CommittedPartition, CommittedTopic
from kompat.handlers import APIS
from kompat.handlers.support.services import Services
from kompat.metrics import exposition
from kompat.metrics.exposition import Exposition
from kompat.metrics.page import Page
from kompat.metrics.queues import Queues
from kompat.protocol.records import Record, build_batch
from kompat.server.dispatch import Client, Dispatcher, Exchange
from tests.handlers import wire

TOPIC = "orders"
CLIENT = Client("127.0.0.1", "127.0.0.1:9092-127.0.0.1:5000", ("127.0.0.1", 9092))

Samples = dict[str, dict[tuple[str, ...], float]]  # by name and values of labels


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    broker = Broker(load({"port": "0", "data": str(tmp_path / "data"), "num.partitions": "3"}, environ={}))
    try:
        built = await broker._build_services()
        await built.cluster.auto_create([TOPIC])
        yield built
    finally:
        await broker.stop()


async def scraped(services: Services, page: Exposition | None = None) -> Samples:
    text = (await (page or Exposition(services)).render()).decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def ask(services: Services, request: Any, version: int) -> None:
    dispatcher = Dispatcher(APIS, services, services.meters)
    answer = dispatcher.dispatch(CLIENT, memoryview(bytearray(wire.request_frame(request, version)[4:])))
    while isinstance(answer, Exchange) and not answer.is_done:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def produce(topic: str, *, partition: int = 0, values: int = 3) -> Any:
    message = wire.message("ProduceRequest")
    batch = bytes(build_batch([Record(index, 1_700_000_000_000, None, b"x" * 100, ()) for index in range(values)]))
    data = message.TopicProduceData.PartitionProduceData(index=partition, records=batch)
    return message(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[message.TopicProduceData(name=topic, partition_data=[data])],
    )


async def test_requests_their_errors_bytes_and_times_are_counted_by_api(services: Services) -> None:
    await ask(services, produce(TOPIC), 9)
    await ask(services, produce("missing"), 9)

    found = await scraped(services)

    assert found["kompat_requests_total"] == {("Produce",): 2}
    assert found["kompat_request_errors_total"] == {("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1}
    assert found["kompat_request_seconds_count"] == {("Produce",): 2}
    assert found["kompat_request_bytes_total"]["Produce",] > 600
    assert found["kompat_response_bytes_total"]["Produce",] > 0
    assert (
        0 < found["kompat_request_loop_seconds_total"]["Produce",] < found["kompat_request_seconds_sum"]["Produce",] + 1
    )


async def test_topics_are_counted_by_what_went_in_and_what_is_there(services: Services) -> None:
    await ask(services, produce(TOPIC, values=5), 9)
    await ask(services, produce(TOPIC, partition=2, values=2), 9)

    found = await scraped(services)

    assert found["kompat_topic_records_in_total"][TOPIC,] == 7
    assert found["kompat_topic_bytes_in_total"][TOPIC,] == found["kompat_topic_log_bytes"][TOPIC,] > 700
    assert found["kompat_partition_end_offset"] == {(TOPIC, "0"): 5, (TOPIC, "1"): 0, (TOPIC, "2"): 2}
    assert found["kompat_leader_partitions"] == found["kompat_partitions"] == {(): 3}
    assert found["kompat_under_replicated_partitions"] == {(): 0}


async def test_a_partition_without_other_replicas_takes_acks_all_whatever_the_setting(services: Services) -> None:
    resource = Resource(ResourceType.TOPIC, TOPIC)
    change = ConfigChange(resource, [("min.insync.replicas", ConfigOp.SET, "2")])
    await services.cluster.alter_configs([change])

    found = await scraped(services)

    assert services.logs.find(TOPIC, 0).config.min_insync_replicas == 2  # type: ignore[union-attr]
    assert found["kompat_under_min_isr_partitions"] == {(): 0}


async def test_the_lag_of_a_group_is_what_lies_after_its_offset(services: Services) -> None:
    await ask(services, produce(TOPIC, values=5), 9)
    topic = CommittedTopic(
        name=TOPIC, partitions=(CommittedPartition(partition=0, offset=2), CommittedPartition(partition=1, offset=0))
    )
    await services.groups.commit_offsets(CommitRequest(group_id="g", topics=(topic,), api_version=8))

    found = await scraped(services)

    assert found["kompat_group_offset"] == {("g", TOPIC, "0"): 2, ("g", TOPIC, "1"): 0}
    assert found["kompat_group_lag"] == {("g", TOPIC, "0"): 3, ("g", TOPIC, "1"): 0}
    assert found["kompat_groups"] == {(): 1}


async def test_series_beyond_the_limit_are_left_out_and_told(services: Services) -> None:
    partitions = tuple(CommittedPartition(partition=index, offset=0) for index in range(3))
    topic = CommittedTopic(name=TOPIC, partitions=partitions)
    await services.groups.commit_offsets(CommitRequest(group_id="g", topics=(topic,), api_version=8))

    text = (await Exposition(services, most_series=2).render()).decode()

    assert 'kompat_metrics_omitted_series{metric="kompat_group_lag"} 1' in text.splitlines()
    assert sum(line.startswith("kompat_group_offset{") for line in text.splitlines()) == 2


async def test_the_store_and_the_process_tell_of_themselves(services: Services) -> None:
    found = await scraped(services)

    assert {family for (family,) in found["kompat_rocksdb_memtable_bytes"]} == {"batches", "entries", "times", "state"}
    assert found["kompat_disk_free_bytes"][()] > 0
    assert found["process_resident_memory_bytes"][()] > 1 << 20
    ((version, _, node_id, cluster_id),) = found["kompat_build_info"]
    assert (version, node_id, cluster_id) == (services.version, "1", services.cluster.cluster_id)


async def test_others_have_their_turn_while_a_page_is_gathered(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "STEP_SECONDS", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    await Exposition(services).render()
    task.cancel()

    assert turns > 10  # one for each partition, topic, family, … at least


async def test_who_asks_while_a_page_is_gathered_gets_that_one(services: Services) -> None:
    page = Exposition(services)

    first, second = await asyncio.gather(page.render(), page.render())

    assert first is second
    assert await page.render() is not first


async def send(services: Services, *classes: int | None) -> None:
    """One batch a record."""
    for class_ in classes:
        headers = () if class_ is None else (("kompat-priority", str(class_).encode()),)
        batch = build_batch([Record(0, services.clock.now(), None, b"x", headers)])
        appended = services.logs.find(TOPIC, 0).append(memoryview(batch))  # type: ignore[union-attr]
        await appended.pending


async def test_the_depth_of_a_queue_is_told_by_class(services: Services) -> None:
    await send(services, None, 9, 9, 2)
    page = Exposition(services)

    assert "kompat_queue_depth" not in (await page.render()).decode()  # nobody has begun
    [urgent] = await services.queues.acquire("workers", TOPIC, begin="earliest")
    found = await scraped(services, page)

    assert found["kompat_queue_depth"] == {
        ("workers", TOPIC, "2"): 1,
        ("workers", TOPIC, "4"): 1,
        ("workers", TOPIC, "9"): 1,
    }
    await services.queues.accept([urgent.receipt])
    rest = await services.queues.acquire("workers", TOPIC, max_records=3)
    await services.queues.accept([each.receipt for each in rest])
    found = await scraped(services, page)
    assert found["kompat_queue_depth"] == {("workers", TOPIC, class_): 0 for class_ in ("2", "4", "9")}


async def test_so_many_records_with_a_class_are_looked_at_for_a_scrape_and_the_others_are_told_as_last_counted(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_statistics, "PAGE", 1)
    await send(services, 9, 9, 9)
    await services.queues.acquire("first", TOPIC, begin="earliest")
    await services.queues.acquire("second", TOPIC, begin="earliest")
    queues = Queues(services, pages_read=3)  # enough for one of them

    def depths() -> dict[str, int]:
        page = Page()
        list(queues.gather(page))
        found = [line for line in page.lines() if line.startswith("kompat_queue_depth{") and 'class="9"' in line]
        return {line.split('"')[1]: int(line.rpartition(" ")[2]) for line in found}

    assert depths() == {"first": 2}
    assert depths() == {"first": 2, "second": 2}
    assert depths() == {"first": 2, "second": 2}


async def test_a_store_that_cannot_be_read_leaves_the_rest_of_the_page(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(services, 9)
    await services.queues.acquire("workers", TOPIC, begin="earliest")

    def damaged(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "damaged")

    monkeypatch.setattr(PriorityIndex, "find", damaged)
    found = await scraped(services)

    assert found["kompat_metrics_omitted_series"] == {("kompat_queue_depth",): 1}
    assert found["kompat_queue_records"]["workers", TOPIC, "in_flight"] == 1
