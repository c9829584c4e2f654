"""DeleteShareGroupOffsets."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.share_groups import alter, ask, forget, group, offsets, topic

__all__ = ["ask", "group", "topic"]


def test_offsets_are_forgotten(ask: Asker, group: str, topic: str) -> None:
    alter(ask, group, topic, 5)

    answer = forget(ask, group, topic, "absent")

    assert [(each.topic_name, each.error_code) for each in answer.responses] == [
        (topic, ErrorCode.NONE),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert offsets(ask, group) == []
    [again] = forget(ask, group, topic).responses
    assert again.error_message == "There is no offset information to delete."
    assert forget(ask, "nobody", topic).error_code == ErrorCode.GROUP_ID_NOT_FOUND
