"""ConsumerGroupDescribe: groups whose partitions the broker assigns (KIP-848)."""

from __future__ import annotations

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import NO_TOPICS, a_consumer, new_group, only_member, owned, subscription

VERSIONS = [0, 1]
CLASSIC, CONSUMER = 0, 1
NOT_REQUESTED = -(2**31)


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=3)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_described_in_every_version(prompt: Asker, topic: str, version: int) -> None:
    consumer = a_consumer(prompt)
    epoch = consumer.join(topic, rack_id="here", instance_id="one").member_epoch

    [group] = prompt("ConsumerGroupDescribe", version, group_ids=[consumer.group]).groups

    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
    assert group.group_epoch == group.assignment_epoch == epoch
    assert group.authorized_operations == NOT_REQUESTED
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
    assert [each.authorized_operations for each in answer.groups] == [read_delete_describe_and_configs, NOT_REQUESTED]


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
