"""DescribeLogDirs."""

from __future__ import annotations

from typing import Any

import pytest

import kompat.testing
from tests.handlers.conftest import Asker
from tests.handlers.topic_with_records import topic

__all__ = ["topic"]


@pytest.mark.parametrize("version", range(1, 6))
def test_the_bytes_of_partitions_are_told(ask: Asker, topic: str, version: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 1, 9]}, {"topic": "nope", "partitions": [0]}]

    [directory] = ask("DescribeLogDirs", version, topics=asked).results

    [found] = directory.topics
    sizes = [(p.partition_index, p.partition_size > 0, p.offset_lag, p.is_future_key) for p in found.partitions]
    assert (found.name, sizes) == (topic, [(0, True, 0, False), (1, False, 0, False)])
    assert directory.log_dir == ":memory:"


def test_null_asks_for_all_partitions_and_none_for_the_disk_alone(ask: Asker, topic: str) -> None:
    [everything] = ask("DescribeLogDirs", 4, topics=None).results
    [nothing] = ask("DescribeLogDirs", 4, topics=[]).results

    assert topic in {t.name for t in everything.topics}
    assert nothing.topics == []


def test_a_disk_tells_its_size(tmp_path: Any) -> None:
    with kompat.testing.broker(data=str(tmp_path)) as running:
        [directory] = Asker(running)("DescribeLogDirs", 5, topics=[]).results

    assert directory.log_dir == str(tmp_path)
    assert directory.total_bytes >= directory.usable_bytes > 0
    assert directory.is_cordoned is False
