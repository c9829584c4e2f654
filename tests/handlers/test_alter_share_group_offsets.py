"""AlterShareGroupOffsets."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import new_group
from tests.handlers.share import beat
from tests.handlers.share_groups import alter, ask, assigned, forget, group, offsets, topic

__all__ = ["ask", "group", "topic"]


def test_offsets_can_be_set_before_the_group_exists(ask: Asker, group: str, topic: str) -> None:
    answer = alter(ask, group, topic, 5, 6, 7, 8)

    [answered] = answer.responses
    assert [(each.partition_index, each.error_code) for each in answered.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (2, ErrorCode.NONE),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert offsets(ask, group) == offsets(ask, group, topic) == [(0, 5), (1, 6), (2, 7)]
    assert assigned(beat(ask, group, "m1", 0, topic)) == {0, 1, 2}
    assert offsets(ask, group) == [(0, 5), (1, 6), (2, 7)]


def test_offsets_of_a_group_with_members_stay(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    for answer in (alter(ask, group, topic, 5), forget(ask, group, topic)):
        assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert answer.responses == []


def test_offsets_are_only_those_of_share_groups(ask: Asker, topic: str) -> None:
    group = new_group()
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    ask("OffsetCommit", 9, group_id=group, topics=[{"name": topic, "partitions": partitions}])

    message = f"Group {group} is not a share group."
    assert (alter(ask, group, topic, 5).error_message, forget(ask, group, topic).error_message) == (message, message)
