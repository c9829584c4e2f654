"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose partitions the broker assigns (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import kompat.testing
from kompat.errors import ErrorCode

from .conftest import Asker
from .members import NO_TOPICS, Consumer, a_consumer, new_group, only_member, subscription

VERSIONS = [0, 1]
CLASSIC, CONSUMER = 0, 1
NOT_ASKED = -(2**31)


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=3)


def assigned(answer: Any) -> set[int] | None:
    """The partitions, of whatever topic."""
    if answer.assignment is None:
        return None
    return {index for each in answer.assignment.topic_partitions for index in each.partitions}


def owned(ask: Asker, topic: str, *indices: int) -> list[dict[str, Any]]:
    topic_id: UUID = ask("Metadata", 12, topics=[{"topic_id": None, "name": topic}]).topics[0].topic_id
    return [{"topic_id": topic_id, "partitions": list(indices)}]


# -- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------------
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


# -- ConsumerGroupDescribe ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_described_in_every_version(prompt: Asker, topic: str, version: int) -> None:
    consumer = a_consumer(prompt)
    epoch = consumer.join(topic, rack_id="here", instance_id="one").member_epoch

    [group] = prompt("ConsumerGroupDescribe", version, group_ids=[consumer.group]).groups

    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
    assert group.group_epoch == group.assignment_epoch == epoch
    assert group.authorized_operations == NOT_ASKED
    [member] = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == (consumer.member_id, "one", "here")
    assert (member.client_id, member.client_host, member.member_epoch) == ("tests", "/127.0.0.1", epoch)
    assert member.subscribed_topic_names == [topic]
    for assignment in (member.assignment, member.target_assignment):
        [part] = assignment.topic_partitions
        assert (part.topic_name, sorted(part.partitions)) == (topic, [0, 1, 2])
        assert part.topic_id == owned(prompt, topic)[0]["topic_id"]
    assert version < 1 or member.member_type == CONSUMER


def test_members_of_either_protocol_are_told_apart_while_a_group_is_rolled_over(prompt: Asker, topic: str) -> None:
    name = new_group()
    classic = only_member(prompt, name, NO_TOPICS, protocols={"range": subscription(topic)})
    consumer = a_consumer(prompt, name)
    assert consumer.join(topic).error_code == ErrorCode.NONE

    [group] = prompt("ConsumerGroupDescribe", 1, group_ids=[name]).groups

    kinds = {each.member_id: each.member_type for each in group.members}
    assert kinds == {classic.member_id: CLASSIC, consumer.member_id: CONSUMER}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_may_be_done_is_told_when_asked(prompt: Asker, topic: str, version: int) -> None:
    consumer = a_consumer(prompt)
    consumer.join(topic)
    groups = [consumer.group, "no-such-group"]

    answer = prompt("ConsumerGroupDescribe", version, group_ids=groups, include_authorized_operations=True)

    read_delete_describe_and_configs = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    assert [each.authorized_operations for each in answer.groups] == [read_delete_describe_and_configs, NOT_ASKED]


def test_each_group_that_cannot_be_described_says_why(prompt: Asker, topic: str) -> None:
    consumer, classic = a_consumer(prompt), new_group()
    consumer.join(topic)
    only_member(prompt, classic)
    asked = ["no-such-group", consumer.group, "", classic, consumer.group]

    answer = prompt("ConsumerGroupDescribe", 1, group_ids=asked)

    assert [(each.group_id, each.error_code, each.error_message) for each in answer.groups] == [
        ("no-such-group", ErrorCode.GROUP_ID_NOT_FOUND, "Group no-such-group not found."),
        (consumer.group, ErrorCode.NONE, None),
        ("", ErrorCode.INVALID_GROUP_ID, None),
        (classic, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic} is not a consumer group."),
        (consumer.group, ErrorCode.NONE, None),
    ]


def test_a_broker_that_serves_classic_groups_only_says_so() -> None:
    with kompat.testing.broker({"group.coordinator.rebalance.protocols": "classic"}) as classic:
        ask = Asker(classic)

        assert a_consumer(ask).join("topic").error_code == ErrorCode.UNSUPPORTED_VERSION
        [group] = ask("ConsumerGroupDescribe", 1, group_ids=["group"]).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
