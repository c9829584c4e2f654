"""DescribeTransactions."""

from __future__ import annotations

import time

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import a_producer


def test_a_transaction_is_described(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt)
    now = int(time.time() * 1000)
    producer.add(topic, 1)

    found = producer.describe()

    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, producer.name, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (producer.id, producer.epoch)
    assert found.transaction_timeout_ms == 60_000
    assert 0 <= found.transaction_start_time_ms - now < 60_000


def test_each_transactional_id_that_cannot_be_described_says_why(prompt: Asker) -> None:
    answer = prompt("DescribeTransactions", 0, transactional_ids=["nobody", ""])

    assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]
