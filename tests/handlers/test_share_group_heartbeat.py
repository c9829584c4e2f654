"""ShareGroupHeartbeat as a client sees it (KIP-932)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.share import beat
from tests.handlers.share_groups import ask, assigned, group, topic

__all__ = ["ask", "group", "topic"]


def test_who_joins_has_its_partitions_with_the_first_answer(ask: Asker, group: str, topic: str) -> None:
    answer = beat(ask, group, "m1", 0, topic)

    assert (answer.error_code, answer.error_message, answer.member_id) == (ErrorCode.NONE, None, "m1")
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 5000)
    assert assigned(answer) == {0, 1, 2}
    assert assigned(beat(ask, group, "m1", 2)) is None


def test_members_that_come_at_once_all_have_partitions(ask: Asker, group: str, topic: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda name: beat(ask, group, name, 0, topic), ("m1", "m2", "m3")))

    assert all(assigned(answer) for answer in answers)
    told = [beat(ask, group, name, 0, topic) for name in ("m1", "m2", "m3")]
    assert sorted(number for answer in told for number in assigned(answer) or ()) == [0, 1, 2]
    assert beat(ask, group, "m4", 0, topic).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_leaves_and_another_has_its_partitions(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    assert assigned(beat(ask, group, "m2", 0, topic)) == {2}

    left = beat(ask, group, "m1", -1)

    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "m1", -1)
    assert assigned(beat(ask, group, "m2", 3)) == {0, 1, 2}


def test_partitions_that_a_topic_gets_are_assigned(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)
    ask("CreatePartitions", 3, topics=[{"name": topic, "count": 4}], timeout_ms=1000)

    epoch = 2
    deadline = time.monotonic() + 5
    while assigned(answer := beat(ask, group, "m1", epoch)) != {0, 1, 2, 3}:
        epoch = answer.member_epoch
        assert time.monotonic() < deadline


def test_refusals_have_kafkas_words(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    def refusal(*args: Any, **fields: Any) -> tuple[int, str | None]:
        answer = beat(ask, *args, **fields)
        assert (answer.member_id, answer.assignment) == (None, None)
        return answer.error_code, answer.error_message

    assert refusal(group, "", 0, topic) == (ErrorCode.INVALID_REQUEST, None)
    assert refusal(group, "m", 0) == (
        ErrorCode.INVALID_REQUEST,
        "SubscribedTopicNames must be set in first request.",
    )
    assert refusal(group, "m2", 5) == (ErrorCode.UNKNOWN_MEMBER_ID, f"Member m2 is not a member of group {group}.")
    assert refusal("nobody", "m2", 5) == (ErrorCode.GROUP_ID_NOT_FOUND, "Share group nobody not found.")
    assert refusal("nobody", "m2", -1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert refusal(group, "m1", 9) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a greater member epoch (9) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin.",
    )
    assert refusal(group, "m1", 1) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (2), and it "
        "does not match the previous member epoch (0). The member must abandon all its partitions and rejoin.",
    )


def test_a_group_has_intervals_of_its_own(ask: Asker, group: str, topic: str) -> None:
    configs = [{"name": "share.heartbeat.interval.ms", "config_operation": 0, "value": "6000"}]
    resources = [{"resource_type": 32, "resource_name": group, "configs": configs}]
    ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)

    assert beat(ask, group, "m1", 0, topic).heartbeat_interval_ms == 6000


def test_a_group_survives_a_restart(tmp_path: Any, group: str) -> None:
    settings = {"data": str(tmp_path), "group.share.assignment.interval.ms": "0"}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)
        topic = ask.new_topic(2)
        assert assigned(beat(ask, group, "m1", 0, topic)) == {0, 1}
    with kompat.testing.broker(settings) as running:
        ask = Asker(running)

        answer = beat(ask, group, "m1", 2, topic)

        assert (answer.error_code, answer.member_epoch, assigned(answer)) == (ErrorCode.NONE, 2, {0, 1})
