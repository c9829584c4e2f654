"""CreatePartitions."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(ask: Asker, version: int) -> None:
    name = ask.new_topic()

    [result] = ask("CreatePartitions", version, topics=[{"name": name, "count": 3}], timeout_ms=1000).results

    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert len(ask("Metadata", 12, topics=[{"name": name}]).topics[0].partitions) == 3


def test_partitions_are_not_added_by_validate_only(ask: Asker) -> None:
    name = ask.new_topic()

    [result] = ask("CreatePartitions", 3, topics=[{"name": name, "count": 3}], validate_only=True).results

    assert result.error_code == ErrorCode.NONE
    assert len(ask("Metadata", 12, topics=[{"name": name}]).topics[0].partitions) == 1


def test_a_topic_does_not_shrink(ask: Asker) -> None:
    name = ask.new_topic(partitions=2)

    [result] = ask("CreatePartitions", 3, topics=[{"name": name, "count": 1}]).results

    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_PARTITIONS,
        f"The topic {name} currently has 2 partition(s); 1 would not be an increase.",
    )


def test_partitions_of_a_missing_topic_are_refused_without_a_text(ask: Asker) -> None:
    [result] = ask("CreatePartitions", 3, topics=[{"name": "nope", "count": 1}]).results

    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
