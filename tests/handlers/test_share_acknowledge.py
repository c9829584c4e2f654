"""ShareAcknowledge as a client sees it; the rules themselves are tested with the machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kompat.errors import ErrorCode
from tests.handlers.share import ack_errors, acquired
from tests.handlers.share_queue import ACCEPT, RELEASE, Queue, ask, queue

__all__ = ["ask", "queue"]


@pytest.mark.parametrize("version", [1, 2])
def test_released_records_come_again_and_rejected_ones_do_not(queue: Callable[..., Queue], version: int) -> None:
    orders = queue()
    orders.numbers(6)
    alice = orders.member("alice", version)
    alice.fetch({orders.id: [0]})

    answer = alice.acknowledge(orders.said((0, 1, ACCEPT), (2, 3, RELEASE), (4, 5, [3, 2])))
    assert ack_errors(answer) == [0]
    assert acquired(alice.fetch()) == [(2, 3, 2), (5, 5, 2)]


def test_an_acknowledgement_of_what_is_not_held_is_refused(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(6)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]}, max_records=6)
    bob.fetch({orders.id: [0]}, max_wait_ms=0)

    assert ack_errors(bob.acknowledge(orders.said((0, 1, ACCEPT)))) == [ErrorCode.INVALID_RECORD_STATE]
    assert ack_errors(alice.acknowledge(orders.said((0, 5, ACCEPT)))) == [0]
    assert ack_errors(alice.acknowledge(orders.said((0, 5, ACCEPT)))) == [0]  # before the start: long done with


def test_the_end_of_a_session_lets_go(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})

    answer = alice.acknowledge(orders.said((0, 1, ACCEPT)), share_session_epoch=-1)
    assert ack_errors(answer) == [0]
    assert acquired(bob.fetch({orders.id: [0]})) == [(2, 4, 2)]
    assert alice.fetch(share_session_epoch=7).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
