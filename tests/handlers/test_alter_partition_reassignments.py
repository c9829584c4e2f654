"""AlterPartitionReassignments."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


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
