"""Who has no right to something is told so, by the error that Kafka has for it, and learns nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.handlers import APIS
from kompat.security.acls import CLUSTER_NAME, Kind, Operation, Pattern
from tests.handlers import rights, wire
from tests.handlers.principals import SETTINGS, Parties
from tests.handlers.rights import CASES, Case

ON_CLUSTER = (Operation.ALL, Kind.CLUSTER, CLUSTER_NAME)
READS, WRITES, DESCRIBES = (
    (op, Kind.TOPIC, rights.TOPIC) for op in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Parties]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "group.initial.rebalance.delay.ms": 0,
    }
    with kompat.testing.broker(SETTINGS | listeners) as broker:
        parties = Parties((broker.host, broker.port), ("127.0.0.1", port))
        parties.prepare()
        yield parties


@pytest.fixture
def parties(guarded: Parties) -> Iterator[Parties]:
    yield guarded
    guarded.revoke_all()


def test_the_table_has_every_api() -> None:
    assert {case.api for case in CASES} | rights.FREE | rights.FILTERED == {api.name for api in APIS}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_of_the_rights_is_needed_and_all_are_enough_unless_one_is_denied(parties: Parties, case: Case) -> None:
    assert wire.error_codes(parties.asks(case)) - {ErrorCode.NONE} == {case.denied}
    for right in case.needs:
        assert wire.error_codes(parties.asks(case)) & rights.DENIALS
        parties.allow(right)
    assert not wire.error_codes(parties.asks(case)) & rights.DENIALS

    parties.deny(case.needs[-1])

    assert wire.error_codes(parties.asks(case)) & rights.DENIALS


def test_topics_of_groups_that_are_there_are_judged_too(parties: Parties) -> None:
    share = _case("ShareGroupHeartbeat").fields(parties.topic_id)
    group, member = share["group_id"], share["member_id"]
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    parties.admin("OffsetCommit", 8, group_id="judged", topics=[{"name": rights.TOPIC, "partitions": [partition]}])
    parties.admin("ShareGroupHeartbeat", 1, **share)
    parties.admin("ShareGroupHeartbeat", 1, group_id=group, member_id=member, member_epoch=-1)
    parties.allow((Operation.ALL, Kind.GROUP, "judged"), (Operation.ALL, Kind.GROUP, group))

    for api, fields in {
        "OffsetDelete": {"topics": [{"name": rights.TOPIC, "partitions": [{"partition_index": 0}]}]},
        "AlterShareGroupOffsets": {
            "topics": [{"topic_name": rights.TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
        },
        "DeleteShareGroupOffsets": {"topics": [{"topic_name": rights.TOPIC}]},
    }.items():
        answer = parties.alice(api, 0, group_id="judged" if api == "OffsetDelete" else group, **fields)
        assert wire.error_codes(answer) == {ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED}, answer


def test_records_of_a_topic_that_may_not_be_read_cannot_be_acknowledged(parties: Parties) -> None:
    parties.allow((Operation.READ, Kind.GROUP, rights.GROUP))
    begin, acknowledge = _case("ShareFetch"), _case("ShareAcknowledge")

    _, answer = parties.alice_goes_on(
        *((case.api, case.version, case.fields(parties.topic_id)) for case in (begin, acknowledge))
    )

    assert wire.error_codes(answer) == {ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def _case(api: str) -> Case:
    return next(case for case in CASES if case.api == api)


# -- what is left out ----------------------------------------------------------------------------------------------------
def _names(answer: Any, field: str, name: str) -> set[str]:
    return {getattr(each, name) for each in getattr(answer, field)}


def test_only_topics_that_may_be_described_are_listed(parties: Parties) -> None:
    assert _names(parties.alice("Metadata", 12, topics=None), "topics", "name") == set()
    assert parties.alice("DescribeTopicPartitions", 0, topics=[], response_partition_limit=9, cursor=None).topics == []

    parties.allow(READS)

    assert _names(parties.alice("Metadata", 12, topics=None), "topics", "name") == {rights.TOPIC}


def test_who_may_describe_a_topic_but_not_create_one_is_not_given_one(parties: Parties) -> None:
    parties.allow((Operation.DESCRIBE, Kind.TOPIC, rights.ABSENT))
    [topic] = parties.alice("Metadata", 12, topics=[{"name": rights.ABSENT}], allow_auto_topic_creation=True).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    listed = parties.admin("Metadata", 12, topics=[{"name": rights.ABSENT}], allow_auto_topic_creation=False)
    assert listed.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_only_groups_and_transactions_that_may_be_described_are_listed(parties: Parties) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    for group in ("seen", "unseen"):
        parties.admin("OffsetCommit", 8, group_id=group, topics=[{"name": rights.TOPIC, "partitions": [partition]}])
        parties.admin("InitProducerId", 4, transactional_id=group, transaction_timeout_ms=10_000)
    parties.allow((Operation.READ, Kind.GROUP, "seen"), (Operation.WRITE, Kind.TRANSACTIONAL_ID, "seen"))

    assert _names(parties.alice("ListGroups", 4), "groups", "group_id") == {"seen"}
    transactions = parties.alice("ListTransactions", 0)
    assert _names(transactions, "transaction_states", "transactional_id") == {"seen"}

    parties.allow((Operation.DESCRIBE, Kind.CLUSTER, CLUSTER_NAME))
    assert {"seen", "unseen"} <= _names(parties.alice("ListGroups", 4), "groups", "group_id")


def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(parties: Parties) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    parties.admin("OffsetCommit", 8, group_id="offsets", topics=[{"name": rights.TOPIC, "partitions": [partition]}])
    parties.allow((Operation.DESCRIBE, Kind.GROUP, "offsets"))
    everything = [{"group_id": "offsets", "topics": None}]
    assert parties.alice("OffsetFetch", 9, groups=everything).groups[0].topics == []

    parties.allow(DESCRIBES)

    assert _names(parties.alice("OffsetFetch", 9, groups=everything).groups[0], "topics", "name") == {rights.TOPIC}


def test_each_topic_of_a_request_is_judged_by_itself(parties: Parties) -> None:
    parties.admin("CreateTopics", 7, topics=[{"name": "other", "num_partitions": 1, "replication_factor": 1}])
    parties.allow(READS)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    wanted = [{"topic": name, "partitions": [partition]} for name in (rights.TOPIC, "other")]

    answer = parties.alice("Fetch", 12, max_wait_ms=0, min_bytes=0, max_bytes=9, session_epoch=-1, topics=wanted)

    codes = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {rights.TOPIC: ErrorCode.NONE, "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_new_topics_settings_are_not_told_to_who_may_not_describe_them(parties: Parties) -> None:
    parties.allow((Operation.CREATE, Kind.TOPIC, rights.ABSENT))
    wanted = {"name": rights.ABSENT, "num_partitions": 3, "replication_factor": 1}

    [topic] = parties.alice("CreateTopics", 7, topics=[wanted], validate_only=True).topics

    assert topic.error_code == ErrorCode.NONE
    assert (topic.topic_config_error_code, topic.configs) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


def test_a_topics_name_is_not_told_to_who_only_has_its_id(parties: Parties) -> None:
    by_id = [{"name": None, "topic_id": parties.topic_id}]
    [topic] = parties.alice("DeleteTopics", 6, topics=by_id).responses
    assert (topic.name, topic.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    parties.allow(DESCRIBES)

    [topic] = parties.alice("DeleteTopics", 6, topics=by_id).responses
    assert (topic.name, topic.error_code) == (rights.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_a_group_is_not_described_to_who_may_not_see_its_topics(parties: Parties) -> None:
    member = _case("ConsumerGroupHeartbeat")
    fields = member.fields(parties.topic_id)
    assert parties.admin(member.api, member.version, **fields).error_code == ErrorCode.NONE
    parties.allow((Operation.DESCRIBE, Kind.GROUP, fields["group_id"]))

    [group] = parties.alice("ConsumerGroupDescribe", 0, group_ids=[fields["group_id"]]).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])

    parties.allow(DESCRIBES)
    [group] = parties.alice("ConsumerGroupDescribe", 0, group_ids=[fields["group_id"]]).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)


def test_a_regular_expression_matches_the_topics_that_may_be_described(parties: Parties) -> None:
    for name in ("regex-seen", "regex-unseen"):
        parties.admin("CreateTopics", 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}])
    parties.allow((Operation.READ, Kind.GROUP, "regex"), (Operation.DESCRIBE, Kind.TOPIC, "regex-seen"))
    topics = parties.admin("Metadata", 12, topics=[{"name": "regex-seen"}], allow_auto_topic_creation=False).topics
    fields = _case("ConsumerGroupHeartbeat").fields(parties.topic_id)
    fields |= {"group_id": "regex", "subscribed_topic_names": None, "subscribed_topic_regex": "regex-.*"}

    answer = parties.alice("ConsumerGroupHeartbeat", 1, **fields)

    assert answer.error_code == ErrorCode.NONE
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [topics[0].topic_id]


# -- what only kompat has ------------------------------------------------------------------------------------------------
def test_nobody_makes_a_queue_of_a_topic_that_he_may_not_read(parties: Parties) -> None:
    parties.allow((Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME))
    source = {"name": "kompat.queue.source", "value": rights.TOPIC}
    wanted = {"name": "rights-queue", "num_partitions": 1, "replication_factor": 1, "configs": [source]}

    [topic] = parties.alice("CreateTopics", 7, topics=[wanted], validate_only=True).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    parties.allow(READS)
    [topic] = parties.alice("CreateTopics", 7, topics=[wanted], validate_only=True).topics
    assert topic.error_code == ErrorCode.NONE


def test_a_right_to_read_that_is_taken_away_ends_for_queues_of_the_topic_too(parties: Parties) -> None:
    source = {"name": "kompat.queue.source", "value": rights.TOPIC}
    wanted = {"name": "rights-work", "num_partitions": 1, "replication_factor": 1, "configs": [source]}
    parties.admin("CreateTopics", 7, topics=[wanted])
    reads_queue = (Operation.READ, Kind.TOPIC, "rights-work")
    asked = {
        "topic": "rights-work",
        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
    }

    def fetched() -> ErrorCode:
        fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": [asked]}
        return ErrorCode(parties.alice("Fetch", 11, **fields).responses[0].partitions[0].error_code)

    parties.allow(reads_queue, READS)
    assert fetched() is ErrorCode.NONE

    parties.deny(READS)
    assert fetched() is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    parties.revoke_all()
    parties.allow(reads_queue)
    assert fetched() is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_nobody_has_dead_letters_sent_where_he_may_not_write(parties: Parties) -> None:
    parties.allow((Operation.ALTER_CONFIGS, Kind.GROUP, rights.GROUP))
    setting = {"name": "errors.deadletterqueue.topic.name", "config_operation": 0}

    def codes(value: str) -> set[int]:
        resource = {"resource_type": 32, "resource_name": rights.GROUP, "configs": [setting | {"value": value}]}
        return wire.error_codes(parties.alice("IncrementalAlterConfigs", 1, resources=[resource], validate_only=True))

    assert codes("dlq.<topic>") == {ErrorCode.NONE}
    assert codes(rights.TOPIC) == codes("of-<topic>") == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    parties.allow(WRITES)
    assert codes(rights.TOPIC) == {ErrorCode.NONE}
    assert codes("of-<topic>") == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


# -- rights that stand for others ----------------------------------------------------------------------------------------
def test_who_may_write_to_any_topic_may_be_idempotent(parties: Parties) -> None:
    parties.allow(WRITES)

    answer = parties.alice("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=10_000)

    assert answer.error_code == ErrorCode.NONE


def test_patterns_hosts_and_everybody(parties: Parties) -> None:
    asked = {"topics": [{"name": rights.TOPIC}], "allow_auto_topic_creation": False}
    for other, code in (
        ({"resource_name": rights.TOPIC[:3], "resource_pattern_type": Pattern.PREFIXED}, ErrorCode.NONE),
        ({"resource_name": "*"}, ErrorCode.NONE),
        ({"principal": "User:*"}, ErrorCode.NONE),
        ({"host": "127.0.0.1"}, ErrorCode.NONE),
        ({"host": "127.0.0.2"}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ({"principal": "User:bob"}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ({"resource_name": rights.TOPIC[:3]}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        parties.allow(READS, **other)
        assert parties.alice("Metadata", 12, **asked).topics[0].error_code == code, other
        parties.revoke_all()


def test_everybody_is_told_what_he_may_do(parties: Parties) -> None:
    parties.allow(READS, (Operation.DESCRIBE, Kind.GROUP, rights.GROUP))
    told = parties.alice(
        "Metadata",
        10,
        topics=[{"name": rights.TOPIC}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )

    assert told.topics[0].authorized_operations == {Operation.READ, Operation.DESCRIBE}
    assert told.authorized_operations == set()
    cluster = parties.alice("DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert cluster.authorized_operations == set()

    parties.allow(ON_CLUSTER)
    cluster = parties.alice("DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert Operation.CLUSTER_ACTION in cluster.authorized_operations
