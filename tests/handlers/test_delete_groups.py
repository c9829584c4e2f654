"""DeleteGroups: groups without members are deleted with their offsets."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import (
    a_consumer,
    an_empty_group,
    commit,
    committed,
    new_group,
    only_member,
)
from tests.handlers.share import beat
from tests.handlers.share_groups import ask, group, offsets, topic

__all__ = ["ask", "group", "topic"]


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted_with_their_offsets(prompt: Asker, version: int) -> None:
    topic = prompt.new_topic()
    full, empty = new_group(), an_empty_group(prompt)
    only_member(prompt, full)
    commit(prompt, empty, topic)

    answer = prompt("DeleteGroups", version, groups_names=[full, empty, "no-such-group", empty])

    assert [(each.group_id, each.error_code) for each in answer.results] == [
        (full, ErrorCode.NON_EMPTY_GROUP),
        (empty, ErrorCode.NONE),
        ("no-such-group", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert committed(prompt, empty, topic) == (ErrorCode.NONE, -1)


def test_a_consumer_group_is_deleted_when_its_members_have_left(prompt: Asker) -> None:
    consumer = a_consumer(prompt)
    consumer.join(prompt.new_topic())

    def delete() -> ErrorCode:
        return ErrorCode(prompt("DeleteGroups", 2, groups_names=[consumer.group]).results[0].error_code)

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    consumer.leave()
    assert delete() is ErrorCode.NONE
    assert delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_where_it_stood(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    [busy] = ask("DeleteGroups", 2, groups_names=[group]).results
    assert busy.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(ask, group, "m1", -1)
    assert offsets(ask, group) == [(0, -1), (1, -1), (2, -1)]

    [deleted] = ask("DeleteGroups", 2, groups_names=[group]).results

    assert deleted.error_code == ErrorCode.NONE
    assert offsets(ask, group) == []
    assert group not in [each.group_id for each in ask("ListGroups", 5, types_filter=[], states_filter=[]).groups]
