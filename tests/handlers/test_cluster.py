"""ApiVersions, FindCoordinator, DescribeCluster, DescribeQuorum, UpdateFeatures, InitProducerId, elections, moves."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kompat.errors import ErrorCode
from kompat.handlers import APIS
from kompat.handlers.api_versions import TELEMETRY

from . import wire
from .conftest import Asker, build

SHARE_KEY = "group:aBU0NnlGSVqMdLMnaOhTUg:0"
ALL_ON_CLUSTER = {5, 7, 8, 9, 10, 11, 12}


CLIENT_METRICS = 16


# -- ApiVersions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(5))
def test_what_is_served_is_advertised_and_nothing_else(ask: Asker, version: int) -> None:
    def advertised() -> list[tuple[int, int, int]]:
        answer = ask("ApiVersions", version, client_software_name="tests", client_software_version="1.0")
        assert answer.error_code == ErrorCode.NONE
        return [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys]

    served = [(api.key, (api.advertised or api.versions).low, api.versions.high) for api in APIS]
    assert advertised() == [each for each in served if each[0] not in TELEMETRY]

    _subscribe(ask, "SET")
    assert advertised() == served
    _subscribe(ask, "DELETE")


def _subscribe(ask: Asker, operation: str) -> None:
    """Want clients' metrics, or want them no more."""
    config = {"name": "metrics", "config_operation": ["SET", "DELETE"].index(operation), "value": "*"}
    resource = {"resource_type": CLIENT_METRICS, "resource_name": "all", "configs": [config]}
    answer = ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("tests", ""), ("-tests", "1")])
def test_a_client_that_does_not_say_who_it_is_is_refused(ask: Asker, name: str, version: str) -> None:
    answer = ask("ApiVersions", 3, client_software_name=name, client_software_version=version)

    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [5, 99])
def test_a_version_of_the_future_is_answered_in_v0_with_the_range_served(ask: Asker, version: int) -> None:
    frame = bytearray(wire.request_frame(build("ApiVersionsRequest", {"client_software_name": "tests"}), 4))
    frame[6:8] = version.to_bytes(2, "big")

    with socket.create_connection((ask.broker.host, ask.broker.port), timeout=10) as connection:
        connection.sendall(frame)
        answer = wire.decode_response("ApiVersions", 0, wire.read_frame(connection))

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("version", [3, 4])
def test_the_clusters_version_is_told_as_a_feature(ask: Asker, version: int) -> None:
    answer = ask("ApiVersions", version, client_software_name="tests", client_software_version="1.0")

    assert {f.name: f.max_version_level for f in answer.finalized_features}["metadata.version"] == 30
    assert answer.finalized_features_epoch >= 0
    assert version > 3 or all(f.min_version > 0 for f in answer.supported_features)


# -- FindCoordinator ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("key_type", [0, 1])
def test_this_broker_coordinates(ask: Asker, version: int, key_type: int) -> None:
    answer = ask("FindCoordinator", version, key="some", **({"key_type": key_type} if version else {}))

    assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, 1)
    assert (answer.host, answer.port) == (ask.broker.host, ask.broker.port)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_many_coordinators_are_found_at_once(ask: Asker, version: int) -> None:
    answer = ask("FindCoordinator", version, key_type=0, coordinator_keys=["a", "b", ""])

    assert [(c.key, c.node_id, c.error_code, c.error_message) for c in answer.coordinators] == [
        ("a", 1, 0, ""),
        ("b", 1, 0, ""),
        ("", 1, 0, ""),
    ]


def test_share_partitions_have_coordinators_from_v6_on(ask: Asker) -> None:
    bad = ["bad", "", f"{SHARE_KEY}x", "group:short:0", ":aBU0NnlGSVqMdLMnaOhTUg:0"]

    new = ask("FindCoordinator", 6, key_type=2, coordinator_keys=[SHARE_KEY, *bad])
    old = ask("FindCoordinator", 5, key_type=2, coordinator_keys=[SHARE_KEY])

    assert [c.error_code for c in new.coordinators] == [0, *[ErrorCode.INVALID_REQUEST] * len(bad)]
    assert [(c.error_code, c.node_id) for c in old.coordinators] == [(ErrorCode.INVALID_REQUEST, -1)]


def test_an_unknown_kind_of_key_is_refused(ask: Asker) -> None:
    old = ask("FindCoordinator", 2, key="g", key_type=9)
    new = ask("FindCoordinator", 6, key_type=9, coordinator_keys=["g"])

    assert (old.error_code, old.node_id, old.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert [c.error_code for c in new.coordinators] == [ErrorCode.INVALID_REQUEST]


# -- DescribeCluster ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(ask: Asker, version: int) -> None:
    answer = ask("DescribeCluster", version, include_cluster_authorized_operations=True)

    assert (answer.error_code, answer.controller_id) == (ErrorCode.NONE, 1)
    assert len(answer.cluster_id) == 22
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, ask.broker.host, ask.broker.port, None)
    ]
    assert answer.authorized_operations == ALL_ON_CLUSTER


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_broker_describes_no_controllers(ask: Asker, endpoint_type: int, code: ErrorCode) -> None:
    answer = ask("DescribeCluster", 1, endpoint_type=endpoint_type)

    assert (answer.error_code, answer.cluster_id, answer.controller_id, answer.brokers) == (code, "", -1, [])
    assert answer.error_message


# -- DescribeQuorum ----------------------------------------------------------------------------------------------------
def quorum(ask: Asker, version: int, topic: str, *indexes: int) -> Any:
    asked = [{"topic_name": topic, "partitions": [{"partition_index": i} for i in indexes]}]
    return ask("DescribeQuorum", version, topics=asked)


@pytest.mark.parametrize("version", range(3))
def test_the_metadata_quorum_is_this_broker(ask: Asker, version: int) -> None:
    answer = quorum(ask, version, "__cluster_metadata", 0)

    [partition] = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code, partition.leader_id) == (0, 0, 1)
    assert [v.replica_id for v in partition.current_voters] == [1]
    assert partition.high_watermark == partition.current_voters[0].log_end_offset > 0
    assert [n.node_id for n in answer.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize(
    ("topic", "indexes"), [("__cluster_metadata", [1]), ("x", [0]), ("__cluster_metadata", [0, 1])]
)
def test_nothing_else_has_a_quorum(ask: Asker, topic: str, indexes: list[int]) -> None:
    answer = quorum(ask, 2, topic, *indexes)

    assert answer.error_code == ErrorCode.NONE
    assert [p.error_code for p in answer.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(indexes)


# -- UpdateFeatures ----------------------------------------------------------------------------------------------------
def update(ask: Asker, version: int, *updates: tuple[str, int, int]) -> Any:
    fields = [
        {"feature": name, "max_version_level": level, **({"upgrade_type": kind} if version else {})}
        for name, level, kind in updates
    ]
    return ask("UpdateFeatures", version, feature_updates=fields)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_may_be_set_to_the_level_it_has(ask: Asker, version: int) -> None:
    answer = update(ask, version, ("metadata.version", 30, 1))

    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    told = [("metadata.version", 0, "NONE")] if version < 2 else []
    assert [(r.feature, r.error_code, r.error_message) for r in answer.results] == told


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("nope", 1, 1, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."),
        ("metadata.version", -1, 1, "A feature version cannot be less than 0."),
        ("metadata.version", 31, 1, "Local controller 1 only supports versions 30-30"),
        ("metadata.version", 30, 7, "The controller does not support the given upgrade type."),
    ],
)
def test_one_impossible_update_refuses_all(ask: Asker, name: str, level: int, kind: int, reason: str) -> None:
    answer = update(ask, 1, ("metadata.version", 30, 1), (name, level, kind))

    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message.endswith(reason)


# -- InitProducerId ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_an_id_of_its_own(ask: Asker, version: int) -> None:
    answers = [ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=1000) for _ in range(3)]

    assert [(a.error_code, a.producer_epoch) for a in answers] == [(0, 0)] * 3
    assert len({a.producer_id for a in answers}) == 3


def test_a_producer_that_lost_its_place_gets_a_new_id(ask: Asker) -> None:
    answer = ask("InitProducerId", 4, transactional_id=None, producer_id=12345, producer_epoch=3)

    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    assert answer.producer_id != 12345


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 3}, {"transactional_id": ""}])
def test_a_request_that_contradicts_itself_is_refused(ask: Asker, fields: dict[str, Any]) -> None:
    answer = ask("InitProducerId", 4, **({"transactional_id": None, "transaction_timeout_ms": 1000} | fields))

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("timeout", [-1, 0, 2**31 - 1])
def test_a_transaction_time_out_has_limits(ask: Asker, timeout: int) -> None:
    answer = ask("InitProducerId", 4, transactional_id="tx", transaction_timeout_ms=timeout)

    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# -- ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments ---------------------------------------------
@pytest.mark.parametrize("version", range(3))
def test_an_election_is_never_needed(ask: Asker, version: int) -> None:
    name = ask.new_topic()
    asked = [{"topic": name, "partitions": [0, 9]}, {"topic": "nope", "partitions": [0]}]

    results = ask("ElectLeaders", version, topic_partitions=asked).replica_election_results

    assert [(r.topic, p.partition_id, p.error_code, p.error_message) for r in results for p in r.partition_result] == [
        (name, 0, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (name, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-9"),
        ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
    ]


def test_an_election_for_all_partitions_names_the_topics_only(ask: Asker) -> None:
    name = ask.new_topic()

    results = ask("ElectLeaders", 2, topic_partitions=None).replica_election_results

    assert {r.topic: r.partition_result for r in results}[name] == []


def test_an_unknown_kind_of_election_is_refused(ask: Asker) -> None:
    answer = ask("ElectLeaders", 2, election_type=5, topic_partitions=[{"topic": "x", "partitions": [0]}])

    [result] = answer.replica_election_results[0].partition_result
    assert answer.error_code == result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Unknown election type 5"


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (0, [1], ErrorCode.NONE),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_stays_where_it_is(ask: Asker, index: int, replicas: list[int] | None, code: ErrorCode) -> None:
    asked = [{"name": ask.new_topic(), "partitions": [{"partition_index": index, "replicas": replicas}]}]

    answer = ask("AlterPartitionReassignments", 1, topics=asked, allow_replication_factor_change=False)

    assert (answer.error_code, answer.allow_replication_factor_change) == (ErrorCode.NONE, False)
    assert [p.error_code for p in answer.responses[0].partitions] == [code]


def test_nothing_is_ever_on_the_move(ask: Asker) -> None:
    for topics in (None, [], [{"name": "nope", "partition_indexes": [0]}]):
        answer = ask("ListPartitionReassignments", 0, topics=topics)

        assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.NONE, None, [])
