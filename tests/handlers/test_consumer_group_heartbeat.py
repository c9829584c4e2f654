"""ConsumerGroupHeartbeat: groups whose partitions the broker assigns (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import Consumer, a_consumer, new_group, owned

VERSIONS = [0, 1]


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=3)


def assigned(answer: Any) -> set[int] | None:
    """The partitions, of whatever topic."""
    if answer.assignment is None:
        return None
    return {index for each in answer.assignment.topic_partitions for index in each.partitions}


@pytest.mark.parametrize("version", VERSIONS)
def test_who_joins_alone_gets_everything_at_once(prompt: Asker, topic: str, version: int) -> None:
    member = a_consumer(prompt, version=version)

    answer = member.join(topic)

    assert (answer.error_code, answer.error_message, answer.member_id) == (ErrorCode.NONE, None, member.member_id)
    assert answer.member_epoch > 0
    assert answer.heartbeat_interval_ms == 5000
    assert answer.assignment.topic_partitions[0].topic_id == owned(prompt, topic)[0]["topic_id"]
    assert assigned(answer) == {0, 1, 2}


def test_in_version_0_the_broker_chooses_the_members_id(prompt: Asker, topic: str) -> None:
    answer = Consumer(prompt, new_group(), "", version=0).join(topic)

    assert (answer.error_code, len(answer.member_id)) == (ErrorCode.NONE, 22)


def test_in_version_1_the_member_chooses_its_id(prompt: Asker, topic: str) -> None:
    answer = Consumer(prompt, new_group(), "").join(topic)

    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_REQUEST, None)
    assert answer.error_message == "MemberId can't be empty."


def test_the_assignment_is_told_when_it_changes_only(prompt: Asker, topic: str) -> None:
    first = a_consumer(prompt)
    epoch = first.join(topic).member_epoch
    everything = owned(prompt, topic, 0, 1, 2)

    assert assigned(first.beat(epoch, topic_partitions=everything)) is None
    second = a_consumer(prompt, first.group)
    assert assigned(second.join(topic)) == set()
    kept = assigned(first.beat(epoch))
    assert kept is not None
    assert len(kept) == 2
    acknowledged = first.beat(epoch, topic_partitions=owned(prompt, topic, *kept))
    assert acknowledged.member_epoch == epoch + 1
    assert assigned(second.beat(epoch + 1)) == {0, 1, 2} - kept


def test_the_assignor_that_a_member_names_is_used(prompt: Asker, topic: str) -> None:
    member = a_consumer(prompt)
    member.join(topic, server_assignor="range")

    [group] = prompt("ConsumerGroupDescribe", 1, group_ids=[member.group]).groups

    assert group.assignor_name == "range"


def test_a_member_subscribes_by_an_expression(prompt: Asker) -> None:
    topics = [prompt.new_topic() for _ in range(2)]
    member = a_consumer(prompt)

    answer = member.join(subscribed_topic_regex=f"{topics[0]}|{topics[1]}")

    assert len(answer.assignment.topic_partitions) == 2


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"server_assignor": "nope"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor nope is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_makes_no_sense_may_not_join(
    prompt: Asker, topic: str, fields: dict[str, Any], code: ErrorCode, message: str, version: int
) -> None:
    answer = a_consumer(prompt, version=version).join(topic, **fields)

    assert (answer.error_code, answer.error_message) == (code, message)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


def test_an_expression_that_is_none_may_not_join(prompt: Asker) -> None:
    answer = a_consumer(prompt).join(subscribed_topic_regex="(")

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message.startswith("SubscribedTopicRegex `(` is not a valid regular expression")


def test_a_group_needs_a_name(prompt: Asker, topic: str) -> None:
    assert Consumer(prompt, "", "somebody").join(topic).error_code == ErrorCode.INVALID_REQUEST


def test_who_is_unknown_or_in_another_epoch_is_told_so(prompt: Asker, topic: str) -> None:
    member = a_consumer(prompt)
    epoch = member.join(topic).member_epoch

    assert member.beat(epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert a_consumer(prompt, member.group).beat(epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert a_consumer(prompt).beat(epoch).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_leaves_is_answered_with_the_epoch_of_those_who_left(prompt: Asker, topic: str) -> None:
    member = a_consumer(prompt)
    member.join(topic)

    answer = member.leave()

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, member.member_id, -1)
    assert member.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_replaced_only_after_it_left(prompt: Asker, topic: str) -> None:
    before = a_consumer(prompt)
    after = a_consumer(prompt, before.group)
    epoch = before.join(topic, instance_id="one").member_epoch

    assert after.join(topic, instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert before.beat(-2, instance_id="one").member_epoch == -2
    back = after.join(topic, instance_id="one")
    assert (back.error_code, assigned(back)) == (ErrorCode.NONE, {0, 1, 2})
    assert before.beat(epoch, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
