"""ElectLeaders."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


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
