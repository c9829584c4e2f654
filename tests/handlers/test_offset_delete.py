"""OffsetDelete."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import commit, committed, new_group, only_member, subscription


def forget(ask: Asker, group: str, topics: dict[str, list[int]]) -> tuple[ErrorCode, dict[str, list[ErrorCode]]]:
    asked = [{"name": name, "partitions": [{"partition_index": i} for i in wanted]} for name, wanted in topics.items()]
    answer = ask("OffsetDelete", 0, group_id=group, topics=asked)
    told = {each.name: [ErrorCode(p.error_code) for p in each.partitions] for each in answer.topics}
    return ErrorCode(answer.error_code), told


def test_offsets_are_forgotten_and_what_does_not_exist_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group = new_group()
    commit(prompt, group, topic, partitions=[0, 1])

    assert forget(prompt, group, {topic: [0, 9], "no-such-topic": [0]}) == (
        ErrorCode.NONE,
        {
            topic: [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            "no-such-topic": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        },
    )
    assert committed(prompt, group, topic, 0) == (ErrorCode.NONE, -1)
    assert committed(prompt, group, topic, 1) == (ErrorCode.NONE, 5)


def test_a_group_keeps_the_offsets_of_topics_that_it_reads(prompt: Asker, topic: str) -> None:
    group, other = new_group(), prompt.new_topic()
    for each in (topic, other):
        commit(prompt, group, each)
    only_member(prompt, group, protocols={"range": subscription(topic)})

    assert forget(prompt, group, {topic: [0], other: [0]}) == (
        ErrorCode.NONE,
        {topic: [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC], other: [ErrorCode.NONE]},
    )


def test_offsets_of_groups_that_are_no_groups_or_not_of_consumers_cannot_be_forgotten(
    prompt: Asker, topic: str
) -> None:
    connect = new_group()
    only_member(prompt, connect, protocol_type="connect")

    assert forget(prompt, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
    assert forget(prompt, "no-such-group", {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert forget(prompt, connect, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})
