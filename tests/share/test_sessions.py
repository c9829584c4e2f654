from __future__ import annotations

from uuid import UUID

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.share.sessions import MAX_EPOCH, ShareSessions
from kompat.types import LogId

A, B, C = (LogId(UUID(int=1), index) for index in range(3))


def test_a_session_remembers_what_is_fetched() -> None:
    session = ShareSessions(2).open("group", "alice", "connection", [A, B])
    session.advance(1)
    session.update([C], [A])
    assert list(session.partitions) == [B, C]


def test_epochs_go_on_by_one_and_never_back_to_the_first() -> None:
    session = ShareSessions(2).open("group", "alice", "connection", [])
    session.advance(1)
    with pytest.raises(KafkaError) as raised:
        session.advance(1)
    assert raised.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = MAX_EPOCH
    session.advance(MAX_EPOCH)
    assert session.epoch == 1


def test_there_are_only_so_many_sessions() -> None:
    sessions = ShareSessions(2)
    sessions.open("group", "alice", "1", [])
    sessions.open("group", "bob", "2", [])
    sessions.open("group", "alice", "3", [])  # in place of her first
    with pytest.raises(KafkaError) as raised:
        sessions.open("group", "carol", "4", [])
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_session_ends_with_the_connection_that_began_it() -> None:
    sessions = ShareSessions(5)
    sessions.open("group", "alice", "old", [A])
    sessions.open("group", "alice", "new", [A])
    assert sessions.disconnected("old") == []
    assert [session.member_id for session in sessions.disconnected("new")] == ["alice"]
    assert not sessions.has_members("group")
    assert len(sessions) == 0


def test_only_what_is_new_is_told() -> None:
    session = ShareSessions(2).open("group", "alice", "connection", [A])
    session.update([B], [])
    assert not session.must_report(A, has_records=False, has_failed=False)
    assert session.must_report(B, has_records=False, has_failed=False)  # it was added
    assert not session.must_report(B, has_records=False, has_failed=False)
    assert session.must_report(A, has_records=False, has_failed=True)
    assert session.must_report(A, has_records=False, has_failed=False)  # that the error is gone


def test_who_was_served_goes_to_the_end_of_the_line() -> None:
    session = ShareSessions(2).open("group", "alice", "connection", [A, B, C])
    session.must_report(A, has_records=True, has_failed=False)
    assert list(session.partitions) == [B, C, A]
