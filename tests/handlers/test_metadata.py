from __future__ import annotations

from uuid import UUID, uuid4

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.handlers.support.addresses import reachable_controller
from tests.handlers.conftest import Asker

ALL_ON_TOPIC = {3, 4, 5, 6, 7, 8, 10, 11}
ALL_ON_CLUSTER = {5, 7, 8, 9, 10, 11, 12}


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(ask: Asker, version: int) -> None:
    name = ask.new_topic(partitions=2)

    answer = ask("Metadata", version, topics=[{"name": name}])

    [topic] = answer.topics
    assert (topic.name, topic.error_code) == (name, ErrorCode.NONE)
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, ask.broker.host, ask.broker.port)]
    assert answer.controller_id == (1 if version >= 1 else -1)


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (13, None)])
def test_all_topics_are_asked_for_by_null_and_in_v0_by_none(
    ask: Asker, version: int, topics: list[object] | None
) -> None:
    name = ask.new_topic()

    assert name in {t.name for t in ask("Metadata", version, topics=topics).topics}


def test_no_topics_asks_for_brokers_only(ask: Asker) -> None:
    answer = ask("Metadata", 12, topics=[])

    assert answer.topics == []
    assert len(answer.brokers) == 1


def test_a_topic_is_found_by_its_id_and_names_beside_ids_are_ignored(ask: Asker) -> None:
    name = ask.new_topic()
    topic_id = ask("Metadata", 12, topics=[{"name": name}]).topics[0].topic_id

    answer = ask("Metadata", 12, topics=[{"name": None, "topic_id": topic_id}, {"name": "other"}])

    assert [(t.name, t.topic_id, t.error_code) for t in answer.topics] == [(name, topic_id, 0)]


def test_an_unknown_id_is_answered_without_a_name(ask: Asker) -> None:
    missing = uuid4()

    [topic] = ask("Metadata", 12, topics=[{"name": None, "topic_id": missing}]).topics

    assert (topic.name, topic.topic_id, topic.error_code) == (None, missing, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_v12(ask: Asker, version: int) -> None:
    answer = ask("Metadata", version, topics=[{"name": "x", "topic_id": UUID(int=5)}])

    assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_missing_topic_is_created_and_answered_ready_to_use(ask: Asker) -> None:
    [topic] = ask("Metadata", 12, topics=[{"name": "made-by-asking"}], allow_auto_topic_creation=True).topics

    assert topic.error_code == ErrorCode.NONE
    assert topic.topic_id is not None
    assert len(topic.partitions) == 1


def test_a_missing_topic_is_not_created_where_the_client_does_not_want_it(ask: Asker) -> None:
    [topic] = ask("Metadata", 12, topics=[{"name": "not-made"}], allow_auto_topic_creation=False).topics

    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_missing_topic_is_not_created_where_the_broker_does_not_want_it() -> None:
    with kompat.testing.broker(auto_create_topics_enable=False) as running:
        [topic] = Asker(running)("Metadata", 12, topics=[{"name": "x"}], allow_auto_topic_creation=True).topics

    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("name", ["bad name", "..", "", "x" * 250])
def test_an_impossible_name_is_refused(ask: Asker, name: str, allowed: bool) -> None:
    [topic] = ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=allowed).topics

    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_asked_for_twice_is_answered_once(ask: Asker) -> None:
    name = ask.new_topic()

    assert len(ask("Metadata", 12, topics=[{"name": name}, {"name": name}]).topics) == 1


def test_operations_are_told_where_asked_for(ask: Asker) -> None:
    name = ask.new_topic()
    wanted = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}

    asked = ask("Metadata", 10, topics=[{"name": name}], **wanted)
    not_asked = ask("Metadata", 10, topics=[{"name": name}])

    assert (asked.topics[0].authorized_operations, asked.authorized_operations) == (ALL_ON_TOPIC, ALL_ON_CLUSTER)
    assert (not_asked.topics[0].authorized_operations, not_asked.authorized_operations) == (None, None)


def test_clients_are_sent_to_the_advertised_address() -> None:
    with kompat.testing.broker({"advertised.listeners": "PLAINTEXT://broker.example:1234"}) as running:
        [broker] = Asker(running)("Metadata", 12, topics=[]).brokers

    assert (broker.host, broker.port) == ("broker.example", 1234)


def test_internal_topics_are_told_apart(ask: Asker) -> None:
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])
    [topic] = ask("Metadata", 12, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=True).topics

    assert topic.is_internal is True


@pytest.mark.parametrize(
    ("known", "listed", "told"),
    [(2, [1, 2, 3], 2), (None, [1, 2, 3], 1), (2, [1, 3], 1), (2, [3], 3), (2, [], -1)],
    ids=["as it is", "not known yet", "not there", "and this one neither", "nobody is"],
)
def test_clients_hear_of_a_controller_that_they_can_reach(known: int | None, listed: list[int], told: int) -> None:
    assert reachable_controller(known, 1, listed) == told
