"""Committing, fetching, deleting and expiring offsets."""

from typing import Any
from uuid import UUID

import pytest

from kompat.errors import ErrorCode
from kompat.groups.config import GroupSettings, ModernGroupSettings
from kompat.groups.machine.messages import FetchedTopic, FetchRequest
from kompat.groups.records import OffsetCommit
from kompat.types import ProducerEpoch, ProducerId
from tests.groups.harness import START, Groups, code_of, replicated, topic_id_of

ORDERS = topic_id_of("orders")
AT_ONCE = GroupSettings(consumer=ModernGroupSettings(assignment_interval_ms=0))
DAY = 86_400_000
PRODUCER: dict[str, Any] = {"producer_id": ProducerId(9), "producer_epoch": ProducerEpoch(1), "api_version": 3}


def end(groups: Groups, *, is_commit: bool, producer: int = 9) -> None:
    groups.run(
        lambda machine: machine.end_transaction(
            ProducerId(producer), ProducerEpoch(1), is_commit=is_commit, now=groups.now
        )
    )


def delete(groups: Groups, topic: str = "orders", partition: int = 0) -> ErrorCode:
    wanted = [FetchedTopic(name=topic, partitions=(partition,))]
    return groups.run(lambda machine: machine.delete_offsets("g", wanted, groups.now))[0].partitions[0][1]


# --- who may commit


def test_a_simple_consumer_makes_a_group_by_committing() -> None:
    groups = Groups()

    assert groups.commit(5, metadata="note") is ErrorCode.NONE

    found = groups.fetch()
    assert (found.offset, found.metadata, found.leader_epoch, found.error) == (5, "note", -1, ErrorCode.NONE)
    assert groups.classic().is_simple


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_a_group_that_is_gone_cannot_commit(version: int, error: ErrorCode) -> None:
    assert Groups().commit(5, member_id="m", generation_id=1, api_version=version) is error


def test_a_member_commits_under_its_generation_only() -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    assert groups.commit(5, member_id=member, generation_id=1) is ErrorCode.NONE
    assert groups.commit(6, member_id=member, generation_id=0) is ErrorCode.ILLEGAL_GENERATION
    assert groups.commit(6, member_id="nobody", generation_id=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit(6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.fetch().offset == 5


def test_members_may_commit_before_they_rejoin_but_not_while_the_assignment_is_made() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.join_with_id()

    assert groups.commit(5, member_id=member, generation_id=1) is ErrorCode.NONE
    groups.join(member_id=member)
    assert groups.classic().state == "CompletingRebalance"
    assert groups.commit(6, member_id=member, generation_id=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_counts_as_a_heartbeat() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.advance(9_000)

    groups.commit(5, member_id=member, generation_id=1)
    groups.advance(9_000)

    assert groups.heartbeat(member, 1) is ErrorCode.NONE


def test_an_empty_group_takes_commits_from_administrators() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.leave(member)

    assert groups.commit(7) is ErrorCode.NONE
    assert groups.fetch().offset == 7


def test_a_member_of_a_consumer_group_commits_under_its_epoch() -> None:
    groups = Groups()
    groups.enter("a")

    assert groups.commit(5, member_id="a", generation_id=2) is ErrorCode.NONE
    assert groups.commit(5, member_id="a", generation_id=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert groups.commit(5, member_id="b", generation_id=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit(5, member_id="a", generation_id=2, api_version=8) is ErrorCode.UNSUPPORTED_VERSION


def test_an_older_epoch_is_good_for_partitions_held_since_then() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})

    assert groups.commit(5, member_id="a", generation_id=2, partition=0) is ErrorCode.NONE
    assert groups.commit(5, member_id="a", generation_id=1, partition=0) is ErrorCode.STALE_MEMBER_EPOCH
    assert groups.commit(5, member_id="a", generation_id=2, partition=3) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_partition_that_is_being_given_up_may_still_be_committed() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)

    assert groups.commit(5, member_id="a", generation_id=2, partition=3) is ErrorCode.NONE


def test_an_empty_consumer_group_takes_commits_from_administrators() -> None:
    groups = Groups()
    groups.enter("a")
    groups.beat("a", -1)

    assert groups.commit(7) is ErrorCode.NONE


def test_metadata_has_a_limit() -> None:
    groups = Groups(GroupSettings(offset_metadata_max_bytes=3))

    assert groups.commit(1, metadata="abc") is ErrorCode.NONE
    assert groups.commit(2, metadata="abcd") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert groups.fetch().offset == 1


# --- fetching


def test_what_was_never_committed_is_minus_one() -> None:
    groups = Groups()
    groups.commit(5)

    assert groups.fetch(partition=1).offset == groups.fetch(topic="payments").offset == -1
    assert groups.fetch(group_id="nowhere").offset == -1


def test_all_offsets_of_a_group_are_fetched_without_naming_them() -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(6, partition=1)
    groups.commit(7, topic="payments")

    found = groups.run(lambda machine: machine.fetch_offsets(FetchRequest(group_id="g")))

    offsets = {(topic.name, each.partition): each.offset for topic in found for each in topic.partitions}
    assert offsets == {("orders", 0): 5, ("orders", 1): 6, ("payments", 0): 7}
    assert groups.run(lambda machine: machine.fetch_offsets(FetchRequest(group_id="nowhere"))) == ()


def test_an_offset_of_a_deleted_topic_is_not_that_of_its_namesake() -> None:
    groups = Groups()
    groups.commit(5)

    assert groups.fetch(topic_id=UUID(int=99)).offset == -1
    assert groups.fetch(topic_id=UUID(int=0)).offset == 5


def test_a_member_of_a_consumer_group_fetches_under_its_epoch() -> None:
    groups = Groups()
    groups.enter("a")
    groups.commit(5, member_id="a", generation_id=2)

    assert groups.fetch(member_id="a", member_epoch=2).offset == 5
    assert groups.fetch().offset == 5
    assert code_of(lambda: groups.fetch(member_id="a", member_epoch=1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(lambda: groups.fetch(member_id="b", member_epoch=2)) is ErrorCode.UNKNOWN_MEMBER_ID


# --- transactions


def test_offsets_of_a_transaction_are_pending_until_it_is_committed() -> None:
    groups = Groups()
    groups.commit(5)

    assert groups.commit(8, **PRODUCER) is ErrorCode.NONE
    assert groups.fetch().offset == 5
    assert groups.fetch(require_stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end(groups, is_commit=True)

    assert groups.fetch(require_stable=True).offset == 8


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(8, **PRODUCER)

    end(groups, is_commit=False)

    assert groups.fetch(require_stable=True).offset == 5
    end(groups, is_commit=True)
    assert groups.fetch().offset == 5


def test_a_plain_commit_after_the_transactions_own_is_the_newer_one() -> None:
    groups = Groups()
    groups.commit(8, **PRODUCER)
    groups.commit(9)

    end(groups, is_commit=True)

    assert groups.fetch().offset == 9


def test_another_producers_transaction_is_another_matter() -> None:
    groups = Groups()
    groups.commit(8, **PRODUCER)
    groups.commit(9, **{**PRODUCER, "producer_id": ProducerId(10)})

    end(groups, is_commit=True, producer=9)
    assert groups.fetch(require_stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end(groups, is_commit=True, producer=10)

    assert groups.fetch(require_stable=True).offset == 9


def test_a_transactional_commit_carries_its_producer_and_no_topic_id() -> None:
    groups = Groups()
    groups.commit(8, **PRODUCER)

    (record,) = groups.log

    assert isinstance(record, OffsetCommit)
    assert record.value is not None
    assert (record.producer_id, record.producer_epoch, record.value.topic_id) == (9, 1, UUID(int=0))


def test_a_transactional_commit_is_checked_like_any_other() -> None:
    groups = Groups()
    (member,) = groups.stable(1)

    assert groups.commit(5, member_id=member, generation_id=0, **PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert groups.commit(5, member_id="nobody", generation_id=1, **PRODUCER) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit(5, member_id=member, generation_id=1, **PRODUCER) is ErrorCode.NONE
    assert groups.commit(5, **PRODUCER) is ErrorCode.NONE  # producers of before KIP-447 do not say who they are
    assert groups.commit(5, group_id="nowhere", generation_id=1, **PRODUCER) is ErrorCode.ILLEGAL_GENERATION


def test_a_producer_that_does_not_say_who_it_is_may_commit_to_a_consumer_group() -> None:
    groups = Groups()
    groups.enter("a")

    assert groups.commit(5, **PRODUCER) is ErrorCode.NONE
    assert groups.commit(5, member_id="nobody", generation_id=2, **PRODUCER) is ErrorCode.UNKNOWN_MEMBER_ID


def test_to_a_producer_a_stale_epoch_is_an_illegal_generation() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.beat("a", 2, topic_partitions={ORDERS: (0, 1)})

    assert groups.commit(5, member_id="a", generation_id=4, **PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert groups.commit(5, member_id="a", generation_id=2, partition=3, **PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert groups.commit(5, member_id="a", generation_id=2, partition=0, **PRODUCER) is ErrorCode.NONE
    unknown = groups.commit(5, topic="unknown", member_id="a", generation_id=2, **PRODUCER)
    assert unknown is ErrorCode.ILLEGAL_GENERATION


# --- deleting


def test_offsets_are_deleted_unless_the_group_is_subscribed() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.commit(5, member_id=member, generation_id=1)
    groups.commit(6, topic="payments", member_id=member, generation_id=1)

    assert delete(groups, "orders") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(groups, "payments") is ErrorCode.NONE

    assert (groups.fetch().offset, groups.fetch(topic="payments").offset) == (5, -1)


def test_a_consumer_group_keeps_the_offsets_of_its_subscription_too() -> None:
    groups = Groups()
    groups.enter("a")
    groups.commit(5, member_id="a", generation_id=2)

    assert delete(groups) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    groups.beat("a", -1)
    assert delete(groups) is ErrorCode.NONE
    assert groups.fetch().offset == -1


def test_nothing_is_deleted_from_a_group_of_which_the_topics_are_unknown() -> None:
    groups = Groups()
    (member,) = groups.stable(1, protocol_type="connect")
    groups.commit(5, member_id=member, generation_id=1)

    assert code_of(lambda: delete(groups)) is ErrorCode.NON_EMPTY_GROUP
    assert code_of(lambda: groups.run(lambda machine: machine.delete_offsets("nowhere", [], groups.now))) is (
        ErrorCode.GROUP_ID_NOT_FOUND
    )


def test_a_consumer_whose_subscription_cannot_be_read_is_subscribed_to_everything() -> None:
    groups = Groups()
    (member,) = groups.stable(1, protocols=[("range", b"\xff")])
    groups.commit(5, member_id=member, generation_id=1)

    assert delete(groups) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_deleting_takes_pending_offsets_with_it() -> None:
    groups = Groups()
    groups.commit(8, **PRODUCER)

    assert delete(groups) is ErrorCode.NONE
    end(groups, is_commit=True)

    assert groups.fetch(require_stable=True).offset == -1


def test_a_group_that_only_has_pending_offsets_is_deleted_with_them() -> None:
    groups = Groups()
    groups.commit(8, **PRODUCER)
    groups.commit(9, partition=1, **PRODUCER)
    groups.commit(9, partition=1)

    groups.run(lambda machine: machine.delete_groups(["g"], groups.now))
    end(groups, is_commit=True)

    assert not groups.group_ids()
    assert groups.fetch().offset == -1


def test_an_unnamed_group_has_no_offsets_to_delete() -> None:
    groups = Groups()

    error = code_of(lambda: groups.run(lambda machine: machine.delete_offsets("", [], groups.now)))

    assert error is ErrorCode.INVALID_GROUP_ID


def test_offsets_go_with_their_topic_and_those_of_its_namesake_stay() -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(6, group_id="other", topic_id=UUID(int=0))
    groups.commit(7, group_id="namesake", topic_id=UUID(int=99))
    groups.commit(8, partition=1, **PRODUCER)

    groups.run(lambda machine: machine.topics_deleted([("orders", ORDERS)], groups.now))
    end(groups, is_commit=True)

    assert [groups.fetch(group_id=each).offset for each in ("g", "other")] == [-1, -1]
    assert groups.fetch(partition=1).offset == -1
    assert groups.fetch(group_id="namesake", topic_id=UUID(int=99)).offset == 7


# --- expiry


def test_offsets_of_a_simple_consumer_expire_after_their_last_commit() -> None:
    groups = Groups()
    groups.commit(5)
    groups.advance(4 * DAY)
    groups.commit(6, partition=1)

    groups.advance(3 * DAY + 600_000)
    assert (groups.fetch().offset, groups.fetch(partition=1).offset) == (-1, 6)
    groups.advance(4 * DAY)

    assert not groups.group_ids()
    assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_offsets_of_a_classic_group_expire_when_it_has_been_empty_for_long() -> None:
    groups = Groups()
    (member,) = groups.stable(1)
    groups.commit(5, member_id=member, generation_id=1)
    for _ in range(0, 8 * DAY, 3_600_000):
        groups.now += 3_600_000  # type: ignore[assignment]
        groups.heartbeat(member, 1)
    groups.leave(member)

    groups.advance(6 * DAY)
    assert groups.fetch().offset == 5
    groups.advance(DAY + 600_000)

    assert not groups.group_ids()


def test_topics_that_a_stable_group_no_longer_consumes_expire() -> None:
    groups = Groups()
    (member,) = groups.stable(1, session_ms=1_800_000)
    groups.commit(5, member_id=member, generation_id=1)
    groups.commit(6, topic="payments", member_id=member, generation_id=1)
    for _ in range(0, 7 * DAY + 1_800_000, 900_000):
        groups.advance(900_000)
        assert groups.heartbeat(member, 1) is ErrorCode.NONE

    assert (groups.fetch().offset, groups.fetch(topic="payments").offset) == (5, -1)


def test_a_group_of_which_the_topics_are_unknown_keeps_all_offsets_while_it_lives() -> None:
    groups = Groups(GroupSettings(max_session_timeout_ms=10 * DAY))
    (member,) = groups.stable(1, protocol_type="connect", session_ms=10 * DAY)
    groups.commit(5, member_id=member, generation_id=1)

    groups.advance(8 * DAY)

    assert groups.fetch().offset == 5


def test_settings_may_change_while_it_runs() -> None:
    groups = Groups()
    groups.commit(5)
    groups.machine.settings = GroupSettings(offsets_retention_ms=600_000)

    groups.advance(600_000)

    assert groups.machine.settings.offsets_retention_ms == 600_000
    assert not groups.group_ids()


def test_a_retention_time_of_the_commit_itself_wins() -> None:
    groups = Groups()
    groups.commit(5, retention_time_ms=1_000, api_version=2)
    groups.commit(6, partition=1)

    groups.advance(600_000)

    assert (groups.fetch().offset, groups.fetch(partition=1).offset) == (-1, 6)


def test_a_pending_transaction_keeps_its_offset_and_its_group() -> None:
    groups = Groups()
    groups.commit(5)
    groups.commit(8, **PRODUCER)

    groups.advance(8 * DAY)

    assert groups.fetch().offset == 5
    end(groups, is_commit=False)
    groups.advance(DAY)
    assert not groups.group_ids()


def test_an_empty_group_without_offsets_is_cleaned_up() -> None:
    groups = Groups()
    groups.enter("a", group_id="modern")
    groups.beat("a", -1, group_id="modern")
    groups.join("classic")

    groups.advance(600_000)

    assert not groups.group_ids()
    assert groups.now == START + 600_000


def test_many_offsets_expire_in_several_batches() -> None:
    groups = Groups(GroupSettings(offsets_retention_check_interval_ms=8 * DAY))
    for number in range(1_500):
        groups.commit(number, group_id=f"g{number}")
    written = len(groups.log)

    groups.advance(8 * DAY)

    assert not groups.group_ids()
    assert len(groups.log) == written + 2 * 1_500


def test_offsets_never_move_by_themselves() -> None:
    groups = Groups(AT_ONCE)
    groups.enter("a")
    groups.commit(5, member_id="a", generation_id=2)

    groups.enter("b")
    groups.beat("a", -1)
    groups.advance(100_000)
    groups.restart()

    assert groups.fetch().offset == 5
