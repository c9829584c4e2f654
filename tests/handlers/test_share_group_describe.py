"""ShareGroupDescribe as a client sees it (KIP-932)."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.share import beat
from tests.handlers.share_groups import ask, group, topic

__all__ = ["ask", "group", "topic"]


ON_GROUP, NOT_REQUESTED = 3400, -(2**31)


def test_groups_are_described(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic, rack_id="r1")

    answer = ask("ShareGroupDescribe", 1, group_ids=[group, "nobody", ""], include_authorized_operations=True)

    found, unknown, empty = answer.groups
    assert (found.error_code, found.group_state, found.group_epoch) == (ErrorCode.NONE, "Stable", 2)
    assert (found.assignment_epoch, found.assignor_name, found.authorized_operations) == (2, "simple", ON_GROUP)
    [member] = found.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m1", "r1", 2)
    assert (member.client_id, member.client_host) == ("tests", "/127.0.0.1")
    assert member.subscribed_topic_names == [topic]
    [part] = member.assignment.topic_partitions
    assert (part.topic_name, part.partitions) == (topic, [0, 1, 2])
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert unknown.authorized_operations == NOT_REQUESTED
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID


def test_groups_of_other_kinds_are_not_described(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    [classic] = ask("DescribeGroups", 6, groups=[group]).groups
    [consumer] = ask("ConsumerGroupDescribe", 1, group_ids=[group]).groups

    assert (classic.error_code, classic.error_message, classic.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group} is not a classic group.",
        "Dead",
    )
    assert (consumer.error_code, consumer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group} is not a consumer group.",
    )
