"""DescribeQuorum."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


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
