"""Fetch sessions: what is remembered, what is told, what is refused."""

from itertools import count
from uuid import UUID

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchSessions, Plan
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kompat.types import ZERO_UUID, Millis

NOW = Millis(1_000_000)
BY_NAME, BY_ID = 12, 13  # versions of Fetch


def request(
    *offsets: int, session_id: int = 0, epoch: int = 0, forget: tuple[int, ...] = (), topic_id: UUID = ZERO_UUID
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=i, fetch_offset=offset, partition_max_bytes=1000) for i, offset in enumerate(offsets)
    ]
    made = FetchRequest([FetchTopic("t", topic_id, partitions)] if partitions else [])
    made.session_id, made.session_epoch = session_id, epoch
    made.forgotten_topics_data = [ForgottenTopic("t", topic_id, list(forget))] if forget else []
    return made


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, Millis(120_000), count(1).__next__)


def code_of(cache: FetchSessions, req: FetchRequest, version: int = BY_NAME) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        cache.plan(req, version, NOW)
    return raised.value.code


def tell(plan: Plan, *, size: int = 0, high_watermark: int = 5) -> list[int]:
    """The partitions that an answer with these facts names."""
    return [
        w.index
        for w in plan.wanted
        if plan.must_answer(w, size=size, high_watermark=high_watermark, log_start_offset=0, failed=False)
    ]


def test_a_full_fetch_opens_a_session_and_answers_every_partition() -> None:
    plan = sessions().plan(request(0, 0), BY_NAME, NOW)

    assert plan.session_id == 1
    assert tell(plan) == [0, 1]


def test_a_fetch_with_the_final_epoch_has_no_session() -> None:
    cache = sessions()

    plan = cache.plan(request(0, epoch=FINAL_EPOCH), BY_NAME, NOW)

    assert plan.session_id == NO_SESSION
    assert len(cache) == 0


def test_an_incremental_fetch_remembers_what_it_does_not_name() -> None:
    cache = sessions()
    tell(cache.plan(request(7, 8), BY_NAME, NOW))

    plan = cache.plan(request(session_id=1, epoch=1), BY_NAME, NOW)

    assert [(w.index, w.fetch_offset) for w in plan.wanted] == [(0, 7), (1, 8)]


def test_an_incremental_answer_names_only_what_changed() -> None:
    cache = sessions()
    tell(cache.plan(request(0, 0), BY_NAME, NOW))

    assert tell(cache.plan(request(session_id=1, epoch=1), BY_NAME, NOW)) == []
    assert tell(cache.plan(request(session_id=1, epoch=2), BY_NAME, NOW), high_watermark=6) == [0, 1]
    assert tell(cache.plan(request(session_id=1, epoch=3), BY_NAME, NOW), high_watermark=6) == []


def test_after_an_error_the_partition_is_told_again() -> None:
    cache = sessions()
    plan = cache.plan(request(0), BY_NAME, NOW)
    plan.must_answer(plan.wanted[0], size=0, high_watermark=-1, log_start_offset=-1, failed=True)

    assert tell(cache.plan(request(session_id=1, epoch=1), BY_NAME, NOW)) == [0]


def test_who_was_served_goes_to_the_end_of_the_line() -> None:
    cache = sessions()
    plan = cache.plan(request(0, 0, 0), BY_NAME, NOW)
    plan.must_answer(plan.wanted[0], size=100, high_watermark=5, log_start_offset=0, failed=False)

    assert [w.index for w in cache.plan(request(session_id=1, epoch=1), BY_NAME, NOW).wanted] == [1, 2, 0]


def test_a_forgotten_partition_is_not_fetched() -> None:
    cache = sessions()
    cache.plan(request(0, 0), BY_NAME, NOW)

    assert [w.index for w in cache.plan(request(session_id=1, epoch=1, forget=(0,)), BY_NAME, NOW).wanted] == [1]


def test_a_session_that_wants_nothing_any_more_is_closed() -> None:
    cache = sessions()
    cache.plan(request(0), BY_NAME, NOW)

    plan = cache.plan(request(session_id=1, epoch=1, forget=(0,)), BY_NAME, NOW)

    assert (plan.session_id, plan.wanted, len(cache)) == (NO_SESSION, [], 0)


def test_an_unknown_session_and_a_wrong_epoch_are_refused() -> None:
    cache = sessions()
    cache.plan(request(0), BY_NAME, NOW)

    assert code_of(cache, request(session_id=9, epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code_of(cache, request(session_id=1, epoch=2)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_by_name_cannot_go_on_by_id() -> None:
    cache = sessions()
    cache.plan(request(0), BY_NAME, NOW)

    assert (
        code_of(cache, request(3, session_id=1, epoch=1, topic_id=UUID(int=5)), BY_ID)
        is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    )


@pytest.mark.parametrize(("opened", "continued"), [(BY_NAME, BY_ID), (BY_ID, BY_NAME)])
def test_a_request_that_names_no_topic_is_held_to_its_sessions_versions_too(opened: int, continued: int) -> None:
    cache = sessions()
    cache.plan(request(0, topic_id=UUID(int=5) if opened == BY_ID else ZERO_UUID), opened, NOW)

    assert code_of(cache, request(session_id=1, epoch=1), continued) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.plan(request(session_id=1, epoch=1), opened, NOW).session_id == 1


def test_a_full_cache_gives_no_session_until_one_has_been_unused_for_long() -> None:
    cache = sessions(slots=1)
    cache.plan(request(0), BY_NAME, NOW)

    assert cache.plan(request(0), BY_NAME, Millis(NOW + 1000)).session_id == NO_SESSION
    assert cache.plan(request(0), BY_NAME, Millis(NOW + 120_000)).session_id == 2
    assert code_of(cache, request(session_id=1, epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
