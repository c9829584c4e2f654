"""TxnOffsetCommit: a group's offsets as part of a producer's transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import a_consumer, commit, committed, new_group, only_member
from tests.handlers.transactions import Transactional, a_producer, eventually

NOT_YET = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
NOTHING = (ErrorCode.NONE, -1)


def stable(ask: Asker, group: str, topic: str) -> tuple[ErrorCode, int]:
    return committed(ask, group, topic, require_stable=True)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_become_true_when_the_transaction_commits(
    prompt: Asker, topic: str, version: int, is_commit: bool
) -> None:
    group, producer = new_group(), a_producer(prompt, version=version)
    commit(prompt, group, topic, 3)
    if version < 5:
        producer.add_group(group)

    assert producer.commit_offsets(group, topic, 7, version) == [ErrorCode.NONE]
    assert stable(prompt, group, topic) == NOT_YET
    assert committed(prompt, group, topic) == (ErrorCode.NONE, 3)
    (producer.commit if is_commit else producer.abort)()
    assert stable(prompt, group, topic) == (ErrorCode.NONE, 7 if is_commit else 3)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.NONE),
    ],
)
def test_before_version_5_the_group_has_to_be_added_first(
    prompt: Asker, topic: str, version: int, code: ErrorCode
) -> None:
    group = new_group()

    assert a_producer(prompt).commit_offsets(group, topic, version=version) == [code]
    assert stable(prompt, group, topic) == (NOT_YET if code is ErrorCode.NONE else NOTHING)


def test_the_next_transactions_offsets_are_its_own(prompt: Asker, topic: str) -> None:
    group, producer = new_group(), a_producer(prompt, version=5)
    producer.commit_offsets(group, topic, 7)
    producer.commit()

    assert producer.commit_offsets(group, topic, 8) == [ErrorCode.NONE]
    producer.abort()
    assert stable(prompt, group, topic) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize("version", range(6))
def test_only_who_holds_the_transactional_id_commits_offsets(prompt: Asker, topic: str, version: int) -> None:
    held, group = a_producer(prompt), new_group()
    held.add_group(group)

    def try_to(**other: Any) -> list[ErrorCode]:
        fields = {"name": held.name, "id": held.id, "epoch": held.epoch, **other}
        return Transactional(prompt, **fields).commit_offsets(group, topic, version=version)

    assert try_to(name="nobody") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert try_to(id=held.id + 10**6) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert try_to(epoch=9) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert stable(prompt, group, topic) == NOTHING


def test_what_does_not_exist_is_answered_by_itself(prompt: Asker, topic: str) -> None:
    group, producer = new_group(), a_producer(prompt)

    codes = producer.commit_offsets(group, topic, partitions=[9, 0])

    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    unknown = producer.commit_offsets("", "no-such-topic")
    assert unknown == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.commit_offsets("", topic) == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"member_id": "", "generation_id": -1}, ErrorCode.NONE),
        ({"generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_groups_member_is_checked_too(prompt: Asker, topic: str, fields: dict[str, Any], code: ErrorCode) -> None:
    group, producer = new_group(), a_producer(prompt)
    member = only_member(prompt, group)
    as_member = {"member_id": member.member_id, "generation_id": member.generation_id}

    assert producer.commit_offsets(group, topic, **{**as_member, **fields}) == [code]


def test_members_of_consumer_groups_commit_with_their_epoch(prompt: Asker, topic: str) -> None:
    consumer, producer = a_consumer(prompt), a_producer(prompt)
    epoch = consumer.join(topic).member_epoch

    def try_to(told: int) -> list[ErrorCode]:
        fields: dict[str, Any] = {"member_id": consumer.member_id, "generation_id": told}
        return producer.commit_offsets(consumer.group, topic, **fields)

    assert try_to(epoch) == [ErrorCode.NONE]
    assert try_to(epoch + 1) == [ErrorCode.ILLEGAL_GENERATION]


def test_a_group_that_a_transaction_is_about_to_change_shows_its_pending_offsets_as_unstable(
    prompt: Asker, topic: str
) -> None:
    group, producer = new_group(), a_producer(prompt, version=5)
    commit(prompt, group, topic, 3, partitions=[0, 1])
    producer.commit_offsets(group, topic, 7)

    [answer] = prompt("OffsetFetch", 9, groups=[{"group_id": group, "topics": None}], require_stable=True).groups

    partitions = {each.partition_index: each for each in answer.topics[0].partitions}
    told = {index: (each.error_code, each.committed_offset) for index, each in partitions.items()}
    assert told == {0: NOT_YET, 1: (ErrorCode.NONE, 3)}
    assert answer.error_code == ErrorCode.NONE


def test_offsets_of_a_transaction_that_is_left_alone_are_dropped_after_its_time(prompt: Asker, topic: str) -> None:
    group, producer = new_group(), a_producer(prompt, version=5)
    producer.init(timeout_ms=1)
    producer.commit_offsets(group, topic, 7)

    assert eventually(lambda: stable(prompt, group, topic), lambda found: found[0] is ErrorCode.NONE) == NOTHING
