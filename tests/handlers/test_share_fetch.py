"""ShareFetch as a client sees it; the rules themselves are tested with the machines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Timer
from time import monotonic
from uuid import UUID

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.share import ack_errors, acquired, values
from tests.handlers.share_queue import ACCEPT, RENEW, Queue, ask, queue

__all__ = ["ask", "queue"]


def test_a_member_gets_records_and_another_does_not_get_them_too(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(10)
    alice, bob = orders.member("alice"), orders.member("bob")

    answer = alice.fetch({orders.id: [0]})
    assert acquired(answer) == [(0, 9, 1)]
    assert values(answer) == [b"%d" % i for i in range(10)]
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert acquired(bob.fetch({orders.id: [0]}, max_wait_ms=100)) == []


def test_what_is_acknowledged_with_the_next_fetch_does_not_come_again(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(4)
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]})
    orders.numbers(2)

    answer = alice.fetch(acks=orders.said((0, 3, ACCEPT)))
    assert ack_errors(answer) == [0]
    assert acquired(answer) == [(4, 5, 1)]


def test_a_fetch_waits_for_records(queue: Callable[..., Queue]) -> None:
    orders = queue()
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]}, max_wait_ms=0)
    first = alice.fetch(max_wait_ms=1)
    assert first.responses == []
    timer = Timer(0.2, orders.numbers, (3,))
    timer.start()
    assert acquired(alice.fetch(max_wait_ms=10_000)) == [(0, 2, 1)]
    timer.join()


def test_record_limit_gives_no_more_than_asked(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(10)
    alice, bob = orders.member("alice"), orders.member("bob")

    answer = alice.fetch({orders.id: [0]}, max_records=3, share_acquire_mode=1)
    assert acquired(answer) == [(0, 2, 1)]
    assert values(answer) == [b"0", b"1", b"2"]
    assert acquired(bob.fetch({orders.id: [0]}, max_records=3)) == [(3, 9, 1)]


def test_a_connection_that_breaks_lets_go(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})
    alice.close()

    assert acquired(bob.fetch({orders.id: [0]})) == [(0, 4, 2)]


def test_session_epochs_are_checked(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice = orders.member("alice")

    assert alice.fetch(share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert alice.fetch({orders.id: [0]}).error_code == 0
    assert alice.fetch(share_session_epoch=5).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert alice.acknowledge({}, share_session_epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    opening = alice.fetch({orders.id: [0]}, orders.said((0, 1, ACCEPT)), share_session_epoch=0)
    assert opening.error_code == ErrorCode.INVALID_REQUEST


def test_unknown_topics_and_partitions_are_told(queue: Callable[..., Queue]) -> None:
    orders = queue()
    answer = orders.member("alice").fetch({UUID(int=99): [0], orders.id: [7]})
    errors = {topic.topic_id: [p.error_code for p in topic.partitions] for topic in answer.responses}
    assert errors == {
        UUID(int=99): [ErrorCode.UNKNOWN_TOPIC_ID],
        orders.id: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    }


def test_renewing_keeps_records(queue: Callable[..., Queue]) -> None:
    orders = queue(share_record_lock_duration_ms="2000")
    orders.numbers(2)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})
    assert acquired(bob.fetch({orders.id: [0]}, max_wait_ms=500)) == []
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "is_renew_ack": True}

    assert ack_errors(alice.fetch(acks=orders.said((0, 0, RENEW)), **nothing)) == [0]
    assert acquired(bob.fetch(max_wait_ms=10_000)) == [(1, 1, 2)]
    assert acquired(bob.fetch(max_wait_ms=10_000)) == [(0, 0, 2)]


def test_a_session_too_many_is_refused_when_its_time_is_up() -> None:
    with ExitStack() as stack:
        running = stack.enter_context(kompat.testing.broker({"group.share.max.share.sessions": 1}))
        orders = Queue(Asker(running), stack)
        orders.member("alice").fetch({orders.id: [0]}, max_wait_ms=0)
        begun = monotonic()
        answer = orders.member("bob").fetch({orders.id: [0]}, max_wait_ms=300)
        assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert monotonic() - begun >= 0.3
