"""ListPartitionReassignments."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


def test_nothing_is_ever_on_the_move(ask: Asker) -> None:
    for topics in (None, [], [{"name": "nope", "partition_indexes": [0]}]):
        answer = ask("ListPartitionReassignments", 0, topics=topics)

        assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.NONE, None, [])
