"""Internal topics are written by their owners alone, and owners survive what others once wrote there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID

import pytest

import kompat.testing
from kompat.clock import SystemClock
from kompat.cluster.state import ResourceType
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode
from kompat.groups.record_codec import encode as group_record
from kompat.groups.records import OffsetCommit, OffsetCommitValue
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs
from kompat.log.partition import Origin
from kompat.log.storage.rocks import RocksStore
from kompat.protocol.records import Record, build_batch
from kompat.share.machine.messages import RecordState, StateBatch
from kompat.share.records import ShareCodec, ShareKey, ShareSnapshot
from kompat.txn.records import Changed
from kompat.txn.records import encode as transaction_record
from kompat.txn.state import State, Transaction
from kompat.types import LogId, Millis, Offset, TopicPartition
from tests.handlers.conftest import Asker
from tests.handlers.members import commit, committed
from tests.handlers.share import Member, beat
from tests.handlers.transactions import Transactional, a_producer

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
INTERNAL = (OFFSETS, TRANSACTIONS, SHARES)
ONE_PARTITION = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[kompat.testing.RunningBroker]:
    with kompat.testing.broker({**ONE_PARTITION, "http": True}) as running:
        use_all(Asker(running), "t")
        yield running


@pytest.fixture(scope="module")
def ask(broker: kompat.testing.RunningBroker) -> Asker:
    return Asker(broker)


def use_all(ask: Asker, topic: str) -> None:
    """Have every coordinator make its topic, and show that it works."""
    ask("CreateTopics", 7, topics=[{"name": topic, "num_partitions": 1, "replication_factor": 1}])
    assert commit(ask, "readers", topic) == [ErrorCode.NONE]
    assert committed(ask, "readers", topic) == (ErrorCode.NONE, 5)
    producer = Transactional(ask, "copier")
    assert producer.init() is ErrorCode.NONE
    assert producer.add(topic) == [ErrorCode.NONE]
    assert producer.produce(topic) is ErrorCode.NONE
    producer.commit()
    share(ask, topic)


def share(ask: Asker, topic: str) -> None:
    member_id = "AAAAAAAAAAAAAAAAAAAAAA"
    assert beat(ask, "workers", member_id, 0, topic).error_code == 0
    member = Member((ask.broker.host, ask.broker.port), "workers", member_id)
    try:
        assert member.fetch({topic_id(ask, topic): [0]}, max_wait_ms=0).error_code == 0
    finally:
        member.close()
        beat(ask, "workers", member_id, -1)


def topic_id(ask: Asker, topic: str) -> UUID:
    [found] = ask("Metadata", 12, topics=[{"name": topic}]).topics
    assert found.error_code == 0, found
    return UUID(str(found.topic_id))


def produced(ask: Asker, topic: str, **fields: Any) -> ErrorCode:
    batch = build_batch([Record(0, 1, b"k", b"v")])
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    answer = ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=data, **fields)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


# -- every way in is closed --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("topic", INTERNAL)
def test_clients_cannot_produce_to_an_internal_topic(ask: Asker, topic: str) -> None:
    assert produced(ask, topic) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("topic", INTERNAL)
@pytest.mark.parametrize("version", [9, 12])
def test_transactions_do_not_take_an_internal_topic_in(ask: Asker, topic: str, version: int) -> None:
    producer = a_producer(ask, version=5 if version == 12 else 3)

    assert producer.add(topic) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert producer.produce(topic, version=version) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not producer.describe().topics


def test_the_offsets_of_a_transaction_are_still_committed(ask: Asker) -> None:
    producer = a_producer(ask)

    assert producer.add_group("copies") is ErrorCode.NONE
    assert producer.commit_offsets("copies", "t") == [ErrorCode.NONE]
    producer.commit()

    assert committed(ask, "copies", "t") == (ErrorCode.NONE, 7)


@pytest.mark.parametrize("topic", INTERNAL)
def test_the_end_of_a_transaction_is_not_written_to_an_internal_topic_by_hand(ask: Asker, topic: str) -> None:
    ends = end_of(ask, topic)
    marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    topics = [{"name": topic, "partition_indexes": [0]}]
    ask("WriteTxnMarkers", 1, markers=[{**marker, "topics": topics}])

    assert topic == OFFSETS or end_of(ask, topic) == ends


def end_of(ask: Asker, topic: str) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    return int(ask("ListOffsets", 9, replica_id=-1, topics=asked).topics[0].partitions[0].offset)


@pytest.mark.parametrize("topic", INTERNAL)
def test_no_records_of_an_internal_topic_are_deleted(ask: Asker, topic: str) -> None:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    [answer] = ask("DeleteRecords", 2, timeout_ms=1000, topics=asked).topics[0].partitions

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["__kompat_trace", "__kompat_mine", "__cluster_metadata", "__share.group.state"])
def test_clients_create_no_internal_topic_and_none_that_could_be_taken_for_one(ask: Asker, name: str) -> None:
    [made] = ask("CreateTopics", 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}]).topics
    assert made.error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TOPIC_EXCEPTION)

    [found] = ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=True).topics
    assert found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@pytest.mark.parametrize("topic", INTERNAL)
def test_an_internal_topic_gets_no_more_partitions(ask: Asker, topic: str) -> None:
    [answer] = ask("CreatePartitions", 3, topics=[{"name": topic, "count": 9}], timeout_ms=1000).results

    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("topic", "policy"), [(OFFSETS, "delete"), (TRANSACTIONS, "compact,delete"), (SHARES, "compact")]
)
def test_settings_that_the_owner_relies_on_stay_and_others_may_change(ask: Asker, topic: str, policy: str) -> None:
    assert alter(ask, ResourceType.TOPIC, topic, "cleanup.policy", policy) is ErrorCode.INVALID_CONFIG
    assert alter(ask, ResourceType.TOPIC, topic, "segment.bytes", "2097152") is ErrorCode.NONE


@pytest.mark.parametrize("topic", INTERNAL)
def test_settings_that_the_owner_could_not_work_with_are_refused(ask: Asker, topic: str) -> None:
    for setting, wrong, right in (("max.message.bytes", "10", "2000000"), ("min.insync.replicas", "5", "1")):
        assert alter(ask, ResourceType.TOPIC, topic, setting, wrong) is ErrorCode.INVALID_CONFIG
        assert alter(ask, ResourceType.TOPIC, topic, setting, right) is ErrorCode.NONE


@pytest.mark.parametrize(
    "name", ["a b", "x" * 250, "..", *INTERNAL, "__kompat_trace", "__kompat_<topic>", "__cluster_metadata", "é"]
)
def test_a_group_gets_no_dead_letter_topic_that_cannot_be(ask: Asker, name: str) -> None:
    setting = "errors.deadletterqueue.topic.name"

    assert alter(ask, ResourceType.GROUP, "workers", setting, name) is ErrorCode.INVALID_CONFIG
    assert alter(ask, ResourceType.GROUP, "workers", setting, "dead.<topic>") is ErrorCode.NONE


def alter(ask: Asker, kind: ResourceType, name: str, setting: str, value: str) -> ErrorCode:
    configs = [{"name": setting, "config_operation": 0, "value": value}]
    resource = {"resource_type": int(kind), "resource_name": name, "configs": configs}
    return ErrorCode(ask("IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code)


BY_HTTP = {
    "rest": ("/v1/topics/{topic}/messages", {"messages": [{"value": "v", "key": "k"}]}),
    "falconq": ("/topic/{topic}/publish", {"message": "v", "priority": "high"}),
    "queue": ("/sendMessage", {"topic": "{topic}", "data": "dg==", "partitionKey": "k"}),
    "queue, a new topic": ("/topics", {"name": "{topic}"}),
}


@pytest.mark.parametrize("topic", [*INTERNAL, "__kompat_trace"])
@pytest.mark.parametrize("way", BY_HTTP)
def test_nothing_comes_into_an_internal_topic_by_http(ask: Asker, topic: str, way: str) -> None:
    ends = end_of(ask, topic)
    path, body = BY_HTTP[way]

    post(ask.broker.http_url + path.replace("{topic}", topic), json.dumps(body).replace("{topic}", topic))

    assert end_of(ask, topic) == ends


def post(url: str, body: str) -> None:
    request = Request(url, body.encode(), {"content-type": "application/json"})  # noqa: S310 - the broker's own address
    try:
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            results = json.loads(answer.read()).get("results", [{}])
            assert all("error" in each for each in results), results
    except HTTPError as error:
        assert 400 <= error.code < 500  # noqa: PT017


def test_dead_letters_do_not_go_back_into_an_internal_topic(ask: Asker) -> None:
    ask("CreateTopics", 7, topics=[{"name": "dlq.forged", "num_partitions": 1, "replication_factor": 1}])
    origin = {"topic": OFFSETS, "partition": "0", "offset": "0", "group": "g", "delivery.count": "1", "message": "m"}
    headers = [(f"__dlq.errors.{name}", value.encode()) for name, value in origin.items()]
    batch = build_batch([Record(0, 1, b"k", b"v", headers)])
    data = [{"name": "dlq.forged", "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    assert (
        ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=data).responses[0].partition_responses[0].error_code == 0
    )
    ends = end_of(ask, OFFSETS)

    request = Request(f"{ask.broker.http_url}/v1/dead-letters/dlq.forged/redrive", b'{"all":true}', {"content-type": "application/json"})  # fmt: skip  # noqa: S310
    with urlopen(request, timeout=10) as answer:  # noqa: S310
        assert json.loads(answer.read())["redriven"] == 0
    assert end_of(ask, OFFSETS) == ends


# -- what is there already ---------------------------------------------------------------------------------------------
GARBAGE = [
    (b"", b""),
    (b"k", b"v"),
    (b"\x00", None),
    (b"\x00\x01\xff", b""),
    (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x63"),
    (b"\x00\x02\x00\x01g", b"\x00\x03\xff\xff"),
    (b"\x00\x05\x00\x01g\x00\x01m", b"\x00\x00\xff\xff\xff\xff"),
    (b"\x00\x00\x00\x01g" + bytes(16) + bytes(4), b"\x00\x00\x00"),
    (b"\x00\x00\x00\x06copier", b"\x00\x01" + b"\xff" * 11 + b"\x63"),
    *((pack(">h", kind) + b"\x00\x01g\x00\x01m", value) for kind in range(18) for value in (b"", b"\xff" * 40, b"\0" * 60)),
]  # fmt: skip


# Records that can be read, of things that cannot be.
NONSENSE = {
    TRANSACTIONS: [
        transaction_record(
            Changed(
                Transaction(
                    transactional_id="forged",
                    producer_id=1 << 40,
                    producer_epoch=7,
                    timeout_ms=-1,
                    state=state,
                    partitions=frozenset(
                        {TopicPartition("t", 0), TopicPartition("t", -1), TopicPartition(TRANSACTIONS, 0), TopicPartition("no", 3)}
                    ),
                )
            )
        )
        for state in (State.ONGOING, State.PREPARE_COMMIT)
    ],
    SHARES: [
        ShareCodec().encode(
            ShareSnapshot(
                key=ShareKey("workers", UUID(int=5), -1),
                snapshot_epoch=-1,
                state_epoch=-1,
                leader_epoch=-1,
                start_offset=Offset(-9),
                complete_count=-5,
                create_timestamp=Millis(-1),
                write_timestamp=Millis(-1),
                batches=(StateBatch(9, 3, RecordState.ARCHIVING, 1),),
            )
        )
    ],
}  # fmt: skip


async def forge(directory: str, partitions: list[tuple[str, UUID]], records: list[tuple[bytes, bytes | None]]) -> None:
    """What an older version would have let in: straight into the log of a broker that is stopped."""
    store = RocksStore(directory)
    commits = GroupCommit(store, asyncio.get_running_loop())
    logs = Logs(store, commits, SystemClock())
    for name, topic in partitions:
        log = logs.open(LogId(topic, 0), name, 0, TopicConfig())
        for each in (*records, *NONSENSE.get(name, ())):
            log.append(memoryview(build_batch([Record(0, 1, *each)])), origin=Origin.OWNER)
    await logs.close()
    await commits.close()
    store.close()


def test_coordinators_work_on_after_a_restart_whatever_was_put_into_their_topics(tmp_path: Path) -> None:
    settings = {**ONE_PARTITION, "data": str(tmp_path / "data")}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)
        use_all(ask, "t")
        ids = [(name, topic_id(ask, name)) for name in INTERNAL]

    asyncio.run(forge(settings["data"], ids, GARBAGE))

    with kompat.testing.broker({**settings, "http": True}) as running:
        ask = Asker(running)
        assert committed(ask, "readers", "t") == (ErrorCode.NONE, 5)
        use_all(ask, "t")
        use_all(ask, "another")
        assert ask("ListGroups", 4).error_code == 0
        assert ask("ListTransactions", 0).error_code == 0
        forged = Transactional(ask, "forged")
        assert forged.init() is ErrorCode.NONE  # its prepared end was completed
        counted = unreadable(running.http_url)
    assert all(counted[name] > 0 for name in INTERNAL)
    assert counted["__cluster_metadata"] == 0


def unreadable(url: str) -> dict[str, float]:
    with urlopen(f"{url}/metrics", timeout=10) as answer:  # noqa: S310 - the broker's own address
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("kompat_unreadable_records_total{")]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in found}


def test_a_record_that_can_be_read_counts_beside_those_that_cannot(tmp_path: Path) -> None:
    settings = {**ONE_PARTITION, "data": str(tmp_path / "data")}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)
        use_all(ask, "t")
        ids = [(OFFSETS, topic_id(ask, OFFSETS))]
    value = OffsetCommitValue(offset=9, leader_epoch=-1, metadata="", commit_timestamp=1 << 41, expire_timestamp=-1)
    good = group_record(OffsetCommit(group_id="readers", topic="t", partition=0, value=value))

    asyncio.run(forge(settings["data"], ids, [GARBAGE[3], good, GARBAGE[3]]))

    with kompat.testing.broker(settings) as running:
        assert committed(Asker(running), "readers", "t") == (ErrorCode.NONE, 9)
